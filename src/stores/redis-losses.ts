import type { CountLost } from "./batch/last-answers.ts";
import type { AccountName, Report } from "./interface/quota-store.ts";

/** One line of this kind in so long: what was lost is seldom one account's. */
const EACH_MS = 60_000;

/**
 * Tells, once a minute at most, that the store has forgotten charges that it had told of: after a
 * FLUSHALL, a failover to a replica that was behind, a restart, or an eviction. Whoever had used up
 * the window may use it again.
 */
export function tellLosses(shown: string, report: Report) {
  let toldMs = Number.NEGATIVE_INFINITY;
  return ({ environment, account }: AccountName, lost: CountLost): void => {
    const nowMs = performance.now();
    if (nowMs - toldMs < EACH_MS) return;
    toldMs = nowMs;
    const why = "the store has lost charges of a window that is not over";
    report("error", "counter_regression", { store: shown, environment, account, ...lost, why });
  };
}
