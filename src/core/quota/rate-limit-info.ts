import { type Ban, banAt } from "./bans.ts";
import type { QuotaDecision, WindowUsage } from "./decide.ts";
import {
  aWindow,
  CAP_NAME,
  costIn,
  currentEnd,
  fitsLimit,
  isMeter,
  type Limit,
  mayStrike,
  type WindowName,
} from "./windows.ts";

/** The request that windows decided: its share of a decision for several. */
export type DecidedRequest = {
  /** Its cost in units; default 1. */
  readonly cost?: number;
  /** The requests of the same decision that were admitted after it. */
  readonly requestsAfter?: number;
};

/**
 * The units that were left of a window for the requests that came after this one. Those that were
 * admitted together with it had not used theirs yet.
 */
export function remainingIn(
  usage: WindowUsage,
  { cost = 1, requestsAfter = 0 }: DecidedRequest,
): number {
  const { limit, used } = usage;
  return Math.max(0, limit - used + requestsAfter * costIn(usage, cost));
}

/** The content of the rate limit fields: one window, or the end of the refusal. */
export type RateLimitInfo = {
  /** The window's name, or `ban`; absent for a failure allowance, which belongs to no account. */
  readonly window?: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
  /** Whether the window is that of a meter. */
  readonly metered?: true;
};

export type RateLimitRefusal = {
  readonly code: "rate_limited" | "key_banned";
  readonly rateLimitInfo: RateLimitInfo;
};

/**
 * The window that an admitted request reports: the one that will refuse soonest, in which the least
 * requests like it are left. On a tie it is the one that resets later
 * (docs/reference/http.md#rate-limit-fields).
 */
export function admittedRateLimit(
  { windows }: Pick<QuotaDecision, "windows">,
  request: DecidedRequest = {},
): RateLimitInfo {
  let told: WindowUsage | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const usage of windows) {
    if (usage.observed) continue;
    const left = remainingIn(usage, request) / Math.max(1, costIn(usage, request.cost ?? 1));
    if (told === undefined || left < least || (left === least && usage.resetMs > told.resetMs)) {
      [told, least] = [usage, left];
    }
  }
  if (told === undefined) throw new RangeError("Cannot tell a standing: a plan has windows");
  return rateLimitInfo(told, remainingIn(told, request));
}

function rateLimitInfo(usage: WindowUsage, remaining: number): RateLimitInfo {
  const { limit, resetMs } = usage;
  const info = { window: windowLabel(usage), limit, remaining, resetMs };
  return isMeter(usage) ? { ...info, metered: true } : info;
}

/**
 * The name of a window for people and in `X-RateLimit-Window`: `day`, `createPet.minute`,
 * `key.day`.
 */
export function windowLabel({ window, part }: Pick<Limit, "window" | "part">): string {
  return part === undefined ? window : `${part.name}.${window}`;
}

/** The window whose refusals made the strikes of a ban, if it is among `windows`. */
export function banWindow<T extends Limit>(
  windows: readonly T[],
  ban: Pick<Ban, "window" | "operation">,
): T | undefined {
  return windows.find(({ window, part, observed }) => {
    return window === ban.window && part?.id === ban.operation && !observed;
  });
}

/**
 * The refusal of a request of that cost at `nowMs` of the store's clock: by the ban, or by windows
 * in which the cost does not fit. Its rate limit info describes the one that ends last
 * (docs/reference/http.md#rate-limit-fields). `operations` are the windows of all operations,
 * because a ban may have been earned at another one. Undefined if all of them have ended.
 */
export function rateLimitRefusal(
  decision: Pick<QuotaDecision, "windows" | "ban">,
  nowMs: number,
  cost = 1,
  operations: readonly Limit[] = [],
): RateLimitRefusal | undefined {
  let last: WindowUsage | undefined;
  for (const window of decision.windows) {
    if (fitsLimit(window, window.used, cost) || window.resetMs <= nowMs) continue;
    if (last === undefined || window.resetMs >= last.resetMs) last = window;
  }
  const ban = banAt(decision.ban, nowMs);
  if (last === undefined && ban === undefined) return undefined;

  const code = ban === undefined ? "rate_limited" : "key_banned";
  if (ban !== undefined && (last === undefined || ban.untilMs > last.resetMs)) {
    const struck = banWindow(decision.windows, ban) ?? banWindow(operations, ban);
    const shown = decision.windows.findLast((one) => !one.observed && mayStrike(one));
    const { limit } = struck ?? last ?? shown ?? { limit: 0 };
    return { code, rateLimitInfo: { window: "ban", limit, remaining: 0, resetMs: ban.untilMs } };
  }
  return {
    code,
    rateLimitInfo: rateLimitInfo(last as WindowUsage, remainingIn(last as WindowUsage, {})),
  };
}

