import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

/** The time for which input is still read after a response that ends a connection. */
export const LINGER_MS = 1_000;

/**
 * The bytes of an unread body that are read only to be discarded: a body of up to this length
 * leaves the connection usable (docs/reference/edge.md#unread-bodies).
 */
export const DISCARD_BYTES_MAX = 65_536;

/**
 * Closes a connection after the response so that the response arrives: half-closes, reads on and
 * discards the client's input, up to `bytesMax` or for 1 s, then destroys the socket. If the socket
 * is destroyed at once, the system answers late bytes with a reset, which can discard the response
 * (RFC 9112 9.6). Call it before the response ends, because Node closes through `destroySoon`.
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

/** The same for a socket that belongs to another protocol by now, however much its client sends. */
export function endThenDiscard(socket: Socket, answer: string): void {
  discardInput(socket, LINGER_MS);
  socket.end(answer, "latin1");
}

/** The same for a socket that is half-closed already, for up to `lingerMs`. */
export function discardInput(socket: Socket, lingerMs: number): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.once("end", () => socket.destroy());
  socket.removeAllListeners("data");
  socket.resume();
}
