import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { EdgeLimits } from "../../core/http/edge-limits.ts";
import { errorBody, type RefusalCode, statusOf } from "../../core/refusal.ts";
import { DISCARD_BYTES_MAX, endThenDiscard } from "../node/linger.ts";
import { Pipeline } from "./pipeline.ts";

const CODES: Readonly<Record<string, RefusalCode>> = {
  HPE_INVALID_METHOD: "not_implemented",
  HPE_INVALID_VERSION: "http_version",
  HPE_HEADER_OVERFLOW: "headers_too_large",
  HPE_CHUNK_EXTENSIONS_OVERFLOW: "body_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

/** Node adds to an error of its parser the bytes, and how far it got in them. */
type ParserError = NodeJS.ErrnoException & { rawPacket?: Buffer; bytesParsed?: number };

/**
 * Answers bytes that the parser refused. If they belong to a request under way, its exchange is
 * told and answers. If they follow one, they are answered after it. If there is no request at all,
 * the answer has no rate limit fields and no log line (docs/reference/http.md#rate-limit-fields).
 */
export function answerParserError(
  error: ParserError,
  socket: Socket,
  limits: EdgeLimits | undefined,
): void {
  const code = codeFor(error);
  const pipeline = Pipeline.of(socket);
  const exchange = pipeline.latest;
  if (socket.destroyed || !socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
  } else if (exchange !== undefined && !exchange.request.complete) {
    exchange.breaks({ code, why: code });
  } else {
    const answer = () => {
      endThenDiscard(socket, rawAnswer(code), limits?.bodyBytes ?? DISCARD_BYTES_MAX);
    };
    if (exchange === undefined) answer();
    else pipeline.lastWords = answer;
  }
}

const METHOD_AND_SPACE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+ /;
const ANOTHER_VERSION = / HTTP\/(?!1\.[01]\r)\d+\.\d+\r?$/;

/**
 * The parser names what it expected where it stopped; the line it stopped in says what it is about.
 * An unknown method is a token and a space, another version is spelled like one: anything else is
 * no request line at all. A head that overflows before its first line ends is a target too long.
 */
function codeFor(error: ParserError): RefusalCode {
  const code = CODES[`${error.code}`] ?? "bad_request";
  const line = lineAt(error);
  if (code === "headers_too_large" && !error.rawPacket?.includes("\n")) return "uri_too_long";
  if (code === "not_implemented" && !METHOD_AND_SPACE.test(line)) return "bad_request";
  if (code === "http_version" && !ANOTHER_VERSION.test(line)) return "bad_request";
  return code;
}

function lineAt({ rawPacket, bytesParsed = 0 }: ParserError): string {
  if (rawPacket === undefined) return "";
  const start = rawPacket.lastIndexOf(0x0a, Math.max(0, bytesParsed - 1)) + 1;
  const end = rawPacket.indexOf(0x0a, bytesParsed);
  return rawPacket.toString("latin1", start, end === -1 ? undefined : end);
}

function rawAnswer(code: RefusalCode): string {
  return rawResponse(statusOf(code), errorBody({ code }));
}

/** A whole response with an Error body, for a socket that has no response object. */
export function rawResponse(status: number, body: string): string {
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nCache-Control: no-store\r\nConnection: close\r\nDate: ${new Date().toUTCString()}\r\n\r\n${body}`;
}
