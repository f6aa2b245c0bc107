import { memoize } from "../../base/memoize.ts";
import { type Calendar, monthEnd, monthStart } from "./calendar.ts";
import { DAY_MS } from "./days.ts";

/**
 * Windows are aligned to UTC (docs/reference/http.md#windows): a minute starts at second 0, a week
 * on Monday (ISO 8601), a month on its first day, or on the anchor day of its account. The window of
 * an instant is a pure function of the instant and of the account's calendar, so every gateway
 * computes the same reset at any time.
 *
 * There is one row for each window, from the shortest to the longest. It has the window's name, the
 * letter that names it in the store (b, k, q, r and y have another meaning there) and its length. A
 * window of constant length has one start at `alignMs`. A calendar window has `months`, and its
 * `lengthMs` is its longest possible length. `begins` tells people when it begins.
 */
const ROWS = [
  { name: "second", letter: "s", lengthMs: 1_000, alignMs: 0, begins: "" },
  { name: "minute", letter: "m", lengthMs: 60_000, alignMs: 0, begins: ", from second 0" },
  { name: "hour", letter: "h", lengthMs: 3_600_000, alignMs: 0, begins: ", from minute 0" },
  { name: "day", letter: "d", lengthMs: DAY_MS, alignMs: 0, begins: ", from 00:00 UTC" },
  { name: "week", letter: "w", lengthMs: 7 * DAY_MS, alignMs: 4 * DAY_MS, begins: ", from Monday" },
  { name: "month", letter: "M", lengthMs: 31 * DAY_MS, months: 1, begins: ", from its first day" },
  { name: "year", letter: "Y", lengthMs: 366 * DAY_MS, months: 12, begins: ", from 1 January" },
] as const;
export type WindowName = (typeof ROWS)[number]["name"];
export type WindowRow = {
  readonly name: WindowName;
  readonly letter: string;
  readonly lengthMs: number;
  readonly begins: string;
} & (
  | { readonly alignMs: number; readonly months?: undefined }
  | { readonly months: number; readonly alignMs?: undefined }
);
export const WINDOW_ROWS: readonly WindowRow[] = ROWS;
export const WINDOW_NAMES: readonly WindowName[] = ROWS.map(({ name }) => name);

const ROW_OF = Object.fromEntries(ROWS.map((row) => [row.name, row])) as Readonly<
  Record<WindowName, WindowRow>
>;

/** "a minute", "an hour". */
export function aWindow(window: string): string {
  return `${window === "hour" ? "an" : "a"} ${window}`;
}

/** The row of a known window. */
export function windowRow(window: WindowName): WindowRow {
  return ROW_OF[window];
}

/**
 * A part of what an account uses with windows of its own: the requests for one operation, those
 * with one key, or what one meter counts. `id` names it in the store, `name` names it to people. A
 * key's name is "key"; its id is "@" and a number that is unique in the account, and `key` is the
 * id of the key's record. A meter's id is "#" and its name.
 */
export type LimitPart = { readonly id: string; readonly name: string; readonly key?: string };
/** Ids of operations. */
export const OPERATION_ID = /^[0-9a-z]{1,7}$/;
/** The name of the limits of one key, such as key.minute. */
export const CAP_NAME = "key";
/** Ids of keys with caps. */
export const CAP_ID = /^@\d{1,4}$/;
export const CAP_NUMBER_MAX = 1_023;

/**
 * One window of a plan, or of a part of the account: at most `limit` units in each. Limits are 1 to
 * LIMIT_MAX. If `observed` is set, the window is counted and never refuses. `calendar` is that of
 * the account, for a month that does not begin on the first day. In a decision `hold` is what a
 * request takes from a window of a meter, in place of the request's cost.
 */
export type Limit = {
  readonly window: WindowName;
  readonly limit: number;
  readonly calendar?: Calendar;
  readonly part?: LimitPart;
  readonly observed?: true;
  readonly hold?: number;
};
export const LIMIT_MAX = 1e12;

/**
 * The name under which units are counted: `minute`, `1z141.minute` of an operation, `@17.minute`
 * of a key, `#tokens.minute` of a meter.
 */
export function counterName({ window, part }: Pick<Limit, "window" | "part">): string {
  return part === undefined ? window : `${part.id}.${window}`;
}

/** Whether a limit is that of one key (docs/reference/keys.md#caps). */
export function isCap({ part }: Pick<Limit, "part">): boolean {
  return part?.id.startsWith("@") ?? false;
}

/** Whether a limit is that of a meter. */
export function isMeter({ part }: Pick<Limit, "part">): boolean {
  return part?.id.startsWith("#") ?? false;
}

/** Whether a refusal by a limit may be a strike: one by caps or meters alone is none. */
export function mayStrike(limit: Pick<Limit, "part">): boolean {
  return limit.part === undefined || !(isCap(limit) || isMeter(limit));
}

/** The units that a request with this cost takes from a window. */
export function costIn({ hold }: Pick<Limit, "hold">, cost: number): number {
  return hold ?? cost;
}

/**
 * Whether a request with this cost fits into a window. A cost of 0 always fits, a hold of 0 until
 * the limit is reached.
 */
export function fitsLimit({ limit, hold }: Limit, used: number, cost: number): boolean {
  if (hold !== undefined) return used + Math.max(hold, 1) <= limit;
  return cost === 0 || used + cost <= limit;
}

/** The window that a counter counts in. */
export function counterWindow(counter: string): WindowName {
  return counter.slice(counter.indexOf(".") + 1) as WindowName;
}

