const NOTHING = Buffer.alloc(0);

/**
 * Bytes that wait to be read, in one buffer that grows by doubling, so that appending them one by
 * one costs only a few times their number. A filled position in `bytes` is never written again, so
 * parts of it may be handed on without a copy.
 */
export class ReadBuffer {
  bytes: Buffer = NOTHING;
  /** The position of the first byte that was not taken yet. */
  from = 0;
  /** The position after the last byte. */
  to = 0;

  get length(): number {
    return this.to - this.from;
  }

  /** Copies `bytes` from `from` to `to`, so that the caller may reuse their buffer. */
  append(bytes: Buffer, from: number, to: number): void {
    const size = to - from;
    if (this.to + size > this.bytes.length) this.#grow(size);
    this.to += bytes.copy(this.bytes, this.to, from, to);
  }

  /** Drops all bytes and releases the buffer. */
  clear(): void {
    this.bytes = NOTHING;
    this.from = 0;
    this.to = 0;
  }

  #grow(size: number): void {
    const { length } = this;
    // A separate buffer, not a part of Node's pool: the slowest user would keep the whole pool
    // alive.
    const larger = Buffer.allocUnsafeSlow(length === 0 ? size : 2 * (length + size));
    this.bytes.copy(larger, 0, this.from, this.to);
    this.bytes = larger;
    this.from = 0;
    this.to = length;
  }
}
