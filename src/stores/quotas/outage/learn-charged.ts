import { closesMs } from "../../../core/quota/days.ts";
import { windowEnd } from "../../../core/quota/windows.ts";
import { isAddressAccount } from "../account-ref.ts";
import type { DecisionCache } from "../batch/decision-cache.ts";
import type { CountCorrections, WindowTotal } from "../count-corrections.ts";
import type { QuotaClient } from "../redis/quota-client.ts";
import type { AccountDebt, WindowDebt } from "./account-debt.ts";
import type { CountedUsage } from "./debts.ts";
import type { ChargedAccount, ChargedWindow } from "./late-charge.ts";

export type ChargedInputs = CountCorrections & {
  readonly quotaClient: Pick<QuotaClient, "historyMs">;
  readonly decisionCache: Pick<DecisionCache, "learnCounts" | "lostOf">;
};

/**
 * Learns the counts that the late charge of an account brought at `nowMs` of the store's clock, and
 * reports those that requests were not told.
 */
export function learnCharged(
  inputs: ChargedInputs,
  { accountRef, plan, windows, meters }: AccountDebt,
  charged: ChargedAccount,
  nowMs: number,
): void {
  const { decisionCache } = inputs;
  const totals: WindowTotal[] = [];
  let isLowered = false;
  for (const [i, owed] of windows.entries()) {
    const window = charged.windows[i];
    if (window === undefined) continue;
    const { counter, startMs, endMs, units } = owed;
    const { used, loweredFrom, hasRefused } = window;
    totals.push({ counter, startMs, endMs, used });
    // A window that was reset since then takes none of these units.
    const added = owed.chargedMs === undefined ? units : 0;
    const before = { counter, startMs, used: used - added };
    const lost = loweredFrom > 0 ? undefined : decisionCache.lostOf(accountRef, before, nowMs);
    if (lost !== undefined) inputs.onCountLost(accountRef, lost);
    isLowered ||= units < 0 && hasRefused;
    for (const usage of countedUsages(owed, window)) {
      inputs.onCounted({ accountRef, plan, usage });
    }
  }
  decisionCache.learnCounts(accountRef, totals, nowMs);
  if (isLowered) inputs.onLowered(accountRef, totals, nowMs);
  if (charged.lostOfDay > 0) inputs.onDayClosed(accountRef, charged.lostOfDay);
  if (inputs.quotaClient.historyMs === undefined || isAddressAccount(accountRef)) return;
  for (const each of meters) {
    const isLost = each.units < 0 && nowMs >= closesMs(each.day);
    if (isLost) inputs.onSettlementLost(accountRef, each);
  }
}

/** The counts that stay and that no event has reported, new or left of a late answer. */
function countedUsages(
  { limit, startMs, units, untold }: WindowDebt,
  { used, loweredFrom }: ChargedWindow,
): CountedUsage[] {
  if (limit === undefined) return [];
  const resetMs = windowEnd(limit.window, startMs, limit.calendar);
  const standing = { ...limit, resetMs };
  const mark = loweredFrom > 0 ? { loweredFrom } : {};
  const added = units > 0 ? [{ ...standing, ...mark, used, from: used - units }] : [];
  if (!untold || used <= untold.from) return added;
  // Without the mark, which belongs to the units that were taken back.
  return [...added, { ...standing, used: Math.min(untold.to, used), from: untold.from }];
}
