import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { FastifyReply } from "fastify";
import { type Problem, problemBody, problemStatus } from "./problem.ts";

export function sendProblem(reply: FastifyReply, problem: Problem): FastifyReply {
  return sendJson(reply, problemStatus(problem), problemBody(problem));
}

export function sendJson(reply: FastifyReply, status: number, body: string): FastifyReply {
  return reply.code(status).type("application/json; charset=utf-8").send(body);
}

/** Called by Node for an Expect other than 100-continue, the only expectation that is defined. */
export function sendExpectationFailed(_request: IncomingMessage, response: ServerResponse): void {
  const problem: Problem = { code: "expectation_failed", message: "Only 100-continue can be met" };
  const type = "application/json; charset=utf-8";
  response.writeHead(problemStatus(problem), { "Content-Type": type, Connection: "close" });
  response.end(problemBody(problem));
}

/**
 * Input that the HTTP parser rejects has no request to reply to, so the response is written by
 * hand.
 */
export function writeProblemToSocket(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  const [problem, reason] = parserProblem(error.code);
  const body = problemBody(problem);
  socket.end(
    `HTTP/1.1 ${problemStatus(problem)} ${reason}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

function parserProblem(code: string | undefined): [Problem, reason: string] {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") {
    return [{ code: "request_timeout", message: "The request took too long" }, "Request Timeout"];
  }
  if (code === "HPE_HEADER_OVERFLOW") {
    const message = "The request header fields are too large";
    return [{ code: "headers_too_large", message }, "Request Header Fields Too Large"];
  }
  return [{ code: "invalid_request", message: "The request is not valid HTTP" }, "Bad Request"];
}
