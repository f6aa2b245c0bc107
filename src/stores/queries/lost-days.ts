import type { AccountRecord } from "../../core/keys/records.ts";
import { dayOf, formatDay } from "../../core/quota/days.ts";

/** The first day of a month of an account, and the first one in it that has usage. */
export type MonthDays = { readonly first: number; readonly firstUsed: number };

/**
 * Why the overage of a month is unknown: days of it are no longer kept on which the account may have
 * used units (docs/reference/history.md#overage). Undefined if there are none. `oldestDay` is the
 * oldest day that is kept.
 */
export function overageUnknown(
  { createdMs }: Pick<AccountRecord, "createdMs">,
  { first, firstUsed }: MonthDays,
  oldestDay: number,
): string | undefined {
  // The clock of its record may be ahead of that of the store, and an id may have been used before.
  const isYoung = Math.min(dayOf(createdMs), firstUsed) > oldestDay;
  if (first >= oldestDay || isYoung) return undefined;
  return `days of its month before ${formatDay(oldestDay)} are no longer kept`;
}
