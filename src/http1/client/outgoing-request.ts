import { checkLinePart, encodeFields } from "../write/message-writer.ts";

export type OutgoingRequest = {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  /** Names and values in turn, without Host and the framing fields. */
  readonly fields: readonly string[];
  /** The length of the body, or `chunked`; undefined if the request announces no body. */
  readonly body: number | "chunked" | undefined;
};

/**
 * How a request was lost. `unreached`: there was no connection, or the upstream refused its
 * handshake, so no upstream saw it; `unanswered`: the connection ended before any byte of a
 * response; `cut`: it ended in the middle of a response; `invalid`: the bytes received are no
 * response; `misframed`: the caller wrote a body of another length than announced.
 */
export type RequestFailure = {
  readonly kind: "unreached" | "unanswered" | "cut" | "invalid" | "misframed";
  /** Whether bytes of the request were handed to the connection: the upstream may have seen it. */
  readonly sent: boolean;
  /** Whether the connection had carried a response before: it may have died of old age. */
  readonly reused: boolean;
  /** A code of the system or of TLS, `timeout`, `closed`, or the error found. */
  readonly why: string;
};

/**
 * Encodes the head of a request. Throws if a part of it cannot be sent safely. Host is the first
 * field (RFC 9112 3.2). The framing is written here, according to the body.
 */
export function encodeRequestHead({ method, target, host, fields, body }: OutgoingRequest): string {
  let head = `${checkLinePart(method)} ${checkLinePart(target)} HTTP/1.1\r\nHost: ${checkLinePart(host)}\r\n`;
  head += encodeFields(fields);
  if (body === "chunked") head += "Transfer-Encoding: chunked\r\n";
  else if (body !== undefined) head += `Content-Length: ${body}\r\n`;
  return `${head}\r\n`;
}
