import { memoize } from "../../base/memoize.ts";
import { DAY_MS, type DaySpan } from "./days.ts";

/**
 * From `fromMs` on, which is 00:00 UTC of a day, months begin on this day of the month, or on its
 * last day if it has no such day.
 */
export type Anchor = { readonly day: number; readonly fromMs: number };

/**
 * The months of an account whose months do not begin on the first day (docs/reference/keys.md#anchor).
 * The earliest anchor comes first; before it months begin on the first day. Each anchor begins where
 * a month of the one before it ends, so that gateways that do not know it yet agree about the
 * running month.
 */
export type Calendar = readonly Anchor[];

export const ANCHOR_DAY_MAX = 31;
/** How many changes of the anchor an account remembers. */
export const ANCHORS_MAX = 60;

/** The first millisecond of the month that holds `nowMs`. */
export function monthStart(calendar: Calendar, nowMs: number): number {
  const anchor = anchorAt(calendar, nowMs);
  const startMs = anchorDay(anchor.day, nowMs, 0);
  return Math.max(anchor.fromMs, startMs > nowMs ? anchorDay(anchor.day, nowMs, -1) : startMs);
}

/** The first millisecond after the month that starts at `startMs`. */
export function monthEnd(calendar: Calendar, startMs: number): number {
  const { day } = anchorAt(calendar, startMs);
  const endMs = anchorDay(day, startMs, 0);
  const next = calendar.find(({ fromMs }) => fromMs > startMs);
  return Math.min(
    next?.fromMs ?? Number.POSITIVE_INFINITY,
    endMs > startMs ? endMs : anchorDay(day, startMs, 1),
  );
}

/** The days of the months that begin on one of the days of a span, in order. */
export function monthsIn(calendar: Calendar, { from, to }: DaySpan): readonly DaySpan[] {
  const months: DaySpan[] = [];
  let startMs = monthStart(calendar, from * DAY_MS);
  while (startMs <= to * DAY_MS) {
    const endMs = monthEnd(calendar, startMs);
    if (startMs >= from * DAY_MS) months.push({ from: startMs / DAY_MS, to: endMs / DAY_MS - 1 });
    startMs = endMs;
  }
  return months;
}

const EVERY_FIRST: Calendar = [];
const FIRST: Anchor = { day: 1, fromMs: Number.NEGATIVE_INFINITY };

function anchorAt(calendar: Calendar, atMs: number): Anchor {
  return calendar.findLast(({ fromMs }) => fromMs <= atMs) ?? FIRST;
}

/** The anchor day of the month that is `months` after that of the instant. */
function anchorDay(day: number, atMs: number, months: number): number {
  const date = new Date(atMs);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + months];
  return Math.min(Date.UTC(year, month, day), Date.UTC(year, month + 1, 0));
}

/** The day on which months begin now, and the day that follows it, if the anchor was changed. */
export function anchorDays(
  calendar: Calendar = EVERY_FIRST,
  nowMs: number,
): { readonly day: number; readonly next: Anchor | undefined } {
  return {
    day: anchorAt(calendar, nowMs).day,
    next: calendar.find(({ fromMs }) => fromMs > nowMs),
  };
}

/** The calendar of an account that has no month yet. */
export function newCalendar(day: number): Calendar | undefined {
  return day === FIRST.day ? undefined : [{ day, fromMs: 0 }];
}

/**
 * The calendar with another anchor from the end of the running month on, and the same one if that
 * is its anchor already. Refuses a second change in one month: then it is what changes next.
 */
export function changeAnchor(
  calendar: Calendar = EVERY_FIRST,
  day: number,
  nowMs: number,
): { readonly calendar: Calendar } | { readonly next: Anchor } {
  const { day: running, next } = anchorDays(calendar, nowMs);
  if (next !== undefined) return next.day === day ? { calendar } : { next };
  if (running === day) return { calendar };
  const fromMs = monthEnd(calendar, monthStart(calendar, nowMs));
  return { calendar: [...calendar, { day, fromMs }].slice(-ANCHORS_MAX) };
}

const textOf = memoize((calendar: Calendar) => {
  return calendar.map(({ day, fromMs }) => `${day}@${fromMs / DAY_MS}`).join();
});

/** The calendar as scripts of the store read it: "15@0,20@20802", from a day since 1970 on. */
export function calendarText(calendar: Calendar | undefined): string {
  return calendar === undefined ? "" : textOf(calendar);
}

/** Whether two calendars have the same months. */
export function sameCalendar(a: Calendar | undefined, b: Calendar | undefined): boolean {
  return a === b || calendarText(a) === calendarText(b);
}
