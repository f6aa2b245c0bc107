import type { WindowUsage } from "../../../core/quota/decide.ts";
import { settleWindow } from "../../../core/quota/window-count.ts";
import { counterName, usageStart } from "../../../core/quota/windows.ts";
import type { LateUsage } from "../quota-store.ts";
import type { AccountEntry } from "./account-table.ts";

/**
 * Settles one window of an account. If the clock went back and the count was moved to the present,
 * units above the hold go there, and none are given back, as in late-charge.lua. Returns the window
 * if its count rose, with the count before; undefined otherwise.
 */
export function settleStanding(
  entry: AccountEntry | undefined,
  standing: WindowUsage,
  { units, chargedMs, nowMs }: Readonly<Record<"units" | "chargedMs" | "nowMs", number>>,
): LateUsage["usage"] | undefined {
  if (entry === undefined || nowMs >= standing.resetMs) return undefined;
  const counter = counterName(standing);
  const startMs = usageStart(standing);
  const stored = entry.usage[counter];
  if (stored === undefined) return undefined;
  const isMoved = stored.startMs < startMs && startMs - nowMs > standing.resetMs - startMs;
  const settled = isMoved
    ? settleWindow(stored, { startMs: stored.startMs, units: Math.max(0, units), chargedMs })
    : settleWindow(stored, { startMs, units, chargedMs });
  if (settled === undefined) return undefined;
  entry.usage = { ...entry.usage, [counter]: settled };
  if (isMoved || settled.count <= stored.count) return undefined;
  const { loweredFrom } = settled;
  const usage = { ...standing, used: settled.count, from: stored.count };
  return loweredFrom === undefined ? usage : { ...usage, loweredFrom };
}
