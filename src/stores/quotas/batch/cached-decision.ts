import type {
  Ban,
  BanPolicy,
  NewBan,
  QuotaDecision,
  QuotaRequest,
  WindowUsage,
} from "../../../core/quota/decide.ts";
import {
  costIn,
  counterName,
  counterWindow,
  currentEnd,
  fitsLimit,
  type Limit,
  mayStrike,
  type WindowName,
  windowEnd,
  windowStart,
} from "../../../core/quota/windows.ts";
import type { WindowTotal } from "../outage-handler.ts";
import { sameLimits, samePolicy } from "./mergeable.ts";

/**
 * When a call was sent and when it returned, in milliseconds of a monotonic clock, and the time on
 * the store's clock. All accounts of the call share it.
 */
export type RoundTrip = {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly nowMs: number;
};

/**
 * The last answer about one account. The ordinary case is small: `used` are the counts in the
 * windows of `limits` that were running then. `refusal` is kept if there is more to know: windows
 * without room, windows of several operations, strikes, a ban.
 */
export type CachedDecision = {
  readonly limits: readonly Limit[];
  readonly bans: BanPolicy | undefined;
  readonly trip: RoundTrip;
  readonly used: readonly number[];
  readonly refusal: RefusalDetails | undefined;
  /** See DecisionCache.invalidate. */
  era: number;
};
type Ordinary = CachedDecision & { trip: RoundTrip; readonly used: number[] };

export type RefusalDetails = {
  readonly windows: readonly KnownWindow[];
  readonly ban: Ban | undefined;
  readonly strikes: number;
  /**
   * A strike of this account is in flight: its further refusals are answered from this decision.
   */
  isStrikePending: boolean;
  /** A ban that has not been reported to any request yet. */
  unreportedBan: NewBan | undefined;
};

/**
 * `strikeDueMs` is the earliest instant at which refusals of this window are a strike, as far as
 * known.
 */
type KnownWindow = WindowUsage & {
  readonly counter: string;
  readonly startMs: number;
  readonly strikeDueMs: number;
};

/**
 * The answer in the form that is kept; it replaces `before`. If both are ordinary, `before` itself
 * is changed: a new object for each answer would live just long enough for the collector to move it
 * to the old space.
 */
export function cacheDecision(
  { limits, bans, cost = 1 }: QuotaRequest,
  verdict: QuotaDecision,
  trip: RoundTrip,
  before?: CachedDecision | undefined,
): CachedDecision {
  const sameWindows =
    before !== undefined && (before.limits === limits || sameLimits(before.limits, limits));
  const others = before === undefined || sameWindows ? NONE : windowsOf(before);
  const kept = before?.refusal?.windows ?? others;
  const { nowMs, windows } = verdict;
  if (!isOrdinary(verdict, cost) || kept.some((one) => matters(one, nowMs, windows))) {
    return { limits, bans, trip, used: [], refusal: wholeOf(verdict, cost, bans, kept), era: 0 };
  }
  if (!sameWindows || before.refusal !== undefined || before.bans !== bans) {
    return {
      limits,
      bans,
      trip,
      used: windows.map(({ used }) => used),
      refusal: undefined,
      era: 0,
    };
  }
  const known = before as Ordinary;
  known.trip = trip;
  for (let i = 0; i < windows.length; i++) known.used[i] = (windows[i] as WindowUsage).used;
  return known;
}

const NONE: readonly KnownWindow[] = [];

/** Whether a window that was known before stays known, in addition to those of the last answer. */
function matters(known: KnownWindow, nowMs: number, windows: readonly WindowUsage[]): boolean {
  if (known.resetMs <= nowMs) return false;
  return known.strikeDueMs > nowMs || !windows.some((one) => counterName(one) === known.counter);
}

function wholeOf(
  verdict: QuotaDecision,
  cost: number,
  bans: BanPolicy | undefined,
  kept: readonly KnownWindow[],
): RefusalDetails {
  const { nowMs, ban, strikes } = verdict;
  const striking = lastStriking(verdict.windows, cost, nowMs);
  const windows = verdict.windows.map((standing): KnownWindow => {
    const counter = counterName(standing);
    const earlier = kept.find((one) => one.counter === counter && one.resetMs === standing.resetMs);
    const toldMs = bans !== undefined && standing === striking ? verdict.strikeDueMs : nowMs;
    const strikeDueMs = Math.max(toldMs, earlier?.strikeDueMs ?? 0);
    const startMs = windowStart(standing.window, standing.resetMs - 1, standing.calendar);
    return { ...standing, counter, startMs, strikeDueMs };
  });
  const others = kept.filter(({ counter, resetMs }) => {
    return resetMs > nowMs && !windows.some((one) => one.counter === counter);
  });
  return {
    windows: [...windows, ...others],
    ban,
    strikes,
    isStrikePending: false,
    unreportedBan: undefined,
  };
}

