import type { TrailerLimits } from "../parse/body-parser.ts";
import type { HeadSizeLimits } from "../parse/head-parser.ts";

export type ServerLimits = HeadSizeLimits & {
  /** Fields of a head and trailers behind it together: each counts its name, value, `: ` and CRLF. */
  readonly fieldBytesMax: number;
  readonly fieldCountMax: number;
  /** Bytes that may wait behind a request, or of a body that is not read, before reading from the socket pauses. */
  readonly aheadBytesMax: number;
  /** From the first byte of a head, or of a connection, to the end of that head. */
  readonly headersTimeoutMs: number;
  /** From the end of a head to the last byte of its body. */
  readonly requestTimeoutMs: number;
  /** Between an answer and the first byte of the next request. */
  readonly idleTimeoutMs: number;
  /** Behind the last answer: how long more is read in all, and without a byte, so that it arrives. */
  readonly lingerMs: number;
  readonly lingerIdleMs: number;
};

/** Bytes that a field line has beside its name and its value: `: ` and CRLF. */
const LINE_BYTES = 4;

/** As much as a head with these fields leaves for the trailers behind it. */
export function trailerLimits(
  { fieldBytesMax, fieldCountMax }: ServerLimits,
  rawHeaders: readonly string[],
): TrailerLimits {
  const count = rawHeaders.length / 2;
  let bytes = count * LINE_BYTES;
  for (const part of rawHeaders) bytes += part.length;
  return { trailerBytesMax: fieldBytesMax - bytes, trailerCountMax: fieldCountMax - count };
}
