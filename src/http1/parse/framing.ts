import type { HttpVersion } from "./head-parser.ts";

/** How the end of a body is found: it has so many bytes, or says so itself, or ends the connection. */
export type BodyFraming = number | "chunked" | "close";

/** The framing that the fields of a head announce, and what becomes of the connection behind it. */
export type FramingInfo = {
  /** Undefined where neither field is there. */
  readonly framing: number | "chunked" | undefined;
  /** `Connection: close`, on any of its lines. */
  readonly closes: boolean;
  /** Seconds of the `Keep-Alive: timeout=` that the sender hints at; undefined where it does not. */
  readonly keepAliveS: number | undefined;
};

const CLOSE = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
const TIMEOUT = /(?:^|[,;])[\t ]*timeout=(\d{1,6})/i;
const LENGTH = /^\d{1,15}$/;

/**
 * RFC 9112 6.1 to 6.3, strictly: one Content-Length of digits alone, or one `Transfer-Encoding:
 * chunked` on HTTP/1.1, or neither. Undefined where the fields say anything else: then nobody can
 * tell where the message ends.
 */
export function parseFraming(
  version: HttpVersion,
  rawHeaders: readonly string[],
): FramingInfo | undefined {
  let framing: number | "chunked" | undefined;
  let closes = false;
  let keepAliveS: number | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    // Most names are told apart by their length alone.
    if (name.length !== 10 && name.length !== 14 && name.length !== 17) continue;
    const value = rawHeaders[i + 1] as string;
    switch (name.toLowerCase()) {
      case "content-length":
        if (framing !== undefined || !LENGTH.test(value)) return undefined;
        framing = Number(value);
        break;
      case "transfer-encoding":
        if (framing !== undefined || version === "1.0" || value.toLowerCase() !== "chunked") {
          return undefined;
        }
        framing = "chunked";
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
  return { framing, closes, keepAliveS };
}
