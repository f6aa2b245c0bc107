const NOTHING = Buffer.alloc(0);

/**
 * Bytes that wait to be read, in one buffer that grows by doubling, so that appending them one by
 * one costs only a few times their number. A filled position in `bytes` is never written again, so
 * parts of it may be handed on without a copy.
 */
export class ReadBuffer {
  bytes: Buffer = NOTHING;
  /** The number of bytes that wait, from the first position of `bytes` on. */
  length = 0;

  /** Copies `bytes` from `from` to `to`, so that the caller may reuse their buffer. */
  append(bytes: Buffer, from: number, to: number): void {
    const size = to - from;
    if (this.length + size > this.bytes.length) this.#grow(size);
    this.length += bytes.copy(this.bytes, this.length, from, to);
  }

  /** Drops all bytes and releases the buffer. */
  clear(): void {
    this.bytes = NOTHING;
    this.length = 0;
  }

  #grow(size: number): void {
    const { length } = this;
    // A separate buffer, not a part of Node's pool: the slowest user would keep the whole pool
    // alive.
    const larger = Buffer.allocUnsafeSlow(length === 0 ? size : 2 * (length + size));
    this.bytes.copy(larger, 0, 0, length);
    this.bytes = larger;
  }
}
