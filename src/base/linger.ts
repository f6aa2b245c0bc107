import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

/** How long what still comes is read after an answer that ends a connection. */
export const LINGER_MS = 1_000;

/**
 * The bytes of a request that are read only to be dropped: an unread body of this length leaves the
 * connection usable, and so much is read while hanging up where no environment says how much
 * (docs/reference/edge.md#unread-bodies).
 */
export const DISCARD_BYTES_MAX = 65_536;

/**
 * Closes a connection after the answer so that the answer arrives: half-closes, reads on and throws
 * away what the client still sends, up to `bytesMax` or 1 s, then destroys. Destroying at once makes
 * the system answer late bytes with a reset, which takes the response with it (RFC 9112 9.6).
 * Call it before the response ends: Node closes through `destroySoon`.
 */
export function lingerOnClose(socket: Socket, request: IncomingMessage, bytesMax: number): void {
  socket.destroySoon = () => {
    if (socket.destroyed) return;
    let bytes = 0;
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > bytesMax) socket.destroy();
    };
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
    socket.once("end", () => socket.destroy());
    request.on("data", count);
    request.resume();
    socket.end();
  };
}

/** The same after the parser gave up: the bytes that follow are not HTTP, so they are read raw. */
export function endThenDiscard(socket: Socket, answer: string, bytesMax: number): void {
  let bytes = 0;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  socket.removeAllListeners("data");
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) socket.destroy();
  });
  socket.once("end", () => socket.destroy());
  socket.resume();
  socket.end(answer, "latin1");
}
