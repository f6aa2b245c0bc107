import type { IncomingMessage } from "node:http";
import { isObject } from "../../base/is-object.ts";
import { parseJson } from "../../base/parse-json.ts";
import { decodeUtf8 } from "../../base/utf8.ts";
import { type BodyResult, problemResponse } from "./response.ts";

const BODY_BYTES_MAX = 65_536;
/** If a response is sent before the end of the body, at most this much more is read. */
export const LINGER_BYTES_MAX = 1_048_576;

/** Whether a type is `application/json`, alone or with `charset=utf-8` (RFC 9110 8.3.1). */
export function isJson(contentType: string | undefined): boolean {
  return /^application\/json *(?:; *charset="?utf-8"?)? *$/i.test(contentType ?? "");
}

/**
 * The members of the body: one JSON object of limited length. An absent body is an empty object.
 */
export async function readJsonBody(
  request: IncomingMessage,
  bytesMax = BODY_BYTES_MAX,
): Promise<BodyResult<Readonly<Record<string, unknown>>>> {
  const bytes = await readBytes(request, bytesMax);
  if (bytes === undefined) {
    return {
      ok: false,
      response: problemResponse(
        "body_too_large",
        `The body is larger than ${bytesMax / 1_024} KiB`,
      ),
    };
  }
  if (bytes.length === 0) return { ok: true, value: {} };
  // Messages do not quote what is not JSON, because it may hold secrets.
  const value = parseJson(decodeUtf8(bytes) ?? "");
  if (!isObject(value)) {
    return {
      ok: false,
      response: problemResponse("bad_request", "The body must be one JSON object, in UTF-8"),
    };
  }
  return { ok: true, value };
}

/** Undefined if the body is too large. Never settles if the client disconnects before its end. */
function readBytes(request: IncomingMessage, bytesMax: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) resolve(undefined);
      else chunks.push(chunk);
    });
    request.once("end", () => resolve(Buffer.concat(chunks)));
  });
}
