const NOTHING = Buffer.alloc(0);

/**
 * Bytes that wait to be read, in one buffer that grows by doubling: appending them one by one costs
 * no more than a few times their number. A place in `bytes` that was filled once is never written
 * to again, so parts of it may be handed on without a copy.
 */
export class ReadBuffer {
  bytes: Buffer = NOTHING;
  /** The first byte that was not taken yet. */
  from = 0;
  /** Behind the last byte. */
  to = 0;

  get length(): number {
    return this.to - this.from;
  }

  /** Copies `bytes` from `from` to `to`, so that their buffer may be used for something else. */
  append(bytes: Buffer, from: number, to: number): void {
    const size = to - from;
    if (this.to + size > this.bytes.length) this.#grow(size);
    this.to += bytes.copy(this.bytes, this.to, from, to);
  }

  /** Keeps `bytes` themselves, from `from` to `to`, in place of all before: they must not change. */
  hold(bytes: Buffer, from: number, to: number): void {
    this.bytes = bytes;
    this.from = from;
    this.to = to;
  }

  /** Forgets everything, and gives the buffer back. */
  clear(): void {
    this.bytes = NOTHING;
    this.from = 0;
    this.to = 0;
  }

  #grow(size: number): void {
    const { length } = this;
    // A buffer of its own, not a part of Node's pool: the pool would live as long as the slowest.
    const larger = Buffer.allocUnsafeSlow(length === 0 ? size : 2 * (length + size));
    this.bytes.copy(larger, 0, this.from, this.to);
    this.bytes = larger;
    this.from = 0;
    this.to = length;
  }
}
