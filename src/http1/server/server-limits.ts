import type { TrailerLimits } from "../parse/body-parser.ts";
import type { HeadSizeLimits } from "../parse/head-parser.ts";

export type ServerLimits = HeadSizeLimits & {
  /** Fields of a head and its trailers together. Each counts its name, its value, `: ` and CRLF. */
  readonly fieldBytesMax: number;
  readonly fieldCountMax: number;
  /** The bytes that may wait, behind a request or of its body, before the socket pauses. */
  readonly aheadBytesMax: number;
  /** From the first byte of a head, or of a connection, to the end of that head. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the last one, without the time in which it was held. */
  readonly requestTimeoutMs: number;
  /** From a response to the first byte of the next request. */
  readonly idleTimeoutMs: number;
  /** How long input is read after the last response, in all and without a byte. */
  readonly lingerMs: number;
  readonly lingerIdleMs: number;
};

/** The limits that one request may have of its own. */
export type RequestLimits = Pick<
  ServerLimits,
  "fieldBytesMax" | "fieldCountMax" | "requestTimeoutMs"
>;

/** The bytes of a field line in addition to its name and its value: `: ` and CRLF. */
const LINE_BYTES = 4;

/** The limits that a head with these fields leaves for its trailers. */
export function trailerLimits(
  { fieldBytesMax, fieldCountMax }: RequestLimits,
  rawHeaders: readonly string[],
): TrailerLimits {
  const count = rawHeaders.length / 2;
  let bytes = count * LINE_BYTES;
  for (const part of rawHeaders) bytes += part.length;
  return { trailerBytesMax: fieldBytesMax - bytes, trailerCountMax: fieldCountMax - count };
}
