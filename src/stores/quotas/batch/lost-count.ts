import type { QuotaDecision, QuotaRequest, WindowUsage } from "../../../core/quota/decide.ts";
import { windowLabel } from "../../../core/quota/rate-limit-info.ts";
import { counterName, currentEnd } from "../../../core/quota/windows.ts";
import type { LostCount, WindowTotal } from "../count-corrections.ts";
import { type CachedDecision, windowIn, windowsOf } from "./cached-decision.ts";

/**
 * The first window of a decision that counts less than before, although it is the same window and
 * the store's clock has advanced; undefined if no loss is known.
 */
export function findLostCount(
  before: CachedDecision | undefined,
  { limits }: QuotaRequest,
  { nowMs, windows, repaired }: QuotaDecision,
): LostCount | undefined {
  if (before === undefined || repaired) return undefined;
  // The answers of two calls that were in flight together may arrive in either order.
  if (nowMs <= before.trip.nowMs) return undefined;
  // In the ordinary case the counts have the order of the windows, and nothing is looked up.
  const isOrdinary = before.refusal === undefined && before.limits === limits;
  const known = isOrdinary ? undefined : windowsOf(before);
  for (let i = 0; i < windows.length; i++) {
    const usage = windows[i] as WindowUsage;
    const { used, resetMs, loweredFrom } = usage;
    if (loweredFrom !== undefined) continue;
    const held = known?.find(({ counter }) => counter === counterName(usage));
    if (known !== undefined && held === undefined) continue;
    const was = held?.used ?? (before.used[i] as number);
    if (used >= was) continue;
    const thenMs = held?.resetMs ?? currentEnd(usage, before.trip.nowMs);
    if (resetMs !== thenMs) continue;
    const countedMs = held?.countedMs ?? before.trip.nowMs;
    return { counter: counterName(usage), window: windowLabel(usage), used, was, countedMs };
  }
  return undefined;
}

/**
 * The loss that a count shows, which the store reported at `nowMs` of its clock without a decision;
 * undefined if it shows none.
 */
export function findLossIn(
  before: CachedDecision,
  { counter, startMs, used }: WindowTotal,
  nowMs: number,
): LostCount | undefined {
  if (before.trip.nowMs >= nowMs) return undefined;
  const known = windowIn(before, counter, startMs);
  if (known === undefined || used >= known.used) return undefined;
  const { used: was, countedMs } = known;
  return { counter, window: windowLabel(known), used, was, countedMs };
}
