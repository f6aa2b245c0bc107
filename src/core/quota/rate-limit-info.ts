import { type Ban, fitsLimit, type QuotaDecision, type WindowUsage } from "./decide.ts";
import { currentEnd, type Limit, type WindowName } from "./windows.ts";

/** The content of the rate limit fields: one window, or the end of the refusal. */
export type RateLimitInfo = {
  /** The window's name, or `ban`; absent for a failure allowance, which belongs to no account. */
  readonly window?: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
};

export type RateLimitRefusal = {
  readonly code: "rate_limited" | "key_banned";
  readonly standing: RateLimitInfo;
};

/**
 * The window that an admitted request reports: the one that will refuse soonest, which has the
 * least remaining. On a tie it is the one that resets later
 * (docs/reference/http.md#rate-limit-fields). `unspent` units of the same decision belong to
 * requests that were admitted after this one. They had not been used when this one was admitted.
 */
export function admittedRateLimit(
  { windows }: Pick<QuotaDecision, "windows">,
  unspent = 0,
): RateLimitInfo {
  let told: RateLimitInfo | undefined;
  for (const standing of windows) {
    const { limit, used, resetMs } = standing;
    if (standing.observed) continue;
    const remaining = Math.max(0, limit - used + unspent);
    if (
      told === undefined ||
      remaining < told.remaining ||
      (remaining === told.remaining && resetMs > told.resetMs)
    ) {
      told = { window: windowLabel(standing), limit, remaining, resetMs };
    }
  }
  if (told === undefined) throw new RangeError("Cannot tell a standing: a plan has windows");
  return told;
}

/**
 * The name of a window for people and in `X-RateLimit-Window`: `day`, `createPet.minute`,
 * `key.day`.
 */
export function windowLabel({ window, part }: Pick<Limit, "window" | "part">): string {
  return part === undefined ? window : `${part.name}.${window}`;
}

/** The window whose refusals made the strikes of a ban, if it is among `windows`. */
export function banWindow(
  windows: readonly WindowUsage[],
  ban: Pick<Ban, "window" | "operation">,
): WindowUsage | undefined {
  return windows.find(({ window, part }) => {
    return window === ban.window && part?.id === ban.operation;
  });
}

/**
 * The refusal of a request of that cost at `nowMs` of the store's clock: by the ban, or by windows
 * in which the cost does not fit. Its rate limit info describes the one that ends last
 * (docs/reference/http.md#rate-limit-fields). Undefined if all of them have ended.
 */
export function rateLimitRefusal(
  verdict: Pick<QuotaDecision, "windows" | "ban">,
  nowMs: number,
  cost = 1,
): RateLimitRefusal | undefined {
  let last: WindowUsage | undefined;
  for (const window of verdict.windows) {
    if (fitsLimit(window.used, cost, window.limit) || window.resetMs <= nowMs) continue;
    if (last === undefined || window.resetMs >= last.resetMs) last = window;
  }
  const { ban } = verdict;
  const banned = ban !== undefined && ban.untilMs > nowMs;
  if (last === undefined && !banned) return undefined;

  const code = banned ? "key_banned" : "rate_limited";
  if (banned && (last === undefined || ban.untilMs > last.resetMs)) {
    const struck = banWindow(verdict.windows, ban);
    const shown = verdict.windows.findLast(({ observed }) => !observed);
    const { limit } = struck ?? last ?? shown ?? { limit: 0 };
    return { code, standing: { window: "ban", limit, remaining: 0, resetMs: ban.untilMs } };
  }
  const { limit, used, resetMs } = last as WindowUsage;
  const window = windowLabel(last as WindowUsage);
  return { code, standing: { window, limit, remaining: Math.max(0, limit - used), resetMs } };
}

/**
 * The observed limits that an admitted request exceeded. It would have been refused if they were
 * limits of its plan. `unspent` is as for `admittedRateLimit`.
 */
export function crossedLimits(
  { windows }: Pick<QuotaDecision, "windows">,
  observe: readonly Limit[],
  unspent = 0,
): readonly WindowName[] {
  return observe.flatMap(({ window, limit }) => {
    const counted = windows.find((one) => one.window === window && one.part === undefined);
    return counted !== undefined && counted.used - unspent > limit ? [window] : [];
  });
}

/**
 * The message of a 429 for a window without room, which names the limit
 * (docs/reference/http.md#refusals). The window of an operation is named `createPet.minute`.
 */
export function limitExceededMessage({ window = "", limit }: RateLimitInfo): string {
  return `The ${limitName(window)}, ${limit} units, is used up: retry after the time in Retry-After`;
}

function limitName(window: string): string {
  const dot = window.lastIndexOf(".");
  return dot === -1
    ? `${window} limit`
    : `${window.slice(dot + 1)} limit of ${window.slice(0, dot)}`;
}

/** The message of a 503 if only this gateway's share of a limit is used up. */
export function shareExceededMessage({ window = "", limit }: RateLimitInfo): string {
  return `This gateway's share of the ${limitName(window)}, ${limit} units, is used up, and the limit is not: retry after the time in Retry-After`;
}

/** The same for the log. */
export function shareWhy({ window = "", limit }: RateLimitInfo): string {
  return `the share of the ${limitName(window)}, ${limit} units, leaves no room, though the limit does`;
}

const SHARE_RETRY_S_MAX = 5;

/**
 * Seconds until a request that found a share used up may pass. A share is released long before its
 * window ends, within 5 s in nearly every case. No wait lets a cost above the share pass.
 */
export function shareRetrySeconds({ limit, resetMs }: RateLimitInfo, cost: number, nowMs: number) {
  if (cost > limit && cost > 1) return 1;
  return Math.min(SHARE_RETRY_S_MAX, retryAfterSeconds(resetMs, nowMs));
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
