/** The fewest accounts remembered; at most twice as many, at some 300 bytes each. */
const ACCOUNTS = 100_000;

/**
 * A bounded map of values by id. The older half is dropped when the newer half is full. A look-up
 * moves the id to the newer half.
 */
export class AgingMap<T> {
  readonly #halfMax: number;
  #newer = new Map<string, T>();
  #older = new Map<string, T>();

  constructor(halfMax = ACCOUNTS) {
    this.#halfMax = halfMax;
  }

  get(id: string): T | undefined {
    const newer = this.#newer.get(id);
    if (newer !== undefined) return newer;
    const older = this.#older.get(id);
    if (older !== undefined) this.set(id, older);
    return older;
  }

  set(id: string, value: T): void {
    if (this.#newer.size >= this.#halfMax && !this.#newer.has(id)) {
      this.#older = this.#newer;
      this.#newer = new Map();
    }
    this.#newer.set(id, value);
  }

  delete(id: string): void {
    this.#newer.delete(id);
    this.#older.delete(id);
  }

  /** Every id with its value, which moves none of them. */
  *[Symbol.iterator](): IterableIterator<readonly [string, T]> {
    for (const entry of this.#older) if (!this.#newer.has(entry[0])) yield entry;
    yield* this.#newer;
  }

  get size(): number {
    return this.#newer.size + this.#older.size;
  }
}
