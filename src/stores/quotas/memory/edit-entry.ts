import { type Ban, banAt } from "../../../core/quota/bans.ts";
import { NEW_ACCOUNT_STATE } from "../../../core/quota/decide.ts";
import { counterWindow, windowEnd } from "../../../core/quota/windows.ts";
import type { ImposedBan, ResetScope, ResetWindow } from "../admin-changes.ts";
import type { AccountEntry } from "./account-table.ts";

/** Bans an account by hand. Its strikes are forgotten, and offences that are still kept stay. */
export function imposeBan(entry: AccountEntry, imposed: ImposedBan, nowMs: number): Ban {
  const { lengthMs, window, keptMs, reason } = imposed;
  const { untilMs, offences: earned } = entry.ban ?? { untilMs: 0, offences: 0 };
  const offences = untilMs + keptMs > nowMs ? earned : 0;
  const ban = { untilMs: nowMs + lengthMs, lengthMs, window, offences };
  entry.cause = { untilMs: ban.untilMs, atMs: nowMs, imposed: true, reason, strikesMs: [] };
  entry.strikesMs = NEW_ACCOUNT_STATE.strikesMs;
  entry.ban = ban;
  return ban;
}

/** Ends a ban and forgets its offences and strikes. Returns false if no ban was in force. */
export function endBan(entry: AccountEntry, nowMs: number): boolean {
  if (banAt(entry.ban, nowMs) === undefined) return false;
  entry.strikesMs = NEW_ACCOUNT_STATE.strikesMs;
  entry.ban = undefined;
  return true;
}

/** Sets the running windows of an account to 0, and returns the count that each had. */
export function resetCounters(
  entry: AccountEntry,
  { counters, calendar }: ResetScope,
  nowMs: number,
): ResetWindow[] {
  const reset: ResetWindow[] = [];
  const usage = { ...entry.usage };
  for (const [counter, stored] of Object.entries(entry.usage)) {
    if (stored === undefined || counters?.includes(counter) === false) continue;
    const endMs = windowEnd(counterWindow(counter), stored.startMs, calendar);
    if (endMs <= nowMs) continue;
    usage[counter] = { startMs: stored.startMs, count: 0, refusedMs: 0, zeroedMs: nowMs };
    reset.push({ counter, units: stored.count });
  }
  entry.usage = usage;
  return reset;
}
