/** Accounts that are remembered at least; at most twice as many, some 300 bytes each. */
const ACCOUNTS = 100_000;

/**
 * A value for each of many ids, bounded: the older half goes when the newer one is full. Asking for an
 * id makes it newer.
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

  get size(): number {
    return this.#newer.size + this.#older.size;
  }
}
