import { type Ban, banAt } from "../quota/bans.ts";
import type { WindowUsage } from "../quota/decide.ts";
import {
  type DecidedRequest,
  type RateLimitInfo,
  remainingIn,
  windowLabel,
} from "../quota/rate-limit-info.ts";
import { usageStart, type WindowName } from "../quota/windows.ts";

/** RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-10, 3 and 4). */
export type StandardRateLimit = { readonly policy: string; readonly state: string };

/** One window as both fields state it: lists of strings with parameters (RFC 9651 3.1 and 3.3). */
type Item = {
  readonly name: string;
  readonly quota: number;
  /** Seconds. */
  readonly length: number;
  readonly remaining: number;
  readonly resetMs: number;
};

/**
 * The windows of a decision in the standard fields, without observed ones, and the ban in force.
 * `nowMs` is the store's clock.
 */
export function standardRateLimit(
  { windows, ban }: { readonly windows: readonly WindowUsage[]; readonly ban?: Ban | undefined },
  nowMs: number,
  request: DecidedRequest = {},
): StandardRateLimit {
  const items = windows
    .filter(({ observed }) => !observed)
    .map((usage): Item => {
      const { limit, resetMs } = usage;
      const length = (resetMs - usageStart(usage)) / 1_000;
      const remaining = remainingIn(usage, request);
      return { name: windowLabel(usage), quota: limit, length, remaining, resetMs };
    });
  const inForce = banAt(ban, nowMs);
  if (inForce !== undefined) {
    const length = Math.ceil(inForce.lengthMs / 1_000);
    items.push({ name: "ban", quota: 0, length, remaining: 0, resetMs: inForce.untilMs });
  }
  return fieldsOf(items, nowMs);
}

/** The failure allowance of an address, named after its configuration key. */
export function allowanceRateLimit(
  { limit, remaining, resetMs }: RateLimitInfo,
  window: WindowName,
  nowMs: number,
): StandardRateLimit {
  const length = (resetMs - usageStart({ window, resetMs })) / 1_000;
  return fieldsOf([{ name: "unauthenticated", quota: limit, length, remaining, resetMs }], nowMs);
}

function fieldsOf(items: readonly Item[], nowMs: number): StandardRateLimit {
  const policy = items.map(({ name, quota, length }) => `"${name}";q=${quota};w=${length}`);
  const state = items.map(({ name, remaining, resetMs }) => {
    return `"${name}";r=${remaining};t=${Math.max(0, Math.ceil((resetMs - nowMs) / 1_000))}`;
  });
  return { policy: policy.join(", "), state: state.join(", ") };
}
