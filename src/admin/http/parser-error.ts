import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { LINGER_MS } from "../../base/linger.ts";
import { STATUS_CODES } from "../../base/node-http.ts";
import { LINGER_BYTES_MAX } from "./request-body.ts";
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
  /** The last response of each connection. Earlier ones have ended, as `meterInput` sees to. */
  const last = new WeakMap<Duplex, ServerResponse>();
  const follow = ({ socket }: IncomingMessage, response: ServerResponse) => {
    last.set(socket, response);
  };
  const underWay = (socket: Duplex) => {
    const response = last.get(socket);
    const isOpen = response !== undefined && !response.closed;
    return isOpen && (response.headersSent || response.req.complete) ? response : undefined;
  };
  server.prependListener("request", follow);
  server.prependListener("checkExpectation", follow);
  server.on("clientError", (error: ParserError, socket) => {
    endAfter(underWay(socket), socket, answerTo(error));
  });
  server.on("connect", (_request, socket) => {
    endAfter(underWay(socket), socket, methodNotAllowed(["GET", "HEAD"]));
  });
}

/** Node adds the bytes that it was parsing to a parser error. */
type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

function answerTo({ code, rawPacket }: ParserError): AdminResponse {
  const response = problemOf(code);
  // A response to HEAD has no body, even if the rest of the request could not be parsed.
  return rawPacket?.toString("latin1", 0, 5) === "HEAD " ? { ...response, body: "" } : response;
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

/**
 * Ends the connection once this response has ended, however long it takes, and with the answer if
 * there is none. The listener bounds the time of a response.
 */
function endAfter(
  response: ServerResponse | undefined,
  socket: Duplex,
  answer: AdminResponse,
): void {
  discard(socket);
  const end = () => {
    socket.end();
    // The connection ends when the client ends it, or after a second.
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once("close", () => clearTimeout(timer));
  };
  if (response === undefined) {
    if (socket.writable) writeLast(socket, answer);
    end();
  } else response.once("close", end);
}

/** Writes a response by hand, because there is no response object. */
function writeLast(socket: Duplex, { status, type, body, fields }: AdminResponse): void {
  const all = [
    ...["Content-Type", type, "Content-Length", String(Buffer.byteLength(body))],
    ...["Connection", "close", ...securityFields(), ...fields],
  ];
  const lines = all.flatMap((value, i) => (i % 2 === 0 ? [`${value}: ${all[i + 1]}\r\n`] : []));
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`);
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
