/** One HTTP/1.1 request as it was on the wire to a backend. Values are Latin-1, without outer blanks. */
export type RawRequest = {
  readonly method: string;
  readonly target: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
};

/** `unfinished` wants more bytes; `problem` says what no client should ever have written. */
export type ParsedRequest =
  | { readonly request: RawRequest; readonly rest: Buffer }
  | { readonly problem: string }
  | "unfinished";

const REQUEST_LINE = /^([A-Z]+) (\*|\/[\x21-\x7e]*) HTTP\/1\.1$/;
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;
const BODILESS = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Reads the first request of the bytes, to the letter of RFC 9112 and without any leniency: what it
 * refuses, some backend would read otherwise than another.
 */
export function parseRequest(bytes: Buffer): ParsedRequest {
  const end = bytes.indexOf("\r\n\r\n");
  if (end === -1) return "unfinished";
  const [first = "", ...lines] = bytes.toString("latin1", 0, end).split("\r\n");
  const match = REQUEST_LINE.exec(first);
  if (match === null) return { problem: `not a request line: ${JSON.stringify(first)}` };
  const [, method = "", target = ""] = match;
  const fields: [string, string][] = [];
  for (const line of lines) {
    const field = FIELD.exec(line);
    if (field === null) return { problem: `not a field: ${JSON.stringify(line)}` };
    fields.push([field[1] as string, field[2] as string]);
  }
  const named = (name: string) => fields.filter(([is]) => is.toLowerCase() === name);
  const lengths = named("content-length");
  const codings = named("transfer-encoding");
  if (named("host").length !== 1) return { problem: "not one Host" };
  if (lengths.length + codings.length > 1) return { problem: "more than one framing" };
  if (lengths.length + codings.length === 1 && BODILESS.has(method)) {
    return { problem: `framing on ${method}` };
  }
  const framed = readBody(bytes.subarray(end + 4), lengths[0]?.[1], codings[0]?.[1]);
  if (framed === "unfinished" || "problem" in framed) return framed;
  return { request: { method, target, fields, body: framed.body }, rest: framed.rest };
}

type ReadBody =
  | { readonly body: Buffer; readonly rest: Buffer }
  | { readonly problem: string }
  | "unfinished";

function readBody(bytes: Buffer, length: string | undefined, coding: string | undefined): ReadBody {
  if (coding !== undefined) {
    return coding === "chunked" ? readChunks(bytes) : { problem: `coding ${coding}` };
  }
  if (length === undefined) return { body: Buffer.alloc(0), rest: bytes };
  if (!/^(?:0|[1-9]\d{0,14})$/.test(length)) return { problem: `length ${length}` };
  const count = Number(length);
  if (bytes.length < count) return "unfinished";
  return { body: bytes.subarray(0, count), rest: bytes.subarray(count) };
}

/** Without extensions and trailers: a gateway that streams has no reason to write either. */
function readChunks(bytes: Buffer): ReadBody {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf("\r\n", at);
    if (end === -1) return "unfinished";
    const line = bytes.toString("latin1", at, end);
    if (!/^[0-9A-Fa-f]{1,12}$/.test(line)) return { problem: `chunk ${JSON.stringify(line)}` };
    const size = Number.parseInt(line, 16);
    const after = end + 2 + size;
    if (bytes.length < after + 2) return "unfinished";
    if (bytes.toString("latin1", after, after + 2) !== "\r\n") {
      return { problem: size === 0 ? "trailers" : "a chunk longer than its size" };
    }
    if (size === 0) return { body: Buffer.concat(chunks), rest: bytes.subarray(after + 2) };
    chunks.push(bytes.subarray(end + 2, after));
    at = after + 2;
  }
}
