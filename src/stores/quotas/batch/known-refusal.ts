import { type Ban, recentStrikes } from "../../../core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest, WindowUsage } from "../../../core/quota/decide.ts";
import {
  counterName,
  currentEnd,
  fitsLimit,
  type Limit,
  mayStrike,
} from "../../../core/quota/windows.ts";
import {
  type CachedDecision,
  type KnownWindow,
  type PacedKind,
  type RefusalDetails,
  windowsOf,
} from "./cached-decision.ts";
import { samePolicy } from "./mergeable.ts";

/**
 * The decision as it is `sinceMs` after its receipt, in the windows of `limits` or in all known
 * windows. A window that ended since then is empty, and a ban that ended is over. With `cost` it is
 * a refusal of that cost, and a window whose count is stale is unknown. The time
 * is counted from the receipt, so that Retry-After is never too short.
 */
export function decisionAfter(
  cached: CachedDecision,
  sinceMs: number,
  limits?: readonly Limit[],
  cost?: number,
): QuotaDecision {
  const nowMs = Math.floor(cached.trip.nowMs + sinceMs);
  const windows = windowsAt(cached, nowMs, limits, cost);
  const ban = cached.refusal?.ban;
  return {
    nowMs,
    granted: 0,
    windows,
    ban: ban !== undefined && ban.untilMs > nowMs ? ban : undefined,
    strikes: strikesAt(cached, nowMs),
    strikeDueMs: nowMs,
    repaired: false,
  };
}

/**
 * The strikes that count at `nowMs`, with the one on its way to the store. The store may know of
 * more, which other gateways sent.
 */
function strikesAt({ bans, refusal }: CachedDecision, nowMs: number): number {
  if (bans === undefined || refusal === undefined) return 0;
  const { strikesMs, pending } = refusal;
  const told = strikesMs.length === 0 ? 0 : recentStrikes(strikesMs, bans, nowMs);
  return pending === "strike" ? told + 1 : told;
}

/**
 * The windows as they are at `nowMs`. Those of an account that is refused again and again stay the
 * same list, so that what follows from it need not be worked out for each request.
 */
function windowsAt(
  cached: CachedDecision,
  nowMs: number,
  limits: readonly Limit[] | undefined,
  cost: number | undefined,
): readonly WindowUsage[] {
  const { refusal } = cached;
  const told = refusal?.told;
  if (told?.limits === limits && told?.cost === cost && told !== undefined) {
    if (told.fromMs <= nowMs && nowMs < told.untilMs) return told.windows;
  }
  const held = windowsOf(cached);
  const ends =
    refusal &&
    limits &&
    cost !== undefined &&
    endsOf(refusal, refusing(refusal, limits, cost, nowMs).last, nowMs);
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
      ...(one === undefined || (ends && isStale(limit, one, ends)) ? { isUnknown: true } : {}),
    };
  });
  if (refusal !== undefined) {
    const { ban } = refusal;
    const banMs = ban !== undefined && ban.untilMs > nowMs ? ban.untilMs : Number.POSITIVE_INFINITY;
    const untilMs = Math.min(banMs, ...windows.map(({ resetMs }) => resetMs));
    refusal.told = { limits, cost, windows, fromMs: nowMs, untilMs };
  }
  return windows;
}

/**
 * Whether the last answer refuses a request at `nowMs` of the store's clock: no; certainly, from
 * memory; with a refusal that must reach the store, because it is a strike by what is known, or the
 * first one of its window, from which the grace runs; with one that cannot tell the usage of each
 * window, or only a stale one of a window that ends later, for which the store is asked; or with the
 * first one that the store has not noted, and that it decides while it is reachable
 * (docs/reference/store.md#known-refusals). A ban of which no window is known is of the last kind,
 * because a window may refuse for longer, and then it is the one to report, and so is one that only
 * another gateway told, because it may have been lifted since. An account is known by
 * its windows: its requests may differ in cost and operation. `isSettling`: a settlement of the account
 * is under way. It makes room in windows of meters alone, so that the store decides a refusal by these
 * as well, but no ban and no full window of the plan.
 */
