type RefreshOptions = {
  /** If the value is older than this, it is read again. */
  readonly maxAgeMs: number;
  /** The minimum pause between two reads, as a multiple of the last read's duration; default 0. */
  readonly pauses?: number;
};

/** A value that takes time to read. Readers get the last one; if it is old, it is read again. */
export class BackgroundValue<T> {
  readonly #readOnce: () => Promise<T>;
  #value: T | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #tookMs = 0;
  #reading: Promise<void> | undefined;

  constructor(read: () => Promise<T>) {
    this.#readOnce = read;
  }

  /** The last value; undefined before the first read, and after a read that failed. */
  get value(): T | undefined {
    return this.#value;
  }

  /** Resolves when the current read ends; undefined if there is none. Never rejects. */
  get reading(): Promise<void> | undefined {
    return this.#reading;
  }

  /**
   * Starts a read if the value is old and no read is in progress. Returns whether it started one.
   */
  refresh({ maxAgeMs, pauses = 0 }: RefreshOptions): boolean {
    const ageMs = performance.now() - this.#readAtMs;
    if (this.#reading !== undefined || ageMs < Math.max(maxAgeMs, this.#tookMs * pauses))
      return false;
    this.#reading = this.#read();
    return true;
  }

  async #read(): Promise<void> {
    const beganMs = performance.now();
    this.#value = await this.#readOnce().catch(() => undefined);
    this.#readAtMs = performance.now();
    this.#tookMs = this.#readAtMs - beganMs;
    this.#reading = undefined;
  }
}