/** The window that ends last of all windows whose refusals of the cost may be strikes. */
function lastStriking<T extends WindowUsage>(
  windows: readonly T[],
  cost: number,
  nowMs: number,
): T | undefined {
  let last: T | undefined;
  for (const window of windows) {
    if (window.resetMs <= nowMs || !mayStrike(window)) continue;
    if (fitsLimit(window, window.used, cost)) continue;
    if (last === undefined || window.resetMs >= last.resetMs) last = window;
  }
  return last;
}

/** All known windows of an account, as they were when the answer arrived. */
function windowsOf({ limits, trip, used, refusal: whole }: CachedDecision): readonly KnownWindow[] {
  if (whole !== undefined) return whole.windows;
  return limits.map((limit, i) => {
    const startMs = windowStart(limit.window, trip.nowMs, limit.calendar);
    const resetMs = windowEnd(limit.window, startMs, limit.calendar);
    const standing = { ...limit, used: used[i] as number, startMs, resetMs };
    return { ...standing, counter: counterName(limit), strikeDueMs: trip.nowMs };
  });
}

/** The last known count of a window; 0 if there is none. */
export function countIn(known: CachedDecision, counter: string, startMs: number): number {
  const found = windowsOf(known).find((one) => {
    return one.counter === counter && one.startMs === startMs;
  });
  return found?.used ?? 0;
}

/**
 * The decision with counts that the store reported later. If no decision was known, or only another
 * window of the counter, the limit is unknown and is set to the greatest number.
 */
export function withCounts(
  known: CachedDecision | undefined,
  counts: readonly WindowTotal[],
  nowMs: number,
): CachedDecision {
  const receivedMs = performance.now();
  const trip = { sentMs: receivedMs, receivedMs, nowMs };
  const told = counts.map(({ counter, startMs, endMs, used }): KnownWindow => {
    const window = counterWindow(counter);
    const resetMs = endMs ?? windowEnd(window, startMs);
    const [id] = counter.split(".");
    const part = id === counter ? {} : { part: { id: id as string, name: "" } };
    const limit = Number.MAX_SAFE_INTEGER;
    return { window, ...part, limit, used, startMs, resetMs, counter, strikeDueMs: nowMs };
  });
  const before = known === undefined ? NONE : windowsOf(known);
  const windows = before.flatMap((one) => {
    const used = told.find(({ counter, startMs }) => {
      return counter === one.counter && startMs === one.startMs;
    })?.used;
    return one.resetMs <= nowMs ? [] : [used === undefined ? one : { ...one, used }];
  });
  for (const one of told) {
    if (!windows.some(({ counter }) => counter === one.counter)) windows.push(one);
  }
  const refusal = known?.refusal ?? NO_REFUSAL;
  return {
    limits: known?.limits ?? [],
    bans: known?.bans,
    trip,
    used: [],
    refusal: { ...refusal, windows },
    era: 0,
  };
}

/** The decision with a ban that the store reported later. */
export function withBan(
  known: CachedDecision | undefined,
  ban: Ban,
  nowMs: number,
): CachedDecision {
  const counted = withCounts(known, [], nowMs);
  return { ...counted, refusal: { ...(counted.refusal ?? NO_REFUSAL), ban } };
}

const NO_REFUSAL: RefusalDetails = {
  windows: [],
  ban: undefined,
  strikes: 0,
  isStrikePending: false,
  unreportedBan: undefined,
};

export type LostCount = {
  readonly window: WindowName;
  readonly used: number;
  readonly was: number;
};

/**
 * The first window that counts less than before, although it is the same window and the store's
 * clock has advanced; undefined if no loss is known.
 */
export function findLostCount(
  before: CachedDecision | undefined,
  { limits }: QuotaRequest,
  { nowMs, windows, repaired }: QuotaDecision,
): LostCount | undefined {
  if (before === undefined || repaired) return undefined;
  // The answers of two calls that were in flight together may arrive in either order.
  if (nowMs <= before.trip.nowMs) return undefined;
  const indexed = before.refusal === undefined && before.limits === limits;
  const known = indexed ? NONE : windowsOf(before);
  for (let i = 0; i < windows.length; i++) {
    const standing = windows[i] as WindowUsage;
    const { window, used, resetMs, loweredFrom } = standing;
    if (loweredFrom !== undefined) continue;
    const held = indexed
      ? undefined
      : known.find(({ counter }) => counter === counterName(standing));
    if (!indexed && held === undefined) continue;
    const was = held?.used ?? (before.used[i] as number);
    if (used >= was) continue;
    const thenMs = held?.resetMs ?? currentEnd(standing, before.trip.nowMs);
    if (resetMs === thenMs) return { window, used, was };
  }
  return undefined;
}

