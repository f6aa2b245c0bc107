import type { Ban, BanPolicy, NewBan } from "../../../core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest, WindowUsage } from "../../../core/quota/decide.ts";
import {
  CAP_NAME,
  costIn,
  counterName,
  counterWindow,
  currentEnd,
  fitsLimit,
  type Limit,
  mayStrike,
  usageStart,
  windowEnd,
  windowStart,
} from "../../../core/quota/windows.ts";
import type { StoreClock } from "../../redis/store-clock.ts";
import type { WindowTotal } from "../count-corrections.ts";
import { sameLimits } from "./mergeable.ts";
import { stillTold, type ToldWindows } from "./told-windows.ts";

/**
 * When a call was sent and when it returned, in milliseconds of a monotonic clock, and the time on
 * the store's clock. All accounts of the call share it.
 */
export type RoundTrip = {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly nowMs: number;
  /** The clock of the node that answered, by which windows and bans end if it is set. */
  readonly clock?: Pick<StoreClock, "latestAt" | "wasSetBack"> | undefined;
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
  /** The outdated answer that a ban is left of: its counts stay valid. */
  readonly outdated?: CachedDecision;
};
type Ordinary = CachedDecision & { trip: RoundTrip; readonly used: number[] };

/** Why a known refusal goes to the store, see RefusalKind. */
export type PacedKind = "strike" | "first" | "incomplete";

export type RefusalDetails = {
  readonly windows: readonly KnownWindow[];
  readonly ban: Ban | undefined;
  /** The era of a ban that was learned later than the windows. */
  readonly banEra?: number;
  /** Whether another gateway told the ban, and the store did not. */
  readonly isTold?: boolean | undefined;
  /** The instants of the strikes, each not earlier than it was. */
  readonly strikesMs: readonly number[];
  /** The instant of that answer about the strikes. Other gateways may have sent some since. */
  readonly strikesAtMs: number;
  /**
   * Why a known refusal of this account is on its way to the store: its further refusals are
   * answered from this decision.
   */
  pending: PacedKind | undefined;
  /** A ban that has not been reported to any request yet. */
  unreportedBan: NewBan | undefined;
  /** The windows as the last refused request was told them. */
  told: ToldWindows | undefined;
};

/**
 * `strikeDueMs` is the earliest instant at which refusals of this window are a strike, as far as
 * known. `countedMs` is the instant of the count, on the store's clock. `sinceMs` is that of the
 * first answer with this count, or with nothing left. `isNoted`: the store has noted a refusal of
 * the window, so it publishes when the count goes down (docs/reference/store.md#known-refusals).
 */
export type KnownWindow = WindowUsage & {
  readonly counter: string;
  readonly startMs: number;
  readonly strikeDueMs: number;
  readonly countedMs: number;
  readonly sinceMs: number;
  readonly isNoted: boolean;
};

/**
 * The answer in the form that is kept; it replaces `before`. If both are ordinary, `before` itself
 * is changed: a new object for each answer would live just long enough for the collector to move it
 * to the old space. `asked` is the number of requests that the store decided.
 */
export function cacheDecision(
  quotaRequest: QuotaRequest,
  decision: QuotaDecision,
  trip: RoundTrip,
  before?: CachedDecision | undefined,
  asked = quotaRequest.requests,
): CachedDecision {
  const { limits, bans, cost = 1 } = quotaRequest;
  const { nowMs, windows, ban } = decision;
  const isSameForm =
    before !== undefined &&
    before.refusal === undefined &&
    (before.limits === limits || sameLimits(before.limits, limits));
  const kept = before === undefined || isSameForm ? NONE : windowsOf(before);
  if (!isOrdinary(decision, cost) || kept.some((one) => staysKnown(one, nowMs, windows))) {
    const known = before?.refusal ?? NO_REFUSAL;
    const isRefused = decision.granted < asked && ban === undefined;
    const refusal: RefusalDetails = {
      windows: knownWindows(quotaRequest, decision, isRefused, kept),
      ban,
      strikesMs: strikeInstants(known.strikesMs, bans, decision),
      strikesAtMs: nowMs,
      pending: undefined,
      unreportedBan: undefined,
      told: stillTold(known.told, limits, windows),
    };
    return { limits, bans, trip, used: [], refusal, era: 0 };
  }
  if (!isSameForm || before.bans !== bans) {
    const used = windows.map((usage) => usage.used);
    return { limits, bans, trip, used, refusal: undefined, era: 0 };
  }
  const ordinary = before as Ordinary;
  ordinary.trip = trip;
  for (let i = 0; i < windows.length; i++) ordinary.used[i] = (windows[i] as WindowUsage).used;
  return ordinary;
}

