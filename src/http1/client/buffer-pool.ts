/**
 * The most bytes of one read: a body of 64 KiB together with its head, so that neither is read or
 * sent in two steps.
 */
export const READ_BYTES_MAX = 81_920;
/** Smaller pieces would waste most of a buffer while a slow client holds it. */
const POOLED_BYTES_MIN = 32_768;
/** The most free buffers that are kept for later pieces. */
const FREE_MAX = 32;

const free: Buffer[] = [];
/**
 * The pieces in use, each with its buffer. Only pieces in this map are recycled: in some versions
 * Node's own pool has buffers of this size too, and every part of one has another owner.
 */
const lent = new WeakMap<Buffer, Buffer>();

/**
 * Copies bytes that the reader may use only briefly. A new buffer for each large piece would cost
 * page allocations each time, and a collection to free it.
 */
export function copyToPool(bytes: Buffer, from: number, to: number): Buffer {
  const size = to - from;
  if (size < POOLED_BYTES_MIN || size > READ_BYTES_MAX) {
    const copy = Buffer.allocUnsafe(size);
    bytes.copy(copy, 0, from, to);
    return copy;
  }
  const buffer = free.pop() ?? Buffer.allocUnsafeSlow(READ_BYTES_MAX);
  bytes.copy(buffer, 0, from, to);
  const piece = buffer.subarray(0, size);
  lent.set(piece, buffer);
  return piece;
}

/**
 * Recycles the buffer of a piece. Returns true if the piece came from `copyToPool` and was not
 * recycled before. Call it only when nothing reads the piece any more: its bytes will be
 * overwritten by another response.
 */
export function recycleBuffer(piece: Buffer): boolean {
  const buffer = lent.get(piece);
  if (buffer === undefined) return false;
  lent.delete(piece);
  if (free.length < FREE_MAX) free.push(buffer);
  return true;
}
