import { isMethod } from "../../core/http/route.ts";
import {
  type ErrorFormat,
  errorBody,
  errorMediaType,
  type Refusal,
  type RefusalCode,
  statusOf,
} from "../../core/refusal.ts";
import type { RequestBodyError, RequestError } from "../../http1/server/incoming-request.ts";
import { REASON_PHRASES } from "../../http1/write/reason-phrases.ts";
import { FAILURE_REASONS } from "../upstreams/failure-reasons.ts";

const CODES: Readonly<Record<RequestError, RefusalCode>> = {
  line: "bad_request",
  field: "bad_request",
  method: "not_implemented",
  version: "http_version",
  line_overflow: "uri_too_long",
  head_overflow: "headers_too_large",
  chunk: "bad_request",
  extension_overflow: "body_too_large",
  trailer: "bad_request",
  trailer_overflow: "headers_too_large",
  timeout: "request_timeout",
};

/** The words of the log. They are those of a response as far as the same rule was broken. */
export const BODY_REASONS: Readonly<Record<RequestBodyError, string>> = {
  chunk: FAILURE_REASONS.chunk,
  // RFC 9112 7.1.1 asks for one limit over all chunks of a request.
  extension_overflow: "the extensions of all chunks are over 16 KiB",
  trailer: FAILURE_REASONS.trailer,
  trailer_overflow: "the fields of the head and the trailers are over headerBytes or headerCount",
  timeout: "the request was not whole within requestTimeout",
};

/**
 * CONNECT and TRACE are known methods that are refused
 * (docs/reference/edge.md#versions-and-methods).
 */
const REFUSED: ReadonlySet<string> = new Set(["CONNECT", "TRACE"]);

/**
 * The refusal of bytes that are no request. `method` is the one that the line begins with, or "".
 * If it is unknown (PRI, or a method of RTSP), the refusal is about the method, whatever follows
 * it.
 */
export function refusalCodeFor(error: RequestError, method = ""): RefusalCode {
  const isLine = error === "line" || error === "version";
  const isUnknown = method !== "" && !isMethod(method) && !REFUSED.has(method);
  return isLine && isUnknown ? "not_implemented" : CODES[error];
}

/** The word that a connection begins with if a proxy names the client by the PROXY protocol. */
const PROXY_PROTOCOL = "PROXY";
const WITHOUT_IT =
  "The PROXY protocol is not implemented here: let the proxy send HTTP alone, with the client's address in X-Forwarded-For";

/**
 * The response to bytes that are no request. It has no rate limit fields and no access log entry
 * (docs/reference/http.md#rate-limit-fields).
 */
export function errorResponseTo(error: RequestError, method: string, errors: ErrorFormat): string {
  const code = refusalCodeFor(error, method);
  const isProxied = code === "not_implemented" && method === PROXY_PROTOCOL;
  return refusalResponse({ code, ...(isProxied && { message: WITHOUT_IT }) }, errors, method);
}

/**
 * The whole response of a refusal, in the form that the configuration asks for, after which the
 * connection ends. HEAD gets the head only.
 */
export function refusalResponse(
  refusal: Pick<Refusal, "code" | "message">,
  errors: ErrorFormat,
  method = "",
): string {
  const status = statusOf(refusal.code);
  const body = errorBody(refusal, errors);
  const content = method === "HEAD" ? "" : body;
  return `HTTP/1.1 ${status} ${REASON_PHRASES[status]}\r\nContent-Type: ${errorMediaType(errors)}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nCache-Control: no-store\r\nConnection: close\r\nDate: ${new Date().toUTCString()}\r\n\r\n${content}`;
}