const NONE: readonly KnownWindow[] = [];

/** Whether a window that was known before stays known, in addition to those of the last answer. */
function staysKnown(known: KnownWindow, nowMs: number, windows: readonly WindowUsage[]): boolean {
  if (known.resetMs <= nowMs) return false;
  return known.strikeDueMs > nowMs || !windows.some((one) => counterName(one) === known.counter);
}

/**
 * The instants of the strikes of an answer: those that are known, and for others its own instant,
 * which is that of a strike which it decided.
 */
function strikeInstants(
  known: readonly number[],
  bans: BanPolicy | undefined,
  { nowMs, strikes }: QuotaDecision,
): readonly number[] {
  if (bans === undefined || strikes === 0) return [];
  const recent = known.filter((atMs) => nowMs - atMs < bans.withinMs).slice(-strikes);
  return [...recent, ...Array<number>(strikes - recent.length).fill(nowMs)];
}

/**
 * The windows of an answer, and those known before that still run. `isRefused`: the store has refused
 * a request by its windows, and noted that.
 */
function knownWindows(
  { bans, cost = 1 }: QuotaRequest,
  decision: QuotaDecision,
  isRefused: boolean,
  kept: readonly KnownWindow[],
): readonly KnownWindow[] {
  const { nowMs } = decision;
  const striking = lastStriking(decision.windows, cost, nowMs);
  const windows = decision.windows.map((usage): KnownWindow => {
    const counter = counterName(usage);
    const earlier = kept.find((one) => one.counter === counter && one.resetMs === usage.resetMs);
    const toldMs = bans !== undefined && usage === striking ? decision.strikeDueMs : nowMs;
    const strikeDueMs = Math.max(toldMs, earlier?.strikeDueMs ?? 0);
    const startMs = usageStart(usage);
    const notes = usage === striking || !(mayStrike(usage) || fitsLimit(usage, usage.used, cost));
    const isNoted = (isRefused && notes) || earlier?.isNoted === true;
    const sinceMs = sinceOf(earlier, usage.used, nowMs);
    return { ...usage, counter, startMs, strikeDueMs, countedMs: nowMs, sinceMs, isNoted };
  });
  const others = kept.filter(({ counter, resetMs }) => {
    return resetMs > nowMs && !windows.some((one) => one.counter === counter);
  });
  return [...windows, ...others];
}

/** Since when the window has had this count, or nothing left; `nowMs` is the instant of the count. */
function sinceOf(earlier: KnownWindow | undefined, used: number, nowMs: number): number {
  if (earlier === undefined) return nowMs;
  const isSame = earlier.used === used || Math.min(earlier.used, used) >= earlier.limit;
  return isSame ? earlier.sinceMs : nowMs;
}

/** The window that ends last of all windows whose refusals of the cost may be strikes. */
function lastStriking(
  windows: readonly WindowUsage[],
  cost: number,
  nowMs: number,
): WindowUsage | undefined {
  let last: WindowUsage | undefined;
  for (const window of windows) {
    if (window.resetMs <= nowMs || !mayStrike(window)) continue;
    if (fitsLimit(window, window.used, cost)) continue;
    if (last === undefined || window.resetMs >= last.resetMs) last = window;
  }
  return last;
}

/** All known windows of an account, as they were when the answer arrived. */
export function windowsOf({
  limits,
  trip: { nowMs },
  used,
  refusal,
}: CachedDecision): readonly KnownWindow[] {
  if (refusal !== undefined) return refusal.windows;
  return limits.map((limit, i) => {
    const startMs = windowStart(limit.window, nowMs, limit.calendar);
    const resetMs = windowEnd(limit.window, startMs, limit.calendar);
    return countedWindow(limit, { startMs, resetMs, used: used[i] as number }, nowMs);
  });
}

/** A window with its count at `nowMs`, of whose refusals nothing is known. */
function countedWindow(
  limit: Limit,
  count: Pick<KnownWindow, "startMs" | "resetMs" | "used">,
  nowMs: number,
): KnownWindow {
  const atMs = { strikeDueMs: nowMs, countedMs: nowMs, sinceMs: nowMs };
  return { ...limit, ...count, counter: counterName(limit), ...atMs, isNoted: false };
}

/** The known window of a counter that starts at an instant. */
export function windowIn(
  cached: CachedDecision,
  counter: string,
  startMs: number,
): KnownWindow | undefined {
  return windowsOf(cached).find((one) => one.counter === counter && one.startMs === startMs);
}

/** An instant of the store's clock, and how long ago that was, at least. */
export type ToldAt = Pick<RoundTrip, "nowMs" | "clock"> & { readonly ageMs: number };

