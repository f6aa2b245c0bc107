import { readFileSync } from "node:fs";

/** Exact bytes for the gateway, and what is allowed to come of them. */
export type SmugglingVector = {
  readonly name: string;
  readonly bytes: Buffer;
  readonly why: string;
  readonly expect: "reject" | "normalise" | "forward";
  /** Any of these; 0 is a connection that closes without an answer. */
  readonly status: readonly number[];
  readonly backend_max: number;
};

/** Exact bytes of a hostile backend, and what the client may see. */
export type UpstreamVector = {
  readonly name: string;
  readonly bytes: Buffer;
  readonly why: string;
  readonly expect: "reject" | "normalise" | "truncate";
  readonly client_status: readonly number[];
  readonly after: "eof" | "keep" | "rst-80ms" | "hang" | "endless";
};

export function smugglingVectors(): SmugglingVector[] {
  return read("smuggling.jsonl") as SmugglingVector[];
}

export function upstreamVectors(): UpstreamVector[] {
  return read("upstream_responses.jsonl") as UpstreamVector[];
}

function read(name: string): unknown[] {
  const text = readFileSync(new URL(`../../vectors/${name}`, import.meta.url), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => {
      const { bytes_base64, ...vector } = JSON.parse(line) as { bytes_base64: string };
      return { ...vector, bytes: Buffer.from(bytes_base64, "base64") };
    });
}
