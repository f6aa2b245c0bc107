/** One HTTP/1.x response as it was on the wire. Field values are Latin-1, without outer blanks. */
export type RawResponse = {
  readonly version: string;
  readonly status: number;
  readonly reason: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  readonly trailers: readonly (readonly [name: string, value: string])[];
  readonly framing: "none" | "length" | "chunked" | "close" | "tunnel";
  /** The 1xx responses that came ahead of it. */
  readonly interim: readonly RawResponse[];
};

/**
 * `problem` says what is not valid HTTP, at which byte; `rest` is what follows the last complete
 * response: the start of an unfinished one, or the bytes that the problem is in.
 */
export type Parsed = {
  readonly responses: readonly RawResponse[];
  readonly problem: string | undefined;
  readonly rest: Buffer;
};

export type ParseOptions = {
  /** The methods of the requests, in order: HEAD has no body. GET where the list is too short. */
  readonly methods?: readonly string[];
  /** Whether the connection has ended: a body framed by its end is complete, anything half is not. */
  readonly closed?: boolean;
};

/** All values of one field, in order; the name in any case. */
export function valuesOf(response: RawResponse, name: string): string[] {
  const wanted = name.toLowerCase();
  return response.fields.filter(([is]) => is.toLowerCase() === wanted).map(([, value]) => value);
}

/** The value of a field that must be there exactly once; throws otherwise. */
export function onlyValue(response: RawResponse, name: string): string {
  const values = valuesOf(response, name);
  if (values.length === 1) return values[0] as string;
  throw new Error(`${name} is there ${values.length} times, wanted once: ${values.join(" | ")}`);
}

/** A parser of our own, strict to the letter of RFC 9112: Node's would forgive what Node wrote. */
export function parseResponses(bytes: Buffer, options: ParseOptions = {}): Parsed {
  const { methods = [], closed = false } = options;
  const responses: RawResponse[] = [];
  const reader = new Reader(bytes, closed);
  let interim: RawResponse[] = [];
  let doneAt = 0;
  let saidClose = false;
  try {
    while (reader.at < bytes.length) {
      if (saidClose) throw new Invalid("bytes after a response that announced the close");
      const method = methods[responses.length] ?? "GET";
      const response = readResponse(reader, method, interim);
      if (response.status < 200 && response.status !== 101) {
        interim.push(response);
        continue;
      }
      responses.push(response);
      interim = [];
      doneAt = reader.at;
      saidClose = valuesOf(response, "connection").some((value) => /\bclose\b/i.test(value));
    }
    const problem =
      closed && interim.length > 0 ? "closed after a 1xx, without an answer" : undefined;
    return { responses, problem, rest: bytes.subarray(doneAt) };
  } catch (error) {
    const rest = bytes.subarray(doneAt);
    if (error instanceof Unfinished) {
      return {
        responses,
        problem: closed ? `closed in the middle of ${error.message}` : undefined,
        rest,
      };
    }
    if (!(error instanceof Invalid)) throw error;
    return { responses, problem: `${error.message}, near byte ${reader.at}`, rest };
  }
}

class Invalid extends Error {}
class Unfinished extends Error {}

class Reader {
  at = 0;
  readonly bytes: Buffer;
  readonly closed: boolean;
  constructor(bytes: Buffer, closed: boolean) {
    this.bytes = bytes;
    this.closed = closed;
  }

  /** A line up to CRLF; a CR or LF by itself is invalid (RFC 9112 2.2). */
  line(what: string): string {
    const end = this.bytes.indexOf("\n", this.at);
    if (end === -1) throw new Unfinished(what);
    const text = this.bytes.toString("latin1", this.at, end);
    if (!text.endsWith("\r")) throw new Invalid(`a bare LF in ${what}`);
    if (text.indexOf("\r") !== text.length - 1) throw new Invalid(`a bare CR in ${what}`);
    this.at = end + 1;
    return text.slice(0, -1);
  }

  take(length: number, what: string): Buffer {
    if (this.bytes.length - this.at < length) throw new Unfinished(what);
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
}

const STATUS_LINE = /^HTTP\/(1\.[01]) ([1-5]\d\d) ([\t\x20-\x7e\x80-\xff]*)$/;
const FIELD = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*$/;

function readResponse(
  reader: Reader,
  method: string,
  interim: readonly RawResponse[],
): RawResponse {
  const line = reader.line("the status line");
  const match = STATUS_LINE.exec(line);
  if (match === null) throw new Invalid(`not a status line: ${JSON.stringify(line.slice(0, 80))}`);
  const [, version = "", code = "", reason = ""] = match;
  const status = Number(code);
  const fields = readFields(reader);
  const head = { version, status, reason, fields, interim };
  return { ...head, ...readBody(reader, method, status, fields) };
}

function readFields(reader: Reader): [string, string][] {
  const fields: [string, string][] = [];
  for (;;) {
    const line = reader.line("the fields");
    if (line === "") return fields;
    const match = FIELD.exec(line);
    if (match === null) throw new Invalid(`not a field: ${JSON.stringify(line.slice(0, 80))}`);
    fields.push([match[1] as string, match[2] as string]);
  }
}

type Body = Pick<RawResponse, "body" | "trailers" | "framing">;

/** RFC 9112 6.3, in its order, refusing what a recipient would have to repair. */
function readBody(
  reader: Reader,
  method: string,
  status: number,
  fields: readonly (readonly [string, string])[],
): Body {
  const named = (name: string) => {
    return fields.filter(([is]) => is.toLowerCase() === name).map(([, value]) => value);
  };
  const lengths = named("content-length");
  const codings = named("transfer-encoding");
  if (lengths.length > 1) throw new Invalid("two Content-Length fields");
  if (codings.length > 1) throw new Invalid("two Transfer-Encoding fields");
  const [length] = lengths;
  const [coding] = codings;
  if (length !== undefined && coding !== undefined) throw new Invalid("both kinds of framing");
  if (length !== undefined && !/^\d{1,15}$/.test(length)) throw new Invalid("a bad Content-Length");
  if (coding !== undefined && coding.toLowerCase() !== "chunked") throw new Invalid("a bad coding");
  const framed = length !== undefined || coding !== undefined;
  if (framed && (status < 200 || status === 204)) throw new Invalid(`framing on a ${status}`);

  if (status === 101) {
    const body = reader.take(reader.bytes.length - reader.at, "the tunnel");
    return { body, trailers: [], framing: "tunnel" };
  }
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) {
    return { body: Buffer.alloc(0), trailers: [], framing: "none" };
  }
  if (coding !== undefined) return readChunks(reader);
  if (length !== undefined) {
    return { body: reader.take(Number(length), "the body"), trailers: [], framing: "length" };
  }
  if (!reader.closed) throw new Unfinished("a body that ends with the connection");
  const body = reader.take(reader.bytes.length - reader.at, "the body");
  return { body, trailers: [], framing: "close" };
}

function readChunks(reader: Reader): Body {
  const chunks: Buffer[] = [];
  for (;;) {
    const line = reader.line("a chunk size");
    const size = /^([0-9A-Fa-f]{1,12})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?$/.exec(line)?.[1];
    if (size === undefined) throw new Invalid(`not a chunk size: ${JSON.stringify(line)}`);
    const length = Number.parseInt(size, 16);
    if (length === 0) break;
    chunks.push(reader.take(length, "a chunk"));
    if (reader.line("the end of a chunk") !== "") throw new Invalid("a chunk longer than its size");
  }
  return { body: Buffer.concat(chunks), trailers: readFields(reader), framing: "chunked" };
}
