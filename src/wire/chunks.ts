import type { Socket } from "node:net";

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
