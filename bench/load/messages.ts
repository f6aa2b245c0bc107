import type { Message } from "./connection.ts";

/** The kinds of traffic: `closed` asks without pause, `paced` so many times a second. */
export const LOADS = ["closed", "paced", "down", "up"] as const;
export type LoadName = (typeof LOADS)[number];

/** Bytes of the bodies of `down` and `up`. */
export const BODY_BYTES = 65_536;

const UPLOAD = Buffer.alloc(BODY_BYTES, "a");

/** Gives requests with the keys in turn, without end. */
export function messages(load: LoadName, keys: readonly string[]): () => Message {
  let turn = 0;
  const key = () => keys[turn++ % keys.length] ?? "";
  if (load === "up") return () => Buffer.concat([Buffer.from(uploadHead(key())), UPLOAD]);
  const path = load === "down" ? "/v1/pets/1" : "/v1/pets";
  return () => head("GET", path, key());
}

function uploadHead(key: string): string {
  const fields = `Content-Type: application/json\r\nContent-Length: ${BODY_BYTES}\r\n`;
  return head("POST", "/v1/pets", key, fields);
}

function head(method: string, path: string, key: string, fields = ""): string {
  return `${method} ${path} HTTP/1.1\r\nHost: bench.test\r\nAuthorization: Bearer ${key}\r\n${fields}\r\n`;
}
