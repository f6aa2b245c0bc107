const BUFFER_BYTES = 65_536;
/** Smaller pieces would waste most of a buffer while a slow client keeps it. */
const POOLED_BYTES_MIN = 32_768;
/** Free ones that are kept for the next pieces. */
const FREE_MAX = 32;

const free: Buffer[] = [];
/**
 * The pieces that are out, each with the buffer that it lies in. A piece is known by itself alone:
 * Node's own pool has buffers of this size too, by version, and every part of one has another owner.
 */
const lent = new WeakMap<Buffer, Buffer>();

/**
 * A copy of bytes that a reader has only for a moment. A new buffer for each large piece would cost
 * its pages each time, and a collection to be rid of it.
 */
export function copyToPool(bytes: Buffer, from: number, to: number): Buffer {
  const size = to - from;
  if (size < POOLED_BYTES_MIN || size > BUFFER_BYTES) {
    const copy = Buffer.allocUnsafe(size);
    bytes.copy(copy, 0, from, to);
    return copy;
  }
  const buffer = free.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES);
  bytes.copy(buffer, 0, from, to);
  const piece = buffer.subarray(0, size);
  lent.set(piece, buffer);
  return piece;
}

/**
 * Takes a piece back for the next one: true where it is one that `copyToPool` gave, and was not taken
 * back before. Only once nothing will read it any more: its bytes become those of another answer.
 */
export function recycleBuffer(piece: Buffer): boolean {
  const buffer = lent.get(piece);
  if (buffer === undefined) return false;
  lent.delete(piece);
  if (free.length < FREE_MAX) free.push(buffer);
  return true;
}
