import type { PromiseChecker } from "./checker.ts";
import type { SentRequest } from "./promises.ts";
import { OPERATIONS } from "./workload.ts";

/** A gateway follows a new master within this time, and replication is no further behind. */
const UNREPLICATED_MS = 1_000;

type Load = Pick<PromiseChecker, "take" | "deniedAfterWaiting">;

/**
 * Tells the most units that a failover may lose: those that were admitted in its busiest second. The
 * windows of a load fill up in bursts, so the average of the whole load tells less.
 */
export class FailoverLoss {
  readonly #lastSecond: { readonly atMs: number; readonly units: number }[] = [];
  #units = 0;
  #most = 0;

  /** The most units since the last call of `begin`, and in the second before it. */
  get most(): number {
    return this.#most;
  }

  /** Called when the failover begins; in Unix milliseconds. */
  begin(nowMs: number): void {
    this.#forget(nowMs);
    this.#most = this.#units;
  }

  /** A judge of the load that passes all of it on to `judge`. */
  beside(judge: Load): Load {
    return {
      take: (shot) => {
        judge.take(shot);
        this.#take(shot);
      },
      deniedAfterWaiting: (account, seconds) => judge.deniedAfterWaiting(account, seconds),
    };
  }

  #take({ operation, endedMs, answer }: SentRequest): void {
    if (answer?.status !== 200) return;
    const units = OPERATIONS[operation as keyof typeof OPERATIONS].cost;
    this.#lastSecond.push({ atMs: endedMs, units });
    this.#units += units;
    this.#forget(endedMs);
    this.#most = Math.max(this.#most, this.#units);
  }

  #forget(nowMs: number): void {
    for (let [first] = this.#lastSecond; first !== undefined; [first] = this.#lastSecond) {
      if (first.atMs > nowMs - UNREPLICATED_MS) return;
      this.#units -= first.units;
      this.#lastSecond.shift();
    }
  }
}
