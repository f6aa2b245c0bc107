import type { QuotaStore } from "../../stores/quotas/quota-store.ts";

/** A difference is believed so long, or until this machine's clock is set: each request asks. */
const AHEAD_FOR_MS = 100;

/**
 * The clock by which records are judged and written: that of the store, so that every gateway that
 * shares it judges alike (docs/operations.md#clocks).
 */
export function storeNow(
  now: () => number,
  quotas: Pick<QuotaStore, "clockAheadMs">,
): () => number {
  let aheadMs = 0;
  let askedMs = Number.NEGATIVE_INFINITY;
  return () => {
    const nowMs = now();
    if (nowMs < askedMs || nowMs >= askedMs + AHEAD_FOR_MS) {
      aheadMs = quotas.clockAheadMs();
      askedMs = nowMs;
    }
    return nowMs + aheadMs;
  };
}
