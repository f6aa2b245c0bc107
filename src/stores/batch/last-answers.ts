import type { Ask, BanPolicy, Verdict, WindowStanding } from "../../core/quota/decide.ts";
import { refusalAt } from "../../core/quota/standing.ts";
import { type Limit, type WindowName, windowEnd, windowStart } from "../../core/quota/windows.ts";

/**
 * When a call left and came back, in milliseconds of a monotonic clock, and when that was by the
 * clock of the store. One for all accounts of the call.
 */
export type Trip = {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly nowMs: number;
};

/**
 * The last answer about one account. The ordinary case is small: counts in the windows of then.
 * `whole` is kept where there is more to remember: an exhausted window, strikes, a ban.
 */
export type LastAnswer = {
  readonly limits: readonly Limit[];
  readonly bans: BanPolicy | undefined;
  readonly trip: Trip;
  readonly used: readonly number[];
  readonly whole: Whole | undefined;
};
type Ordinary = LastAnswer & { trip: Trip; readonly used: number[] };

export type Whole = {
  readonly verdict: Verdict;
  /** A strike of this account is under way: its further refusals are answered from here. */
  striking: boolean;
};

/**
 * Remembers an answer, in `before` where that is as ordinary: a new object for each answer would
 * live just long enough for the collector to move it to the old space.
 */
export function remember(
  { limits, bans }: Ask,
  verdict: Verdict,
  trip: Trip,
  before?: LastAnswer | undefined,
): LastAnswer {
  const { windows } = verdict;
  if (!isOrdinary(verdict)) {
    return { limits, bans, trip, used: [], whole: { verdict, striking: false } };
  }
  if (before?.whole !== undefined || before?.limits !== limits || before.bans !== bans) {
    const used = windows.map((window) => window.used);
    return { limits, bans, trip, used, whole: undefined };
  }
  const known = before as Ordinary;
  known.trip = trip;
  for (let i = 0; i < windows.length; i++) known.used[i] = (windows[i] as WindowStanding).used;
  return known;
}

export type CountLost = {
  readonly window: WindowName;
  readonly used: number;
  readonly was: number;
};

/**
 * The first window that counts less than it did, though it is the same one and the store's clock has
 * gone on: undefined where nothing was lost, as far as is known.
 */
export function countLost(
  before: LastAnswer | undefined,
  { limits }: Ask,
  { nowMs, windows, repaired }: Verdict,
): CountLost | undefined {
  if (before === undefined || before.limits !== limits || repaired) return undefined;
  // Answers of two calls that were under way together may change places.
  if (nowMs <= before.trip.nowMs) return undefined;
  for (let i = 0; i < windows.length; i++) {
    const { window, used, resetMs } = windows[i] as WindowStanding;
    const held = before.whole?.verdict.windows[i];
    const was = held?.used ?? (before.used[i] as number);
    if (used >= was) continue;
    const thenMs = held?.resetMs ?? windowEnd(window, windowStart(window, before.trip.nowMs));
    if (resetMs === thenMs) return { window, used, was };
  }
  return undefined;
}

/** Nobody is refused, and nothing is remembered but counts in the windows of now. */
function isOrdinary({ nowMs, windows, ban, strikes }: Verdict): boolean {
  if (ban !== undefined || strikes > 0) return false;
  for (const { window, limit, used, resetMs } of windows) {
    if (used >= limit || resetMs !== windowEnd(window, windowStart(window, nowMs))) return false;
  }
  return true;
}

/**
 * The verdict as it stands `sinceMs` after it was received: a window that ended since then is empty,
 * and a ban that ended is over. Counted from the receipt, so that Retry-After is never too short.
 */
export function verdictSince({ limits, trip, used, whole }: LastAnswer, sinceMs: number): Verdict {
  const { nowMs } = trip;
  const thenMs = Math.floor(nowMs + sinceMs);
  const windows = limits.map(({ window, limit }, i) => {
    const nextMs = windowEnd(window, windowStart(window, thenMs));
    const held = whole?.verdict.windows[i];
    const resetMs = held?.resetMs ?? windowEnd(window, windowStart(window, nowMs));
    if (resetMs <= thenMs) return { window, limit, used: 0, resetMs: nextMs };
    return { window, limit, used: held?.used ?? (used[i] as number), resetMs };
  });
  const ban = whole?.verdict.ban;
  return {
    nowMs: thenMs,
    granted: 0,
    windows,
    ban: ban !== undefined && ban.untilMs > thenMs ? ban : undefined,
    strikes: whole?.verdict.strikes ?? 0,
    strikeDueMs: Math.max(thenMs, whole?.verdict.strikeDueMs ?? thenMs),
    repaired: false,
  };
}

/**
 * Whether the last answer refuses a request at `nowMs` of the store's clock: no; surely, from
 * memory; or with a refusal that could be a strike, which the store must hear of
 * (docs/reference/store.md#known-refusals).
 */
export function refuses({ whole, bans }: LastAnswer, nowMs: number): "no" | "surely" | "strike" {
  if (whole === undefined || refusalAt(whole.verdict, nowMs) === undefined) return "no";
  const { ban, strikeDueMs } = whole.verdict;
  if (bans === undefined || (ban !== undefined && ban.untilMs > nowMs)) return "surely";
  return nowMs < strikeDueMs ? "surely" : "strike";
}
