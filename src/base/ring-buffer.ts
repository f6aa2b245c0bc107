/**
 * The latest `max` of many. A Map from which the oldest leaves at each step is rebuilt over and over:
 * it took a quarter of the CPU of a refusal.
 */
export class RingBuffer<T> {
  readonly #max: number;
  readonly #kept: T[] = [];
  /** The place of the next one, and of the oldest once all places are taken. */
  #next = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(one: T): void {
    this.#kept[this.#next] = one;
    this.#next = (this.#next + 1) % this.#max;
  }

  /** Oldest first. */
  all(): T[] {
    return [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)];
  }
}