/** The first millisecond of the window that holds `nowMs`. Months are those of the calendar. */
export function windowStart(window: WindowName, nowMs: number, calendar?: Calendar): number {
  if (calendar !== undefined && window === "month") return monthStart(calendar, nowMs);
  const row = ROW_OF[window];
  if (row.months === undefined) {
    const sinceMs = (nowMs - row.alignMs) % row.lengthMs;
    const startMs = nowMs - (sinceMs < 0 ? sinceMs + row.lengthMs : sinceMs);
    // The stores keep no instant below 0, so the first week of 1970 starts with the year.
    return nowMs < 0 ? startMs : Math.max(0, startMs);
  }
  const date = new Date(nowMs);
  const month = date.getUTCMonth();
  return Date.UTC(date.getUTCFullYear(), month - (month % row.months));
}

/** The first millisecond after the window that starts at `startMs`. */
export function windowEnd(window: WindowName, startMs: number, calendar?: Calendar): number {
  const { months, lengthMs, alignMs = 0 } = ROW_OF[window];
  if (months === undefined) return startMs === 0 && alignMs > 0 ? alignMs : startMs + lengthMs;
  const date = new Date(startMs);
  const endMs =
    calendar !== undefined && window === "month"
      ? monthEnd(calendar, startMs)
      : Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months);
  // The start may be damaged and lie after the last instant of a Date, 8.64e15.
  return Number.isNaN(endMs) ? startMs + lengthMs : endMs;
}

/** The first millisecond after the window of a limit that holds `nowMs`. */
export function currentEnd({ window, calendar }: Limit, nowMs: number): number {
  return windowEnd(window, windowStart(window, nowMs, calendar), calendar);
}

/** The first millisecond of a window that is known by its end. */
export function usageStart({
  window,
  calendar,
  resetMs,
}: Pick<Limit, "window" | "calendar"> & { readonly resetMs: number }): number {
  return windowStart(window, resetMs - 1, calendar);
}

/**
 * The latest instant at which the window that starts at `startMs` may end, whatever the calendar of
 * its account.
 */
export function latestEnd(window: WindowName, startMs: number): number {
  return window === "month" ? startMs + ROW_OF.month.lengthMs : windowEnd(window, startMs);
}

/**
 * Stores keep an account this long after the last instant that matters, so that a small step back of
 * the clock opens no window again (docs/operations.md#clocks).
 */
export const SPARE_MS = 60_000;

/** The windows other than those of the account that decide a request. */
type ExtraLimits = {
  /** Windows of the operation, each with its `part` set. */
  readonly operation?: readonly Limit[] | undefined;
  /** Second limits on the counts of the account, which never refuse. */
  readonly observe?: readonly Limit[] | undefined;
  /** The months of the account, if they do not begin on the first day. */
  readonly calendar?: Calendar | undefined;
};

const NONE: readonly Limit[] = [];

/**
 * The windows of one decision, from the shortest to the longest: those of the account, those of the
 * operation, and observed ones that the account lacks (docs/reference/http.md#quotas). The same
 * lists and calendar return the same list again.
 */
export function mergeLimits(
  limits: readonly Limit[],
  { operation = NONE, observe = NONE, calendar }: ExtraLimits,
): readonly Limit[] {
  const isWhole = operation.length === 0 && observe.length === 0;
  const all = isWhole ? limits : merged(limits)(operation)(observe);
  return calendar === undefined ? all : anchored(calendar)(all);
}

const merged = memoize((limits: readonly Limit[]) => {
  return memoize((operation: readonly Limit[]) => {
    return memoize((observe: readonly Limit[]) => merge(limits, operation, observe));
  });
});

const anchored = memoize((calendar: Calendar) => {
  return memoize((limits: readonly Limit[]): readonly Limit[] => {
    return limits.map((limit) => withCalendar(limit, calendar));
  });
});

/** The limit with the months of its account, if it is one of a month. */
export function withCalendar(limit: Limit, calendar: Calendar | undefined): Limit {
  return calendar !== undefined && limit.window === "month" ? { ...limit, calendar } : limit;
}

function merge(
  limits: readonly Limit[],
  operation: readonly Limit[],
  observe: readonly Limit[],
): readonly Limit[] {
  const counted = observe
    .filter(
      ({ window }) => !limits.some((limit) => limit.window === window && limit.part === undefined),
    )
    .map(({ window }) => ({ window, limit: Number.MAX_SAFE_INTEGER, observed: true as const }));
  return sortByLength([...limits, ...operation, ...counted]);
}

/** The same list, shortest window first. Limits of one length keep their order. */
export function sortByLength<T extends { readonly window: WindowName }>(limits: T[]): T[] {
  const place = ({ window }: T) => WINDOW_NAMES.indexOf(window);
  return limits.sort((a, b) => place(a) - place(b));
}

/**
 * A meter of a plan: it counts what the answers of the backend cost, in units of its own. Its
 * windows, shortest first, are limits with the part `#name` of the account.
 */
export type PlanMeter = { readonly name: string; readonly limits: readonly Limit[] };

/** The parts of a plan other than its windows (docs/reference/plans.md). */
export type PlanOptions = {
  /** Concurrent requests of an account in one process; undefined means any number. */
  readonly concurrent: number | undefined;
  /**
   * Second limits on the counts of these windows, shortest first. They never refuse and only
   * announce.
   */
  readonly observe: readonly Limit[];
  /** Units that the price includes, shortest window first. Usage above them is overage. */
  readonly included: readonly Limit[];
  /** At most four, in the order of the file. */
  readonly meters: readonly PlanMeter[];
};

/** The windows of an account for one operation, in addition to those of its plan. */
export type OperationLimits = {
  /** The name under which their units are counted: at most five characters of `0-9a-z`. */
  readonly id: string;
  /** Shortest first, each with its `part`; never empty. */
  readonly windows: readonly Limit[];
};
