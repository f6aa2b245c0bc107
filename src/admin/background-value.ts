type RefreshOptions = {
  /** A value that is older than this is read again. */
  readonly maxAgeMs: number;
  /** Between two readings there is at least so many times what the last one took; default 0. */
  readonly pauses?: number;
};

/**
 * A value that takes time to read: those who look get the last one at once, and it is read again in the
 * background when it is old.
 */
export class BackgroundValue<T> {
  readonly #readOnce: () => Promise<T>;
  #value: T | undefined;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #tookMs = 0;
  #reading: Promise<void> | undefined;

  constructor({ read }: { readonly read: () => Promise<T> }) {
    this.#readOnce = read;
  }

  /** The last value; undefined before the first, and after a reading that failed. */
  get value(): T | undefined {
    return this.#value;
  }

  /** Resolves when the reading under way has ended; undefined if there is none. Never rejects. */
  get reading(): Promise<void> | undefined {
    return this.#reading;
  }

  /** Has it read if it is old, and not being read already. Returns whether it is read now. */
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
