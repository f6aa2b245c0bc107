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
    refusal && limits && cost !== undefined
      ? endsOf(refusal, findRefusing(refusal, limits, cost, nowMs), nowMs)
      : undefined;
  let untilMs = banAt(refusal?.ban, nowMs)?.untilMs ?? Number.POSITIVE_INFINITY;
  const windows = (limits ?? held).map((limit): WindowUsage => {
    const one = windowOf(held, limit);
    const running = one !== undefined && one.resetMs > nowMs;
    const resetMs = running ? one.resetMs : currentEnd(limit, nowMs);
    const staleMs = one && ends ? staleFrom(limit, one, ends, nowMs) : Number.POSITIVE_INFINITY;
    untilMs = Math.min(untilMs, resetMs, staleMs > nowMs ? staleMs : resetMs);
    const { window, limit: most, calendar, part, observed, hold } = limit;
    return {
      window,
      limit: most,
      ...(calendar === undefined ? {} : { calendar }),
      ...(part === undefined ? {} : { part }),
      ...(observed === undefined ? {} : { observed }),
      ...(hold === undefined ? {} : { hold }),
      used: running ? one.used : 0,
      resetMs,
      ...(one === undefined || staleMs <= nowMs ? { isUnknown: true } : {}),
    };
  });
  if (refusal !== undefined) refusal.told = { limits, cost, windows, fromMs: nowMs, untilMs };
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
  const refusing = findRefusing(refusal, limits, cost, nowMs);
  const { last, striking, unknownEndMs } = refusing;
  const ends = endsOf(refusal, refusing, nowMs);
  const isOutlasted =
    settling !== undefined && mayFill(settling, refusal, { limits, cost }, ends.endMs);
  if (knownBan(refusal, bans, nowMs) !== undefined) {
    // A window may refuse for longer, and then it is the one to report. A ban that only another
    // gateway told may have been lifted since.
    if (refusal.windows.length === 0 || refusal.isTold || isOutlasted) return "unnoted";
    return isIncomplete(refusal, limits, ends, nowMs) ? "incomplete" : "surely";
  }
  // An unknown window may refuse for longer, and then it is the one to report.
  if (last === undefined || unknownEndMs > last.resetMs) return "no";
  if (isOutlasted || (settling && striking === undefined)) return "unnoted";
  const due = bans === undefined ? undefined : striking?.strikeDueMs;
  if (due === undefined && !last.isNoted) return "unnoted";
  if (due !== undefined && !samePolicy(policy, bans)) return "no";
  if (isIncomplete(refusal, limits, ends, nowMs)) return "incomplete";
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

type Refusing = {
  readonly last: KnownWindow | undefined;
  readonly striking: KnownWindow | undefined;
  readonly unknownEndMs: number;
  readonly fullMs: number;
};

/**
 * The window without room for the cost that ends last, the last one that may strike, the end of the
 * last one of which nothing is known, 0 if there is none, and since when a window of the plan has
 * nothing left, never if none is full.
 */
function findRefusing(
  { windows }: RefusalDetails,
  limits: readonly Limit[],
  cost: number,
  nowMs: number,
): Refusing {
  let last: KnownWindow | undefined;
  let striking: KnownWindow | undefined;
  let unknownEndMs = 0;
  let fullMs = Number.POSITIVE_INFINITY;
  for (const limit of limits) {
    const known = windowOf(windows, limit);
    if (known === undefined) {
      unknownEndMs = Math.max(unknownEndMs, currentEnd(limit, nowMs));
    } else if (known.resetMs > nowMs && !fitsLimit(limit, known.used, cost)) {
      if (last === undefined || known.resetMs >= last.resetMs) last = known;
      if (limit.part === undefined && known.used >= limit.limit)
        fullMs = Math.min(fullMs, known.sinceMs);
      if (!mayStrike(limit)) continue;
      if (striking === undefined || known.resetMs >= striking.resetMs) striking = known;
    }
  }
  return { last, striking, unknownEndMs, fullMs };
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

/**
 * The end of a refusal by the ban or by a window, whichever is later. Counts from before `sinceMs`
 * are stale. `isClosed`: those since then stay true, because nothing is charged during the refusal.
 */
type Ends = { readonly endMs: number; readonly sinceMs: number; readonly isClosed: boolean };

/**
 * How long a count is believed while other gateways can charge the account: longer than the default
 * grace, because strikes bring the counts of a flood again, and no request waits for them.
 */
const FRESH_MS = 1_500;

/**
 * Nothing is charged during a ban, or while a window of the plan is full. One with room for a smaller
 * cost, or of an operation, a key or a meter, lets other requests be charged.
 */
function endsOf(refusal: RefusalDetails, { last, fullMs }: Refusing, nowMs: number): Ends {
  const ban = banAt(refusal.ban, nowMs);
  const bannedMs = ban === undefined ? Number.POSITIVE_INFINITY : ban.untilMs - ban.lengthMs;
  const closedMs = Math.min(fullMs, bannedMs);
  const isClosed = closedMs !== Number.POSITIVE_INFINITY;
  return {
    endMs: Math.max(last?.resetMs ?? 0, ban?.untilMs ?? 0),
    sinceMs: isClosed ? closedMs : (last?.sinceMs ?? 0),
    isClosed,
  };
}

/** Whether a window is unknown, or its count is stale beside the refusal. */
function isIncomplete(
  { windows }: RefusalDetails,
  limits: readonly Limit[],
  ends: Ends,
  nowMs: number,
): boolean {
  return limits.some((limit) => {
    const known = windowOf(windows, limit);
    return known === undefined || staleFrom(limit, known, ends, nowMs) <= nowMs;
  });
}

/**
 * From when on the count of a window is stale, because other gateways may have used up the window,
 * which would outlast the refusal. An observed window refuses nothing.
 */
function staleFrom(
  limit: Limit,
  { resetMs, countedMs }: KnownWindow,
  { endMs, sinceMs, isClosed }: Ends,
  nowMs: number,
): number {
  const isOld = countedMs < sinceMs;
  if (limit.observed || (isClosed && !isOld)) return Number.POSITIVE_INFINITY;
  // A week may begin in one month and end in the next.
  const lastsMs = resetMs > nowMs ? resetMs : currentEnd(limit, nowMs);
  if (lastsMs <= endMs) return Number.POSITIVE_INFINITY;
  return isOld ? countedMs : countedMs + FRESH_MS;
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
