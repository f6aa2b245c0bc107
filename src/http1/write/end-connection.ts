import type { Socket } from "node:net";

/**
 * Ends a connection in order, without waiting for the other side. Over TLS, `end` writes the
 * close_notify before it returns (RFC 8446 6.1). Without it the other side may report a truncation.
 */
export function endConnection(socket: Socket): void {
  if (!socket.writableEnded) socket.end();
  socket.destroy();
}
