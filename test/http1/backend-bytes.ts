import { type ResponseHead, ResponseParser } from "../../src/http1/client/response-parser.ts";

export const HEAD_BYTES_MAX = 65_536;

/** A response as a reader understood the bytes of a backend. */
export type ReadResponse = {
  readonly interim: number[];
  head: ResponseHead | undefined;
  body: string;
  /** How it ended; `more` where it did not. */
  end: string;
  /** Bytes behind the end, which belong to nobody. */
  left: number;
};

export function readResponse(method: string, pieces: readonly Buffer[]): ReadResponse {
  const parser = new ResponseParser(HEAD_BYTES_MAX);
  parser.start(method);
  const read: ReadResponse = { interim: [], head: undefined, body: "", end: "more", left: 0 };
  for (const piece of pieces) {
    // The reader moves bytes within what it is given.
    const bytes = Buffer.from(piece);
    if (read.end === "more") take(parser, bytes, read);
    else if (read.end === "end") read.left += bytes.length;
  }
  return read;
}

function take(parser: ResponseParser, bytes: Buffer, read: ReadResponse): void {
  for (let at = 0; ; at = parser.at) {
    const step = parser.step(bytes, at, bytes.length);
    if (step === "interim") read.interim.push(parser.interim?.status ?? 0);
    else if (step === "head") read.head = parser.head;
    else if (step === "data") read.body += bytes.toString("latin1", parser.dataFrom, parser.dataTo);
    else {
      read.end = step === "wrong" ? `wrong: ${parser.error}` : step;
      // Where bytes turn out wrong says nothing: nothing of them is used.
      read.left = step === "end" ? bytes.length - parser.at : 0;
      return;
    }
  }
}
