import type { Socket } from "node:net";

const UNFIT_VALUE = /[^\t\x20-\x7e\x80-\xff]/;
const UNFIT_NAME = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;
const UNFIT_PART = /[^\x21-\x7e]/;

/**
 * Encodes field lines from names and values in turn. Throws if a field cannot be sent safely: a
 * line end in a value would begin a new field or message. A letter outside latin1 is refused too,
 * because its low byte would be sent.
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

/** Returns a part of a request line, or a Host. Throws if it would end the line or part. */
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

/** Encodes `text`, latin1, as a chunk. */
export function encodeChunk(text: string): string {
  return `${chunkLine(text.length)}${text}\r\n`;
}

/**
 * Writes a piece of a body, which must not be empty, as a chunk or as it is. If a `head` was held
 * for it, both are sent together, in one packet if they fit. Returns false if the socket takes no
 * more before it has drained.
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
  socket.write(piece);
  if (chunked) socket.write("\r\n", "latin1");
  socket.uncork();
  return takesMore(socket);
}

/**
 * Whether a socket takes more before it has drained. What `write` returns was judged before the
 * bytes were handed to the system: it would hold the other side back for a turn of the event loop
 * after each piece of the size of Node's limit, even if the system took all of it.
 */
export function takesMore(socket: Socket): boolean {
  return socket.writableLength === 0 || !socket.writableNeedDrain;
}

function chunkLine(bytes: number): string {
  return `${bytes.toString(16)}\r\n`;
}
