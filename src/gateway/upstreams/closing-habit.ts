/** A connection that ends within this time after its last answer was closed because of that answer. */
export const SOON_MS = 250;

/** The most answers that are counted before they begin to be forgotten. */
const ANSWERS = 64;
/** The share of the counted answers above which closing is a habit. */
const HABIT = 1 / 16;

/**
 * Whether an upstream closes connections soon after its answers without saying so. What it did last
 * counts most, so that a restart is forgotten with the next hundreds of answers.
 */
export class ClosingHabit {
  #answers = 0;
  #closed = 0;

  onAnswer(): void {
    this.#answers += 1;
    if (this.#answers < ANSWERS) return;
    this.#answers /= 2;
    this.#closed /= 2;
  }

  onClosedSoon(): void {
    this.#closed += 1;
  }

  get isHabit(): boolean {
    return this.#closed > HABIT * this.#answers;
  }
}
