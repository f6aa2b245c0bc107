import { checkLinePart, encodeFields } from "../write/message-writer.ts";

export type OutgoingRequest = {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  /** Names and values in turn, without Host and without those of the framing. */
  readonly fields: readonly string[];
  /** The bytes of the body, or `chunked`; undefined where the request says nothing of a body. */
  readonly body: number | "chunked" | undefined;
};

/**
 * How a request was lost. `unreached`: there was no connection, so no upstream saw it; `unanswered`: the
 * connection ended before any byte of a response; `cut`: in the middle of one; `invalid`: what came
 * is no response; `misframed`: the caller wrote a body of another length than it had said.
 */
export type RequestFailure = {
  readonly kind: "unreached" | "unanswered" | "cut" | "invalid" | "misframed";
  /** Bytes of the request were handed to the connection: the backend may have seen it. */
  readonly sent: boolean;
  /** That connection had carried a response before: it may have died of old age. */
  readonly reused: boolean;
  /** For the log: a code of the system or of TLS, `timeout`, `closed`, or what was wrong. */
  readonly why: string;
};

/**
 * The head of a request as its bytes go out. Throws where a part of it cannot be sent as what it is.
 * RFC 9112 3.2: Host goes first. The framing is written here, from what the body will be.
 */
export function encodeRequestHead({ method, target, host, fields, body }: OutgoingRequest): string {
  let head = `${checkLinePart(method)} ${checkLinePart(target)} HTTP/1.1\r\nHost: ${checkLinePart(host)}\r\n`;
  head += encodeFields(fields);
  if (body === "chunked") head += "Transfer-Encoding: chunked\r\n";
  else if (body !== undefined) head += `Content-Length: ${body}\r\n`;
  return `${head}\r\n`;
}