export function refusalKind(
  { refusal: whole, bans: policy }: CachedDecision,
  { limits, bans, cost = 1 }: QuotaRequest,
  nowMs: number,
  isSettling = false,
): "no" | "surely" | PacedKind | "unnoted" {
  if (whole === undefined) return "no";
  const { last, striking, unknownEndMs } = refusing(whole, limits, cost, nowMs);
  if (knownBan(whole, bans, nowMs) !== undefined) {
    if (whole.windows.length === 0 || whole.isTold) return "unnoted";
    return isIncomplete(whole, limits, endsOf(whole, last, nowMs)) ? "incomplete" : "surely";
  }
  // An unknown window may refuse for longer, and then it is the one to report.
  if (last === undefined || unknownEndMs > last.resetMs) return "no";
  if (isSettling && striking === undefined) return "unnoted";
  const due = bans === undefined ? undefined : striking?.strikeDueMs;
  if (due === undefined && !last.isNoted) return "unnoted";
  if (due !== undefined && !samePolicy(policy, bans)) return "no";
  if (isIncomplete(whole, limits, endsOf(whole, last, nowMs))) return "incomplete";
  if (due === undefined || nowMs < due) return "surely";
  return striking?.isNoted ? "strike" : "first";
}

/** The ban of the last answer that refuses at `nowMs`, if bans are on. */
export function knownBan(
  { ban }: RefusalDetails,
  bans: QuotaRequest["bans"],
  nowMs: number,
): Ban | undefined {
  return bans !== undefined && ban !== undefined && ban.untilMs > nowMs ? ban : undefined;
}

type Refusing = {
  readonly last: KnownWindow | undefined;
  readonly striking: KnownWindow | undefined;
  readonly unknownEndMs: number;
};

/**
 * The window without room for the cost that ends last, the last one that may strike, and the end of
 * the last one of which nothing is known, 0 if there is none.
 */
function refusing(
  whole: RefusalDetails,
  limits: readonly Limit[],
  cost: number,
  nowMs: number,
): Refusing {
  let last: KnownWindow | undefined;
  let striking: KnownWindow | undefined;
  let unknownEndMs = 0;
  for (const limit of limits) {
    const known = knownIn(whole, limit);
    if (known === undefined) {
      unknownEndMs = Math.max(unknownEndMs, currentEnd(limit, nowMs));
    } else if (known.resetMs > nowMs && !fitsLimit(limit, known.used, cost)) {
      if (last === undefined || known.resetMs >= last.resetMs) last = known;
      const ends = striking?.resetMs ?? 0;
      if (mayStrike(limit) && known.resetMs >= ends) striking = known;
    }
  }
  return { last, striking, unknownEndMs };
}

/** The end of a refusal, and since when it is known that nothing else passes. */
type Ends = { readonly endMs: number; readonly sinceMs: number };

/** The ends of the ban or of the window `last` that refuses, whichever is later. */
function endsOf({ ban }: RefusalDetails, last: KnownWindow | undefined, nowMs: number): Ends {
  const endMs = last?.resetMs ?? 0;
  if (ban !== undefined && ban.untilMs > Math.max(nowMs, endMs))
    return { endMs: ban.untilMs, sinceMs: ban.untilMs - ban.lengthMs };
  return { endMs, sinceMs: last?.sinceMs ?? 0 };
}

/** Whether a window is unknown or its count is stale. */
function isIncomplete(whole: RefusalDetails, limits: readonly Limit[], ends: Ends): boolean {
  return limits.some((limit) => {
    const known = knownIn(whole, limit);
    return known === undefined || isStale(limit, known, ends);
  });
}

/**
 * Whether other gateways may have used up the window between its count and the refusal, which it
 * would outlast. Each answer tells the windows of the plan, and an observed one refuses nothing.
 */
function isStale(limit: Limit, { resetMs, countedMs }: KnownWindow, ends: Ends): boolean {
  if (limit.part === undefined || limit.observed) return false;
  return resetMs > ends.endMs && countedMs < ends.sinceMs;
}

function knownIn({ windows }: RefusalDetails, limit: Limit): KnownWindow | undefined {
  const counter = counterName(limit);
  return windows.find((one) => one.counter === counter);
}

/**
 * Whether a strike that reaches the store by `latestMs` of its clock could be the one that bans.
 * Since the last answer other gateways may have sent strikes, one in each grace.
 */
export function couldCauseBan(
  { refusal: whole }: CachedDecision,
  bans: QuotaRequest["bans"],
  latestMs: number,
): boolean {
  if (whole === undefined || bans === undefined) return false;
  if (bans.graceMs === 0) return true;
  const others = Math.floor((latestMs - whole.strikesAtMs) / bans.graceMs);
  return whole.strikesMs.length + others + 1 >= bans.strikes;
}