/** The decision about an account of which nothing is known yet, in the era `era`. */
export function unknownAccount(era: number): CachedDecision {
  return { limits: [], bans: undefined, trip: NEVER, used: [], refusal: undefined, era };
}

/**
 * The decision with counts that the store reported at `nowMs` of its clock. The count of a window that
 * was decided since then stays.
 */
export function withCounts(
  cached: CachedDecision,
  counts: readonly WindowTotal[],
  { nowMs, ageMs, clock }: ToldAt,
): CachedDecision & { readonly refusal: RefusalDetails } {
  const receivedMs = performance.now() - ageMs;
  const message = { sentMs: receivedMs, receivedMs, nowMs, clock };
  const trip = cached.trip.nowMs > nowMs ? cached.trip : message;
  const told = counts.map((total) => toldWindow(total, nowMs));
  const windows = windowsOf(cached).flatMap((one) => {
    if (one.resetMs <= trip.nowMs) return [];
    const used = told.find(({ counter, startMs }) => {
      return counter === one.counter && startMs === one.startMs;
    })?.used;
    const isOutdated = used !== undefined && one.countedMs <= nowMs;
    if (!isOutdated) return [one];
    return [{ ...one, used, countedMs: nowMs, sinceMs: sinceOf(one, used, nowMs) }];
  });
  for (const one of told) {
    if (!windows.some(({ counter }) => counter === one.counter)) windows.push(one);
  }
  const { limits, bans, era } = cached;
  const refusal = cached.refusal ?? { ...NO_REFUSAL, strikesAtMs: cached.trip.nowMs };
  return { limits, bans, trip, used: [], refusal: { ...refusal, windows, told: undefined }, era };
}

/** A window by its count alone. Its limit is unknown, and set to the greatest number. */
function toldWindow({ counter, startMs, endMs, used }: WindowTotal, nowMs: number): KnownWindow {
  const window = counterWindow(counter);
  const resetMs = endMs ?? windowEnd(window, startMs);
  const [id = ""] = counter.split(".");
  // The name of an operation is in the configuration alone.
  const name = id.startsWith("@") ? CAP_NAME : id.replace("#", "");
  const part = id === counter ? {} : { part: { id, name } };
  const limit = { window, ...part, limit: Number.MAX_SAFE_INTEGER };
  return countedWindow(limit, { startMs, resetMs, used }, nowMs);
}

/** The decision with a ban that is known at `at`. */
export function withBan(
  cached: CachedDecision,
  banned: Pick<RefusalDetails, "ban" | "banEra" | "isTold">,
  at: ToldAt,
): CachedDecision {
  const counted = withCounts(cached, [], at);
  return { ...counted, refusal: { ...counted.refusal, ...banned } };
}

/** The decision of which nothing but the ban refuses; undefined if it has no ban. */
export function onlyBan(outdated: CachedDecision): CachedDecision | undefined {
  const banned = withoutCounts(outdated);
  return banned && { ...banned, outdated };
}

/** The decision of which the ban alone is left; undefined if it has none. */
export function withoutCounts(cached: CachedDecision): CachedDecision | undefined {
  const { bans, trip, era, refusal: { ban, banEra = era, isTold } = NO_REFUSAL } = cached;
  if (ban === undefined) return undefined;
  const refusal = { ...NO_REFUSAL, ban, banEra, isTold };
  return { limits: [], bans, trip, used: [], refusal, era };
}

/** The decision with its windows alone, in the era `era`. */
export function onlyCounts(cached: CachedDecision, era: number): CachedDecision {
  const { limits, bans, trip } = cached;
  const refusal = { ...NO_REFUSAL, windows: windowsOf(cached) };
  return { limits, bans, trip, used: [], refusal, era };
}

const NEVER: RoundTrip = { sentMs: 0, receivedMs: 0, nowMs: 0 };

const NO_REFUSAL: RefusalDetails = {
  windows: [],
  ban: undefined,
  strikesMs: [],
  strikesAtMs: 0,
  pending: undefined,
  unreportedBan: undefined,
  told: undefined,
};

/** Whether the decision refuses nothing: only the counts of running windows must be kept. */
function isOrdinary({ nowMs, windows, ban, strikes }: QuotaDecision, cost: number): boolean {
  if (ban !== undefined || strikes > 0) return false;
  for (const usage of windows) {
    const { limit, used, resetMs } = usage;
    if (used + costIn(usage, cost) > limit || used >= limit) return false;
    if (resetMs !== currentEnd(usage, nowMs)) return false;
  }
  return true;
}
