import { type Ban, banAt, recentStrikes } from "../../../core/quota/bans.ts";
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
import { type Settling, windowKey } from "./settling-meters.ts";

/**
 * The decision as it is `sinceMs` after its receipt, in the windows of `limits` or in all known
 * windows. A window that ended since then is empty, and a ban that ended is over. With `cost` it is a
 * refusal of that cost, and a window whose count is stale is unknown. The time counts from the
 * receipt, so that Retry-After is never too short.
 */
export function decisionAfter(
  cached: CachedDecision,
  sinceMs: number,
  limits?: readonly Limit[],
  cost?: number,
): QuotaDecision {
  const nowMs = Math.floor(cached.trip.nowMs + sinceMs);
  const windows = windowsAt(cached, nowMs, limits, cost);
  return {
    nowMs,
    granted: 0,
    windows,
    ban: banAt(cached.refusal?.ban, nowMs),
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
  if (told !== undefined && told.limits === limits && told.cost === cost) {
    if (told.fromMs <= nowMs && nowMs < told.untilMs) return told.windows;
  }
  const held = windowsOf(cached);
  const ends =
    refusal &&
    limits &&
    cost !== undefined &&
    endsOf(refusal, findRefusing(refusal, limits, cost, nowMs).last, nowMs);
  const windows = (limits ?? held).map((limit): WindowUsage => {
    const one = windowOf(held, limit);
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
    const banMs = banAt(refusal.ban, nowMs)?.untilMs ?? Number.POSITIVE_INFINITY;
    const untilMs = Math.min(banMs, ...windows.map(({ resetMs }) => resetMs));
    refusal.told = { limits, cost, windows, fromMs: nowMs, untilMs };
  }
  return windows;
}

/**
 * How the last answer refuses a request (docs/reference/store.md#known-refusals):
 *
 * - `no`: not at all, or the store alone can tell how: by which window for longest, or with a strike
 *   under another policy.
 * - `surely`: from memory.
 * - `strike`: it must reach the store, because it is a strike by what is known.
 * - `first`: it must too, because it is the first one of its window, from which the grace runs.
 * - `incomplete`: the store is asked for the usage of a window that is unknown, or that is stale and
 *   ends later than the refusal.
 * - `unnoted`: the store decides while it is reachable, because it has noted no refusal of the window
 *   yet, because a window may refuse for longer, because nothing may refuse any more, or because its
 *   clock was set back.
 */
export type RefusalKind = "no" | "surely" | PacedKind | "unnoted";

/** Whether a known refusal goes to the store in a paced call. */
export function isPaced(kind: RefusalKind): kind is PacedKind {
  return kind === "strike" || kind === "first" || kind === "incomplete";
}

/**
 * How the last answer refuses a request at `nowMs` of the store's clock. An account is known by its
 * windows, because its requests may differ in cost and operation. Settlements change windows of
 * meters alone, so the store decides a refusal by these, and one by a ban or a window of the plan only
 * if they may fill a window that ends later, which is then the one to report.
 */
export function refusalKind(
  { refusal, bans: policy }: CachedDecision,
  { limits, bans, cost = 1 }: QuotaRequest,
  nowMs: number,
  settling?: Settling,
): RefusalKind {
  if (refusal === undefined) return "no";
  const { last, striking, unknownEndMs } = findRefusing(refusal, limits, cost, nowMs);
  const isOutlasted =
    settling !== undefined &&
    mayFill(settling, refusal, { limits, cost }, endsOf(refusal, last, nowMs).endMs);
  if (knownBan(refusal, bans, nowMs) !== undefined) {
    // A window may refuse for longer, and then it is the one to report. A ban that only another
    // gateway told may have been lifted since.
    if (refusal.windows.length === 0 || refusal.isTold || isOutlasted) return "unnoted";
    return isIncomplete(refusal, limits, last, nowMs) ? "incomplete" : "surely";
  }
  // An unknown window may refuse for longer, and then it is the one to report.
  if (last === undefined || unknownEndMs > last.resetMs) return "no";
  if (isOutlasted || (settling && striking === undefined)) return "unnoted";
  const due = bans === undefined ? undefined : striking?.strikeDueMs;
  if (due === undefined && !last.isNoted) return "unnoted";
  if (due !== undefined && !samePolicy(policy, bans)) return "no";
  if (isIncomplete(refusal, limits, last, nowMs)) return "incomplete";
  if (due === undefined || nowMs < due) return "surely";
  return striking?.isNoted ? "strike" : "first";
}

/** The ban of the last answer that refuses at `nowMs`, if bans are on. */
export function knownBan(
  { ban }: RefusalDetails,
  bans: QuotaRequest["bans"],
  nowMs: number,
): Ban | undefined {
  return bans && banAt(ban, nowMs);
}

/**
 * The window without room for the cost that ends last, the last one that may strike, and the end of
 * the last one of which nothing is known, 0 if there is none.
 */
function findRefusing(
  { windows }: RefusalDetails,
  limits: readonly Limit[],
  cost: number,
  nowMs: number,
) {
  let last: KnownWindow | undefined;
  let striking: KnownWindow | undefined;
  let unknownEndMs = 0;
  for (const limit of limits) {
    const known = windowOf(windows, limit);
    if (known === undefined) {
      unknownEndMs = Math.max(unknownEndMs, currentEnd(limit, nowMs));
    } else if (known.resetMs > nowMs && !fitsLimit(limit, known.used, cost)) {
      if (last === undefined || known.resetMs >= last.resetMs) last = known;
      if (!mayStrike(limit)) continue;
      if (striking === undefined || known.resetMs >= striking.resetMs) striking = known;
    }
  }
  return { last, striking, unknownEndMs };
}

/** Whether settlements may fill a window with room that ends no sooner than the refusal, at `endMs`. */
function mayFill(
  { units }: Settling,
  { windows }: RefusalDetails,
  { limits, cost }: { readonly limits: readonly Limit[]; readonly cost: number },
  endMs: number,
): boolean {
  return limits.some((limit) => {
    const known = windowOf(windows, limit);
    const added = known && units.get(windowKey(known));
    if (added === undefined || known === undefined || known.resetMs < endMs) return false;
    return fitsLimit(limit, known.used, cost) && !fitsLimit(limit, known.used + added, cost);
  });
}

/** The end of a refusal, and since when it is known that nothing else passes. */
type Ends = { readonly endMs: number; readonly sinceMs: number };

/** The end of the ban or of the window `last` that refuses, whichever is later. */
function endsOf({ ban }: RefusalDetails, last: KnownWindow | undefined, nowMs: number): Ends {
  const endMs = last?.resetMs ?? 0;
  if (ban !== undefined && ban.untilMs > Math.max(nowMs, endMs))
    return { endMs: ban.untilMs, sinceMs: ban.untilMs - ban.lengthMs };
  return { endMs, sinceMs: last?.sinceMs ?? 0 };
}

/** Whether a window is unknown, or its count is stale beside a refusal by the ban or by `last`. */
function isIncomplete(
  refusal: RefusalDetails,
  limits: readonly Limit[],
  last: KnownWindow | undefined,
  nowMs: number,
): boolean {
  const ends = endsOf(refusal, last, nowMs);
  return limits.some((limit) => {
    const known = windowOf(refusal.windows, limit);
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

/** The known window of a limit. */
function windowOf(windows: readonly KnownWindow[], limit: Limit): KnownWindow | undefined {
  const counter = counterName(limit);
  return windows.find((one) => one.counter === counter);
}

/**
 * Whether a strike that reaches the store by `latestMs` of its clock could be the one that bans.
 * Since the last answer other gateways may have sent strikes, one in each grace.
 */
export function couldCauseBan(
  { refusal }: CachedDecision,
  bans: QuotaRequest["bans"],
  latestMs: number,
): boolean {
  if (refusal === undefined || bans === undefined) return false;
  if (bans.graceMs === 0) return true;
  const others = Math.floor((latestMs - refusal.strikesAtMs) / bans.graceMs);
  return refusal.strikesMs.length + others + 1 >= bans.strikes;
}
