import { AgingMap } from "../../base/aging-map.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";

/** The store's last answers about one account, and when it was asked: the two last times. */
type CacheEntry = {
  lastMs: number;
  beforeMs: number;
  told: Promise<QuotaDecision>;
  toldMs: number;
};

export type CachedUsage = { readonly verdict: QuotaDecision; readonly ageMs: number };

const SECOND_MS = 1_000;
/** So many accounts are kept at least once there are more, and twice as many at most. */
const KEPT = 5_000;

/**
 * Asks the store where an account stands, at most twice a second for each account: a client that asks
 * more often gets the last answer and its age (docs/reference/plans.md#standing).
 */
export class UsageReportCache {
  readonly #known = new AgingMap<CacheEntry>(KEPT);

  /** `elapsedMs` is of a monotonic clock. Rejects as `peek` does. */
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
