import type { IncomingMessage } from "node:http";
import { type BodyResult, problemResponse } from "./response.ts";

const BODY_BYTES_MAX = 65_536;
/** After an answer that came before the end of the body: read past this much. */
export const LINGER_BYTES_MAX = 1_048_576;

/** `application/json`, with no parameter but `charset=utf-8`; in any case (RFC 9110 8.3.1). */
export function isJson(contentType: string | undefined): boolean {
  return /^application\/json *(?:; *charset="?utf-8"?)? *$/i.test(contentType ?? "");
}

/** The members of the body: one JSON object of limited length; no body at all is an empty one. */
export async function readJsonBody(
  request: IncomingMessage,
  bytesMax = BODY_BYTES_MAX,
): Promise<BodyResult<Readonly<Record<string, unknown>>>> {
  const bytes = await readBytes(request, bytesMax);
  if (bytes === undefined) {
    return {
      ok: false,
      answer: problemResponse("body_too_large", `The body is larger than ${bytesMax / 1_024} KiB`),
    };
  }
  if (bytes.length === 0) return { ok: true, value: {} };
  const value = parse(bytes);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return {
      ok: false,
      answer: problemResponse("bad_request", "The body must be one JSON object, in UTF-8"),
    };
  }
  return { ok: true, value: value as Record<string, unknown> };
}

/** Undefined when it is too large. Rejects when the client goes away before the end. */
function readBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) resolve(undefined);
      else chunks.push(chunk);
    });
    request.once("end", () => resolve(Buffer.concat(chunks)));
    request.once("error", reject);
  });
}

/** Undefined for anything that is not JSON; none of it goes into a message, as it may hold secrets. */
function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
