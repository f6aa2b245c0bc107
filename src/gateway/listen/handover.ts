import { type IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DISCARD_BYTES_MAX, endThenDiscard } from "../node/linger.ts";

/**
 * Node hands the socket of an upgrade over bare: without a parser, without a response, and without
 * anyone to hear its errors. This gives the request a response, which is the last of the connection:
 * what comes after the head is never read as a request. Bytes that came with the head go back.
 */
export function adoptSocket(
  request: IncomingMessage,
  socket: Socket,
  early: Buffer,
): ServerResponse {
  // Without a listener a reset would end the process.
  socket.on("error", () => undefined);
  if (early.length > 0) socket.unshift(early);
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once("finish", () => {
    response.detachSocket(socket);
    endThenDiscard(socket, "", DISCARD_BYTES_MAX);
    response.emit("close");
  });
  return response;
}
