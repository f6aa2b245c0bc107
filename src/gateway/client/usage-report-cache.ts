import { AgingMap } from "../../base/aging-map.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";

/** The store's last answer about one account, and the times of the last two requests for it. */
type CacheEntry = {
  lastMs: number;
  beforeMs: number;
  told: Promise<QuotaDecision>;
  toldMs: number;
};

export type CachedUsage = { readonly verdict: QuotaDecision; readonly ageMs: number };

const SECOND_MS = 1_000;
/** The least number of accounts kept once there are more; at most twice as many are kept. */
const KEPT = 5_000;

/**
 * Asks the store for the standing of an account, at most twice a second for each account. A client
 * that asks more often gets the last answer and its age (docs/reference/plans.md#standing).
 */
export class UsageReportCache {
  readonly #known = new AgingMap<CacheEntry>(KEPT);

  /** `elapsedMs` is on a monotonic clock. Rejects as `peek` does. */
  async ask(
    id: string,
    elapsedMs: number,
    peek: () => Promise<QuotaDecision>,
  ): Promise<CachedUsage> {
    const known = this.#known.get(id);
    if (known !== undefined && elapsedMs - known.beforeMs < SECOND_MS) {
      return { verdict: await known.told, ageMs: elapsedMs - known.toldMs };
    }
    const recent: CacheEntry = {
      lastMs: elapsedMs,
      beforeMs: known?.lastMs ?? Number.NEGATIVE_INFINITY,
      told: peek(),
      toldMs: elapsedMs,
    };
    this.#known.set(id, recent);
    return { verdict: await recent.told, ageMs: 0 };
  }
}
