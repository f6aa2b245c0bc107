/** A day of UTC has a number: days since 1970-01-01. */
export const DAY_MS = 86_400_000;

/**
 * The usage of one account on one day. `refused` counts requests, and decides nothing. `plan` is
 * that of the last request admitted by the end of the day; absent if no request named one.
 */
export type DayUsage = {
  readonly day: number;
  readonly plan?: string;
  readonly admitted: number;
  readonly units: number;
  readonly refused: number;
  /** Units of each meter that the account used: absent if there are none. */
  readonly meters?: Readonly<Record<string, number>>;
};

/** Days from `from` to `to`, both included. */
export type DaySpan = { readonly from: number; readonly to: number };

/** How long after its end a day may still change (docs/reference/history.md#days). */
const CLOSES_AFTER_MS = 900_000;

/** The last day that is closed at `nowMs`: nothing is charged to it any more, or taken back. */
export function lastClosedDay(nowMs: number): number {
  return dayOf(nowMs - CLOSES_AFTER_MS) - 1;
}

export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS);
}

/** The instant from which the day is closed. */
export function closesMs(day: number): number {
  return (day + 1) * DAY_MS + CLOSES_AFTER_MS;
}

/** Formats a day as `2026-10-21`. */
export function formatDay(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** The first day of the month that holds the day. */
export function monthOf(day: number): number {
  const at = new Date(day * DAY_MS);
  return dayOf(Date.UTC(at.getUTCFullYear(), at.getUTCMonth()));
}

/** The first days of the months that a span touches, in order. */
export function monthsOf({ from, to }: DaySpan): number[] {
  const months: number[] = [];
  for (let month = monthOf(from); month <= to; month = monthOf(month + 31)) months.push(month);
  return months;
}

/** The days of a month named like `2026-10`; undefined if it is no month. */
export function monthRange(text: string): DaySpan | undefined {
  const found = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(text);
  if (found === null) return undefined;
  const [year, month] = [Number(found[1]), Number(found[2])];
  return { from: dayOf(Date.UTC(year, month - 1)), to: dayOf(Date.UTC(year, month)) - 1 };
}
