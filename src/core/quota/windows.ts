/**
 * Windows are aligned to UTC (docs/reference/http.md#windows): a minute starts at second 0, a day
 * at 00:00:00, a month on its first day. Which window an instant lies in is a pure function of the
 * instant, so a reset never wobbles and never depends on who answers.
 *
 * One row a window, from the shortest to the longest: its name; its letter, which names it in the
 * store; its length, where that is always the same; and, for people, where it begins.
 */
const ROWS = [
  { name: "second", letter: "s", lengthMs: 1_000, begins: "" },
  { name: "minute", letter: "m", lengthMs: 60_000, begins: ", from second 0" },
  { name: "hour", letter: "h", lengthMs: 3_600_000, begins: ", from minute 0" },
  { name: "day", letter: "d", lengthMs: 86_400_000, begins: ", from 00:00 UTC" },
  { name: "month", letter: "M", lengthMs: undefined, begins: ", by the calendar, UTC" },
] as const;
export type WindowName = (typeof ROWS)[number]["name"];
export type WindowRow = {
  readonly name: WindowName;
  readonly letter: string;
  readonly lengthMs: number | undefined;
  readonly begins: string;
};
export const WINDOW_ROWS: readonly WindowRow[] = ROWS;
export const WINDOW_NAMES: readonly WindowName[] = ROWS.map(({ name }) => name);

/** An operation with windows of its own: its short number, which names it in the store. */
export type OperationRef = { readonly id: string; readonly name: string };
export const OPERATION_ID = /^[0-9a-z]{1,7}$/;

/**
 * One window of a plan, or of an operation: at most `limit` units in each; limits are 1 to
 * LIMIT_MAX. Where `observed` is set the window is counted and never refuses.
 */
export type Limit = {
  readonly window: WindowName;
  readonly limit: number;
  readonly operation?: OperationRef;
  readonly observed?: true;
};
export const LIMIT_MAX = 1e12;

/** The name that a count is kept under: `minute`, or `1z141z3.minute` for an operation's. */
export function counterName({ window, operation }: Pick<Limit, "window" | "operation">): string {
  return operation === undefined ? window : `${operation.id}.${window}`;
}

/** The window that a counter counts in. */
export function counterWindow(counter: string): WindowName {
  return counter.slice(counter.indexOf(".") + 1) as WindowName;
}

const LENGTH_MS = Object.fromEntries(ROWS.map((row) => [row.name, row.lengthMs])) as Readonly<
  Record<WindowName, number>
>;
const MONTH_MS_MAX = 31 * 86_400_000;

/** The first millisecond of the window that holds `nowMs`. */
export function windowStart(window: WindowName, nowMs: number): number {
  if (window !== "month") {
    const sinceMs = nowMs % LENGTH_MS[window];
    return nowMs - (sinceMs < 0 ? sinceMs + LENGTH_MS[window] : sinceMs);
  }
  const date = new Date(nowMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
}

/** The first millisecond after the window that starts at `startMs`. */
export function windowEnd(window: WindowName, startMs: number): number {
  if (window !== "month") return startMs + LENGTH_MS[window];
  const date = new Date(startMs);
  const endMs = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
  // A damaged start may lie behind the last instant of a Date, 8.64e15.
  return Number.isNaN(endMs) ? startMs + MONTH_MS_MAX : endMs;
}

/** The windows beside those of the account, by which one request is decided. */
export type ExtraLimits = {
  /** Windows of the operation, each with its `operation` set. */
  readonly operation?: readonly Limit[] | undefined;
  /** Second limits on the counts of the account, which never refuse. */
  readonly observe?: readonly Limit[] | undefined;
};

const NONE: readonly Limit[] = [];
const merged = new WeakMap<object, WeakMap<object, WeakMap<object, readonly Limit[]>>>();

/**
 * The windows of one decision, from the shortest to the longest: those of the account, of the
 * operation, and those that are only observed, as far as the account lacks them
 * (docs/reference/http.md#quotas). The same lists give the same list again.
 */
export function mergeLimits(
  limits: readonly Limit[],
  { operation = NONE, observe = NONE }: ExtraLimits,
): readonly Limit[] {
  if (operation.length === 0 && observe.length === 0) return limits;
  const byOperation = nested(merged, limits);
  const byObserved = nested(byOperation, operation);
  let all = byObserved.get(observe);
  if (all === undefined) {
    all = merge(limits, operation, observe);
    byObserved.set(observe, all);
  }
  return all;
}

function nested<T extends object>(maps: WeakMap<object, WeakMap<object, T>>, key: object) {
  let map = maps.get(key);
  if (map === undefined) {
    map = new WeakMap();
    maps.set(key, map);
  }
  return map;
}

function merge(
  limits: readonly Limit[],
  operation: readonly Limit[],
  observe: readonly Limit[],
): readonly Limit[] {
  const counted = observe
    .filter(({ window }) => !limits.some((limit) => limit.window === window))
    .map(({ window }) => ({ window, limit: Number.MAX_SAFE_INTEGER, observed: true as const }));
  const length = ({ window }: Limit) => WINDOW_NAMES.indexOf(window);
  return [...limits, ...operation, ...counted].sort((a, b) => length(a) - length(b));
}

/** The parts of a plan beside its windows (docs/reference/plans.md). */
export type PlanOptions = {
  /** Requests of an account under way at once, in one process; undefined: any number. */
  readonly concurrent: number | undefined;
  /** Second limits on the counts of these windows, shortest first: never refuse, only tell. */
  readonly observe: readonly Limit[];
};

/** The windows of an account for one operation, beside those of its plan. */
export type OperationLimits = {
  /** The name under which their counts are kept: five characters of `0-9a-z` at most. */
  readonly id: string;
  /** Shortest first, each with its `operation`; never empty. */
  readonly windows: readonly Limit[];
};