/**
 * Whether the decision refuses nothing, so that only the counts of the running windows must be
 * kept.
 */
function isOrdinary({ nowMs, windows, ban, strikes }: QuotaDecision, cost: number): boolean {
  if (ban !== undefined || strikes > 0) return false;
  for (const standing of windows) {
    const { limit, used, resetMs } = standing;
    if (used + costIn(standing, cost) > limit || used >= limit) return false;
    if (resetMs !== currentEnd(standing, nowMs)) return false;
  }
  return true;
}

/**
 * The decision as it is `sinceMs` after its receipt, in the windows of `limits` or in all known
 * windows. A window that ended since then is empty, and a ban that ended is over. The time is
 * counted from the receipt, so that Retry-After is never too short.
 */
export function decisionAfter(
  known: CachedDecision,
  sinceMs: number,
  limits?: readonly Limit[],
): QuotaDecision {
  const nowMs = Math.floor(known.trip.nowMs + sinceMs);
  const held = windowsOf(known);
  const windows = (limits ?? held).map((limit): WindowUsage => {
    const counter = counterName(limit);
    const one = held.find((each) => each.counter === counter);
    const running = one !== undefined && one.resetMs > nowMs;
    const { window, limit: most, calendar, part, observed, hold } = limit;
    return {
      window,
      limit: most,
      ...(calendar === undefined ? {} : { calendar }),
      ...(part === undefined ? {} : { part }),
      ...(observed === undefined ? {} : { observed }),
      ...(hold === undefined ? {} : { hold }),
      used: running ? one.used : 0,
      resetMs: running ? one.resetMs : currentEnd(limit, nowMs),
    };
  });
  const ban = known.refusal?.ban;
  return {
    nowMs,
    granted: 0,
    windows,
    ban: ban !== undefined && ban.untilMs > nowMs ? ban : undefined,
    strikes: known.refusal?.strikes ?? 0,
    strikeDueMs: nowMs,
    repaired: false,
  };
}

/**
 * Whether the last answer refuses a request at `nowMs` of the store's clock: no; certainly, from
 * memory; or with a refusal that could be a strike and must reach the store
 * (docs/reference/store.md#known-refusals). An account is known by its windows: its requests may
 * differ in cost and operation.
 */
export function refusalKind(
  { refusal: whole, bans: policy }: CachedDecision,
  { limits, bans, cost = 1 }: QuotaRequest,
  nowMs: number,
): "no" | "surely" | "strike" {
  if (whole === undefined) return "no";
  if (bans !== undefined && whole.ban !== undefined && whole.ban.untilMs > nowMs) return "surely";
  let last: KnownWindow | undefined;
  let striking: KnownWindow | undefined;
  let unknownEndMs = 0;
  for (const limit of limits) {
    const counter = counterName(limit);
    const known = whole.windows.find((one) => one.counter === counter);
    if (known === undefined) {
      unknownEndMs = Math.max(unknownEndMs, currentEnd(limit, nowMs));
    } else if (known.resetMs > nowMs && !fitsLimit(limit, known.used, cost)) {
      if (last === undefined || known.resetMs >= last.resetMs) last = known;
      const ends = striking?.resetMs ?? 0;
      if (mayStrike(limit) && known.resetMs >= ends) striking = known;
    }
  }
  // An unknown window may refuse for longer, and then it is the one to report.
  if (last === undefined || unknownEndMs > last.resetMs) return "no";
  if (bans === undefined || striking === undefined) return "surely";
  if (!samePolicy(policy, bans)) return "no";
  return nowMs < striking.strikeDueMs ? "surely" : "strike";
}

/**
 * Whether a strike that reaches the store by `latestMs` of its clock could be the one that bans.
 * Since the last answer other gateways may have sent strikes, one in each grace.
 */
export function couldCauseBan(
  { refusal: whole, trip }: CachedDecision,
  bans: BanPolicy | undefined,
  latestMs: number,
): boolean {
  if (whole === undefined || bans === undefined) return false;
  if (bans.graceMs === 0) return true;
  const others = Math.floor((latestMs - trip.nowMs) / bans.graceMs);
  return whole.strikes + others + 1 >= bans.strikes;
}
