import { type ResponseHead, ResponseParser } from "../../src/http1/client/response-parser.ts";

export const RESPONSE_LIMITS = { headBytesMax: 65_536, interimMax: 10 };

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
  const reader = new ResponseParser(RESPONSE_LIMITS);
  reader.start(method);
  const read: ReadResponse = { interim: [], head: undefined, body: "", end: "more", left: 0 };
  for (const piece of pieces) {
    // The reader moves bytes within what it is given.
    const bytes = Buffer.from(piece);
    if (read.end === "more") take(reader, bytes, read);
    else if (read.end === "end") read.left += bytes.length;
  }
  return read;
}

function take(reader: ResponseParser, bytes: Buffer, read: ReadResponse): void {
  for (let at = 0; ; at = reader.at) {
    const step = reader.step(bytes, at, bytes.length);
    if (step === "interim") read.interim.push(reader.interim?.status ?? 0);
    else if (step === "head") read.head = reader.head;
    else if (step === "data") read.body += bytes.toString("latin1", reader.dataFrom, reader.dataTo);
    else {
      read.end = step === "wrong" ? `wrong: ${reader.wrong}` : step;
      // Where bytes turn out wrong says nothing: nothing of them is used.
      read.left = step === "end" ? bytes.length - reader.at : 0;
      return;
    }
  }
}
