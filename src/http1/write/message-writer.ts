import type { Socket } from "node:net";

const UNFIT_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const UNFIT_NAME = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;
const UNFIT_PART = /[^\x21-\x7e]/;

/**
 * Field lines, from names and values in turn. Throws where one could not be sent as what it is: a
 * line end in a value would begin a field, or a message, of its own. A letter beyond latin1 counts
 * as well, since its low byte would be sent.
 */
export function encodeFields(fields: readonly string[]): string {
  let lines = "";
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1] as string;
    if (name === "" || UNFIT_NAME.test(name) || UNFIT_VALUE.test(value)) {
      throw new Error(
        `The field ${JSON.stringify(name)} cannot be sent: it has a byte that may not stand there`,
      );
    }
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

/** A part of a request line, or a Host, as it is. Throws where it would end the line or the part. */
export function checkLinePart(part: string): string {
  if (part === "" || UNFIT_PART.test(part)) {
    throw new Error(
      "The request cannot be sent: a part of its first line has a byte that may not stand there",
    );
  }
  return part;
}

/** The end of a body in chunks (RFC 9112 7.1). */
export const LAST_CHUNK = "0\r\n\r\n";

/** `text`, latin1, as a chunk. */
export function encodeChunk(text: string): string {
  return `${chunkLine(text.length)}${text}\r\n`;
}

/**
 * Writes a piece of a body, which is not empty, as a chunk or as it is, behind `head` where that
 * was held back for it: together, so that they are one packet where they fit. False where the
 * socket takes no more before it has drained.
 */
export function writeBodyData(
  socket: Socket,
  head: string,
  piece: Buffer,
  chunked: boolean,
): boolean {
  const lead = chunked ? head + chunkLine(piece.length) : head;
  socket.cork();
  if (lead !== "") socket.write(lead, "latin1");
  let takesMore = socket.write(piece);
  if (chunked) takesMore = socket.write("\r\n", "latin1");
  socket.uncork();
  return takesMore;
}

function chunkLine(bytes: number): string {
  return `${bytes.toString(16)}\r\n`;
}
