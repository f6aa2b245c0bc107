import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { type Answer, problem, SECURITY_FIELDS } from "./answer.ts";
import { refuseMethod } from "./api.ts";

/**
 * Answers what the HTTP parser refused, and CONNECT, which has no response object: in the Error
 * shape, then the connection closes. Where an earlier answer of the connection is not out yet there
 * is nothing true to write, so it is cut.
 */
export function answerBrokenRequests(server: Server): void {
  const pending = new WeakMap<Duplex, Set<ServerResponse>>();
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    const responses = pending.get(request.socket) ?? new Set();
    pending.set(request.socket, responses.add(response));
    response.once("close", () => responses.delete(response));
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const responses = [...(pending.get(socket) ?? [])];
    const begun = responses.length > 1 || responses.some(({ headersSent }) => headersSent);
    if (begun || !socket.writable || error.code === "ECONNRESET") socket.destroy();
    else endWith(socket, answerTo(error.code));
  });
  server.on("connect", (_request, socket) => {
    if ((pending.get(socket)?.size ?? 0) > 0) socket.destroy();
    else endWith(socket, refuseMethod(["GET", "HEAD"]));
  });
}

function answerTo(code: string | undefined): Answer {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return problem("request_timeout", "The request did not arrive in time");
    case "HPE_HEADER_OVERFLOW":
      return problem("headers_too_large", "The request header fields are too large");
    default:
      return problem("bad_request", "The request is not well-formed HTTP");
  }
}

const LINGER_MS = 1_000;
const LINGER_BYTES_MAX = 1_048_576;

/** Written by hand, half-closed, what still comes thrown away for a second (RFC 9112 9.6). */
function endWith(socket: Duplex, { status, type, body, fields }: Answer): void {
  const all = [
    ...["Content-Type", type, "Content-Length", String(Buffer.byteLength(body))],
    ...["Connection", "close", ...SECURITY_FIELDS, ...fields],
  ];
  const lines = all.flatMap((value, i) => (i % 2 === 0 ? [`${value}: ${all[i + 1]}\r\n`] : []));
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  socket.on("error", () => socket.destroy());
  socket.removeAllListeners("data");
  // Taking the bytes ourselves is what keeps them from the parser, which would complain again.
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES_MAX) socket.destroy();
  });
  socket.once("end", () => socket.destroy());
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`);
}
