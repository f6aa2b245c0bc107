/** More losses than this in a minute are a loop, in which each start waits twice as long. */
const LOSSES_MAX = 5;
const WITHIN_MS = 60_000;
const BACKOFF_MS = 1_000;
const BACKOFF_MS_MAX = 30_000;

/** The time until a lost worker is replaced. `losses` is how many were lost within a minute. */
export function restartDelayMs(losses: number): number {
  const over = losses - LOSSES_MAX;
  return over <= 0 ? 0 : Math.min(BACKOFF_MS * 2 ** (over - 1), BACKOFF_MS_MAX);
}

/** The workers that were lost within the last minute: how many, and why the last one. */
export class WorkerLosses {
  /** The times at which a process was lost, on performance.now(). */
  #timesMs: number[] = [];
  #lastWhy = "";

  /** Notes a loss. Returns the time until its replacement may start. */
  note(why: string): number {
    this.#timesMs.push(performance.now());
    this.#lastWhy = why;
    return restartDelayMs(this.#recent());
  }

  /** In words, if workers are lost again and again. */
  get loop(): string | undefined {
    const losses = this.#recent();
    if (losses <= LOSSES_MAX) return undefined;
    return `${losses} ended within a minute, the last one: ${this.#lastWhy}`;
  }

  #recent(): number {
    const sinceMs = performance.now() - WITHIN_MS;
    this.#timesMs = this.#timesMs.filter((ms) => ms > sinceMs);
    return this.#timesMs.length;
  }
}
