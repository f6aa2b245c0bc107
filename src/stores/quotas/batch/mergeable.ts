import type { BanPolicy } from "../../../core/quota/bans.ts";
import { sameCalendar } from "../../../core/quota/calendar.ts";
import type { QuotaRequest } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";

/**
 * Whether two requests can be merged: they have the same cost, plan, limits and ban policy, and both
 * or neither are known to be refused.
 */
export function canMerge(a: QuotaRequest, b: QuotaRequest): boolean {
  return (
    (a.cost ?? 1) === (b.cost ?? 1) &&
    a.plan === b.plan &&
    (a.strikesOnly ?? false) === (b.strikesOnly ?? false) &&
    sameLimits(a.limits, b.limits) &&
    samePolicy(a.bans, b.bans)
  );
}

/** Whether both have the same windows, with the same limits, in the same order. */
export function sameLimits(a: readonly Limit[], b: readonly Limit[]): boolean {
  if (a === b) return true;
  return a.length === b.length && a.every((limit, i) => sameLimit(limit, b[i] as Limit));
}

function sameLimit(a: Limit, b: Limit): boolean {
  return (
    a.window === b.window &&
    a.limit === b.limit &&
    a.hold === b.hold &&
    a.part?.id === b.part?.id &&
    a.observed === b.observed &&
    sameCalendar(a.calendar, b.calendar)
  );
}

export function samePolicy(a: BanPolicy | undefined, b: BanPolicy | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  const names = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<keyof BanPolicy>;
  return [...names].every((name) => a[name] === b[name]);
}
