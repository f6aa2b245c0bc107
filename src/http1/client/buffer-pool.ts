const BUFFER_BYTES = 65_536;
/** Smaller pieces would waste most of a buffer while a slow client keeps it. */
const POOLED_BYTES_MIN = 32_768;
/** Free ones that are kept for the next pieces. */
const FREE_MAX = 32;

const free: Buffer[] = [];

/**
 * A copy of bytes that a reader has only for a moment. A new buffer for each large piece would cost
 * its pages each time, and a collection to be rid of it.
 */
export function copyToPool(bytes: Buffer, from: number, to: number): Buffer {
  const size = to - from;
  const isPooled = size >= POOLED_BYTES_MIN && size <= BUFFER_BYTES;
  const buffer = isPooled
    ? (free.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES))
    : Buffer.allocUnsafe(size);
  bytes.copy(buffer, 0, from, to);
  return isPooled ? buffer.subarray(0, size) : buffer;
}

/**
 * Takes a piece back for the next one: true where it came from here. Only for the one that had it
 * last, once nothing will read it any more: its bytes become those of somebody else.
 */
export function recycleBuffer({ buffer, byteOffset }: Buffer): boolean {
  if (buffer.byteLength !== BUFFER_BYTES || byteOffset !== 0) return false;
  if (free.length < FREE_MAX) free.push(Buffer.from(buffer));
  return true;
}
