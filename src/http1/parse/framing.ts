import type { HttpVersion } from "./head-parser.ts";

/** How the end of a body is found: by a number of bytes, by chunks, or by the connection's end. */
export type BodyFraming = number | "chunked" | "close";

/**
 * Why the end of a body cannot be found: a length and a coding, a coding on HTTP/1.0, a coding
 * other than one `chunked`, or a length that is not one number of up to 15 digits.
 */
export type FramingError = "length_and_coding" | "coding_on_1_0" | "coding" | "length";

/** The framing that a head announces, and whether the connection stays open after it. */
export type FramingInfo = {
  /** Undefined if neither field is present. */
  readonly framing: number | "chunked" | FramingError | undefined;
  /** `Connection: close`, on any of its lines. */
  readonly closesConnection: boolean;
  /** The seconds of the sender's `Keep-Alive: timeout=`; undefined if there is none. */
  readonly keepAliveS: number | undefined;
};

const CLOSE = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
const TIMEOUT = /(?:^|[,;])[\t ]*timeout=(\d{1,6})/i;
const LENGTH = /^\d{1,15}$/;
/** Represents a field that came twice: neither a valid length nor a valid coding. */
const MALFORMED = "";

/**
 * Follows RFC 9112 6.1 to 6.3 strictly: one Content-Length of only digits, or one
 * `Transfer-Encoding: chunked` on HTTP/1.1, or neither. Anything else is a FramingError, because
 * recipients disagree about the end of such a message.
 */
export function parseFraming(version: HttpVersion, rawHeaders: readonly string[]): FramingInfo {
  let length: string | undefined;
  let coding: string | undefined;
  let closes = false;
  let keepAliveS: number | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    // Most names can be ruled out by their length alone.
    if (name.length !== 10 && name.length !== 14 && name.length !== 17) continue;
    const value = rawHeaders[i + 1] as string;
    switch (name.toLowerCase()) {
      case "content-length":
        length = length === undefined ? value : MALFORMED;
        break;
      case "transfer-encoding":
        coding = coding === undefined ? value : MALFORMED;
        break;
      case "connection":
        closes ||= CLOSE.test(value);
        break;
      case "keep-alive": {
        const seconds = TIMEOUT.exec(value)?.[1];
        if (seconds !== undefined) keepAliveS = Number(seconds);
      }
    }
  }
  return { framing: framingOf(version, length, coding), closesConnection: closes, keepAliveS };
}

function framingOf(
  version: HttpVersion,
  length: string | undefined,
  coding: string | undefined,
): FramingInfo["framing"] {
  if (coding === undefined) {
    if (length === undefined) return undefined;
    return LENGTH.test(length) ? Number(length) : "length";
  }
  if (length !== undefined) return "length_and_coding";
  if (version === "1.0") return "coding_on_1_0";
  return coding.toLowerCase() === "chunked" ? "chunked" : "coding";
}

/** Whether the fields do not determine the end of the body. */
export function isFramingError(framing: FramingInfo["framing"] | "close"): framing is FramingError {
  return typeof framing === "string" && framing !== "chunked" && framing !== "close";
}
