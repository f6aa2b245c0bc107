/**
 * The latest `max` items. A Map that drops its oldest entry at each step is rebuilt again and
 * again: that took a quarter of the CPU of a refusal.
 */
export class RingBuffer<T> {
  readonly #max: number;
  readonly #kept: T[] = [];
  /**
   * The position of the next item. Once the buffer is full, it is also the position of the oldest.
   */
  #next = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(one: T): void {
    this.#kept[this.#next] = one;
    this.#next = (this.#next + 1) % this.#max;
  }

  /** All items, oldest first. */
  all(): T[] {
    return [...this.#kept.slice(this.#next), ...this.#kept.slice(0, this.#next)];
  }
}
