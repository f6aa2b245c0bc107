import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { LINGER_MS } from "../../base/linger.ts";
import { STATUS_CODES } from "../../base/node-http.ts";
import {
  type AdminResponse,
  methodNotAllowed,
  problemResponse,
  securityFields,
} from "./response.ts";

/**
 * Responds to bytes that the HTTP parser refused, and to CONNECT, which has no response object, in
 * the Error shape. Then it closes the connection. If an earlier response of the connection is in
 * progress, it completes and nothing is added to it.
 */
export function handleParserErrors(server: Server): void {
  const pending = new WeakMap<Duplex, Set<ServerResponse>>();
  const follow = (request: IncomingMessage, response: ServerResponse) => {
    const responses = pending.get(request.socket) ?? new Set();
    pending.set(request.socket, responses.add(response));
    response.once("close", () => responses.delete(response));
  };
  const underWay = (socket: Duplex) => {
    const responses = [...(pending.get(socket) ?? [])];
    return responses.filter(({ req, headersSent }) => headersSent || req.complete);
  };
  server.prependListener("request", follow);
  server.prependListener("checkExpectation", follow);
  server.on("clientError", (error: ParserError, socket) => {
    if (!socket.destroyed) endAfter(underWay(socket), socket, answerTo(error));
  });
  server.on("connect", (_request, socket) => {
    endAfter([...(pending.get(socket) ?? [])], socket, methodNotAllowed(["GET", "HEAD"]));
  });
}

/** Node adds the bytes that it was parsing to a parser error. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

function answerTo({ code, rawPacket }: ParserError): AdminResponse {
  const told = problemOf(code);
  // A response to HEAD has no body, even if the rest of the request could not be parsed.
  return rawPacket?.toString("latin1", 0, 5) === "HEAD " ? { ...told, body: "" } : told;
}

function problemOf(code: string | undefined): AdminResponse {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return problemResponse("request_timeout", "The request did not arrive in time");
    case "HPE_HEADER_OVERFLOW":
      return problemResponse("headers_too_large", "The request header fields are too large");
    default:
      return problemResponse("bad_request", "The request is not well-formed HTTP");
  }
}

const LINGER_BYTES_MAX = 1_048_576;

/**
 * Ends the connection once these responses have ended, however long each takes, and with the answer
 * if there are none. The listener bounds the time of a response.
 */
function endAfter(responses: ServerResponse[], socket: Duplex, answer: AdminResponse): void {
  discard(socket);
  if (responses.length === 0) {
    if (socket.writable) writeLast(socket, answer);
    lingerThenDestroy(socket);
    return;
  }
  let open = responses.length;
  const onClose = () => {
    open -= 1;
    if (open > 0) return;
    socket.end();
    lingerThenDestroy(socket);
  };
  for (const response of responses) response.once("close", onClose);
}

/**
 * Writes a response by hand, because there is no response object, and half-closes the connection.
 */
function writeLast(socket: Duplex, { status, type, body, fields }: AdminResponse): void {
  const all = [
    ...["Content-Type", type, "Content-Length", String(Buffer.byteLength(body))],
    ...["Connection", "close", ...securityFields(), ...fields],
  ];
  const lines = all.flatMap((value, i) => (i % 2 === 0 ? [`${value}: ${all[i + 1]}\r\n`] : []));
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`);
}

/** The connection ends when the client ends it, or after a second. */
function lingerThenDestroy(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

/**
 * Discards further input, so that the response reaches the client (RFC 9112 9.6). Reading the bytes
 * here keeps them from the parser, which would fail again.
 */
function discard(socket: Duplex): void {
  socket.on("error", () => socket.destroy());
  socket.removeAllListeners("data");
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES_MAX) socket.destroy();
  });
}
