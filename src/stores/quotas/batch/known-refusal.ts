import { recentStrikes } from "../../../core/quota/bans.ts";
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
 * windows. A window that ended since then is empty, and a ban that ended is over. The time is
 * counted from the receipt, so that Retry-After is never too short.
 */
export function decisionAfter(
  cached: CachedDecision,
  sinceMs: number,
  limits?: readonly Limit[],
): QuotaDecision {
  const nowMs = Math.floor(cached.trip.nowMs + sinceMs);
  const windows = windowsAt(cached, nowMs, limits);
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
): readonly WindowUsage[] {
  const { refusal } = cached;
  const told = refusal?.told;
  if (told?.limits === limits && told !== undefined) {
    if (told.fromMs <= nowMs && nowMs < told.untilMs) return told.windows;
  }
  const held = windowsOf(cached);
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
      ...(one === undefined ? { isUnknown: true } : {}),
    };
  });
  if (refusal !== undefined) {
    const untilMs = Math.min(...windows.map(({ resetMs }) => resetMs));
    refusal.told = { limits, windows, fromMs: nowMs, untilMs };
  }
  return windows;
}

/**
 * Whether the last answer refuses a request at `nowMs` of the store's clock: no; certainly, from
 * memory; with a refusal that must reach the store, because it is a strike by what is known, or the
 * first one of its window, from which the grace runs; with one that cannot tell
 * the usage of each window, which the store is asked for; or with the first one that the store has
 * not noted, and that it decides while it is reachable (docs/reference/store.md#known-refusals). A
 * ban of which no window is known is of the last kind, because a window may refuse for longer, and
 * then it is the one to report. An account is known by its windows: its requests may differ in cost
 * and operation.
 */
export function refusalKind(
  { refusal: whole, bans: policy }: CachedDecision,
  { limits, bans, cost = 1 }: QuotaRequest,
  nowMs: number,
): "no" | "surely" | PacedKind | "unnoted" {
  if (whole === undefined) return "no";
  if (bans !== undefined && whole.ban !== undefined && whole.ban.untilMs > nowMs) {
    if (whole.windows.length === 0) return "unnoted";
    return limits.every((limit) => isKnown(whole, limit)) ? "surely" : "incomplete";
  }
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
  const due = bans === undefined ? undefined : striking?.strikeDueMs;
  if (due === undefined && !last.isNoted) return "unnoted";
  if (due !== undefined && !samePolicy(policy, bans)) return "no";
  if (unknownEndMs > 0) return "incomplete";
  if (due === undefined || nowMs < due) return "surely";
  return striking?.isNoted ? "strike" : "first";
}

function isKnown({ windows }: RefusalDetails, limit: Limit): boolean {
  const counter = counterName(limit);
  return windows.some((one) => one.counter === counter);
}

/**
 * Whether a strike that reaches the store by `latestMs` of its clock could be the one that bans.
 * Since the last answer other gateways may have sent strikes, one in each grace.
 */
export function couldCauseBan(
  { refusal: whole, trip }: CachedDecision,
  bans: QuotaRequest["bans"],
  latestMs: number,
): boolean {
  if (whole === undefined || bans === undefined) return false;
  if (bans.graceMs === 0) return true;
  const others = Math.floor((latestMs - trip.nowMs) / bans.graceMs);
  return whole.strikesMs.length + others + 1 >= bans.strikes;
}