/**
 * The window that a response without a decision reports, by the last known state: as for an admitted
 * request, and what ends last while a ban is in force.
 */
export function knownRateLimit(
  known: Pick<QuotaDecision, "windows" | "nowMs"> & Partial<Pick<QuotaDecision, "ban">>,
  operations: readonly Limit[] = [],
): RateLimitInfo {
  const { windows, nowMs } = known;
  const ban = banAt(known.ban, nowMs);
  const refusal = ban && rateLimitRefusal({ windows, ban }, nowMs, 1, operations);
  return refusal?.rateLimitInfo ?? admittedRateLimit(known);
}

/**
 * The observed limits that an admitted request exceeded. It would have been refused if they were
 * limits of its plan. A request that costs nothing exceeds none, because no limit refuses it.
 */
export function crossedLimits(
  { windows }: Pick<QuotaDecision, "windows">,
  observe: readonly Limit[],
  { cost = 1, requestsAfter = 0 }: DecidedRequest,
): readonly WindowName[] {
  if (cost === 0) return [];
  return observe.flatMap(({ window, limit }) => {
    const usage = windows.find((one) => one.window === window && one.part === undefined);
    if (usage === undefined) return [];
    const { used, counted = used } = usage;
    return counted - requestsAfter * cost > limit ? [window] : [];
  });
}

/**
 * The message of a 429 for a window without room, which names the limit
 * (docs/reference/http.md#refusals). The window of an operation is named `createPet.minute`, that of
 * a meter `tokens.month`, that of a cap `key.day`.
 */
export function limitExceededMessage(standing: RateLimitInfo): string {
  return `The ${limitName(standing)}, ${standing.limit} units, is used up: retry after the time in Retry-After`;
}

function limitName({ window = "", metered }: RateLimitInfo): string {
  const dot = window.lastIndexOf(".");
  if (dot === -1) return `${window} limit`;
  const [part, name] = [window.slice(0, dot), window.slice(dot + 1)];
  if (metered) return `${part} limit of ${aWindow(name)}`;
  return `${name} limit of ${part === CAP_NAME ? "this key" : part}`;
}

/** The message of a 503 if only this gateway's share of a limit is used up. */
export function shareExceededMessage(standing: RateLimitInfo): string {
  return `This gateway's share of the ${limitName(standing)}, ${standing.limit} units, is used up, and the limit is not: retry after the time in Retry-After`;
}

/** The message of a 503 if the request takes more than the whole share, used or not. */
export function aboveShareMessage(share: WindowUsage, taken: number): string {
  const name = limitName(rateLimitInfo(share, share.limit));
  return `This request takes ${taken} units, more than this gateway's share of the ${name}, ${share.limit} units, which holds while the store is unreachable and for seconds after: retry after the time in Retry-After`;
}

/** The reason of a 503 because of a share, for the log. */
export function shareWhy(standing: RateLimitInfo): string {
  return `the share of the ${limitName(standing)}, ${standing.limit} units, leaves no room, though the limit does`;
}

const SHARE_RETRY_S_MAX = 5;

/** Whether a request takes more than the whole share of a window: no wait lets it pass. */
export function exceedsShare(taken: number, share: number): boolean {
  return taken > Math.max(1, share);
}

/**
 * Seconds until a request that found a share used up may pass. A share is released long before its
 * window ends, within 5 s in nearly every case. `isOverShare`: the request takes more than a whole
 * share.
 */
export function shareRetrySeconds(resetMs: number, nowMs: number, isOverShare: boolean): number {
  if (isOverShare) return 1;
  return Math.min(SHARE_RETRY_S_MAX, retryAfterSeconds(resetMs, nowMs));
}

/** The decision without the windows of unknown usage, which must not be told as unused. */
export function withoutUnknown(decision: QuotaDecision): QuotaDecision {
  if (!decision.windows.some(({ isUnknown }) => isUnknown)) return decision;
  return { ...decision, windows: decision.windows.filter(({ isUnknown }) => !isUnknown) };
}

/** The windows of an account that has no known usage yet. */
export function unusedWindows(limits: readonly Limit[], nowMs: number): readonly WindowUsage[] {
  return limits.map((limit) => ({ ...limit, used: 0, resetMs: currentEnd(limit, nowMs) }));
}

/**
 * Whole seconds, at least 1. Waiting this long is enough, and one second less is not
 * (docs/reference/http.md#retry-after).
 */
export function retryAfterSeconds(resetMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((resetMs - nowMs) / 1000));
}
