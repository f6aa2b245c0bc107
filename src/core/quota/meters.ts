import type { Calendar } from "./calendar.ts";
import type { QuotaDecision, WindowUsage } from "./decide.ts";
import {
  fitsLimit,
  isMeter,
  type Limit,
  type LimitPart,
  type PlanMeter,
  sortByLength,
  WINDOW_NAMES,
  type WindowName,
  withCalendar,
} from "./windows.ts";

/**
 * The place where an answer tells what it used: a field, named in lower case, or a member of a JSON
 * body or of an event, by the unescaped segments of a JSON pointer (RFC 6901).
 */
export type MeterSource =
  | { readonly from: "header"; readonly name: string }
  | { readonly from: "json" | "sse"; readonly pointer: readonly string[] };

/**
 * A meter of an operation. Admission takes `hold` units, and an answer uses `max` at most. It is
 * charged `untold` if none of the sources in `used` tells a number.
 */
export type OperationMeter = {
  readonly name: string;
  readonly hold: number;
  readonly max: number;
  readonly untold: number;
  readonly used: readonly MeterSource[];
};

/** The meters of an operation that has none. */
export const NO_METERS: readonly OperationMeter[] = [];

export const PLAN_METERS_MAX = 4;
/** The name of a meter, which is part of the names of its windows. */
export const METER_NAME = /^[a-z][a-z0-9-]{0,31}$/;

/** The part of what an account uses that a meter counts. */
export function meterPart(name: string): LimitPart {
  return { id: `#${name}`, name };
}

/** A window of a meter as people write it: `tokens.month`. */
export type MeterWindow = `${string}.${WindowName}`;

/** The meter and the window of `tokens.month`; undefined if it is no window of a meter. */
function parseMeterWindow(
  text: string,
): { readonly name: string; readonly window: WindowName } | undefined {
  const dot = text.indexOf(".");
  const name = text.slice(0, Math.max(0, dot));
  const window = WINDOW_NAMES.find((known) => known === text.slice(dot + 1));
  return window === undefined || !METER_NAME.test(name) ? undefined : { name, window };
}

export function isMeterWindow(text: string): text is MeterWindow {
  return parseMeterWindow(text) !== undefined;
}

/** A limit of an account's own, of any kind: `tokens.month` is that of a meter. */
type OwnLimit = { readonly window: string; readonly limit: number };

/** The meters of an account: those of its plan, with its own windows in place of the plan's. */
export function effectiveMeters(
  plan: readonly PlanMeter[],
  own: readonly OwnLimit[],
): readonly PlanMeter[] {
  const meters = new Map(plan.map(({ name, limits }) => [name, limits]));
  for (const { window: text, limit } of own) {
    const found = parseMeterWindow(text);
    if (found === undefined) continue;
    const { name, window } = found;
    const kept = (meters.get(name) ?? []).filter((one) => !one.observed && one.window !== window);
    meters.set(name, sortByLength([...kept, { window, limit, part: meterPart(name) }]));
  }
  return [...meters].map(([name, limits]) => ({ name, limits }));
}

/** The meters of an account's plan, its own limits, and its calendar if it has one. */
export type MeteredAccount = {
  readonly plan: readonly PlanMeter[];
  readonly own: readonly OwnLimit[];
  readonly calendar: Calendar | undefined;
};

/** The windows of all meters of an account, whichever operations take from them. */
export function meterWindows({ plan, own, calendar }: MeteredAccount): readonly Limit[] {
  return effectiveMeters(plan, own).flatMap(({ limits }) => {
    return limits.map((limit) => withCalendar(limit, calendar));
  });
}

const held = new WeakMap<readonly Limit[], WeakMap<object, readonly Limit[]>>();

/**
 * The windows of a decision with those of the operation's meters, each with its hold, from the
 * shortest to the longest; or the name of a meter that the account lacks. `limits` are those of
 * `mergeLimits`. The same lists return the same list again.
 */
export function withMeters(
  limits: readonly Limit[],
  operation: readonly OperationMeter[],
  { plan, own, calendar }: MeteredAccount,
): readonly Limit[] | string {
  const known = held.get(limits)?.get(operation);
  if (known !== undefined) return known;
  const meters = effectiveMeters(plan, own);
  const all = [...limits];
  for (const { name, hold } of operation) {
    const meter = meters.find((one) => one.name === name);
    if (meter === undefined) return name;
    for (const limit of meter.limits) all.push(withCalendar({ ...limit, hold }, calendar));
  }
  const byOperation = held.get(limits) ?? new WeakMap<object, readonly Limit[]>();
  held.set(limits, byOperation.set(operation, sortByLength(all)));
  return all;
}

/** The units that a request takes from each meter whose windows are in the list. */
export function heldUnits(limits: readonly Limit[]): readonly MeterUse[] {
  const units = new Map<string, number>();
  for (const { part, hold } of limits) {
    if (part !== undefined && hold !== undefined) units.set(part.name, hold);
  }
  return [...units].map(([name, hold]) => ({ name, units: hold }));
}

/** The holds of an admitted request, until its answer tells what it used. */
export type Holds = {
  /** The id of the request. */
  readonly id: string;
  readonly plan: string;
  readonly meters: readonly OperationMeter[];
  /** The windows of its meters by the decision, which was made at `decidedMs` of the store's clock. */
  readonly windows: readonly WindowUsage[];
  readonly decidedMs: number;
};

/** The units of one meter that a request is charged in the end. */
export type MeterUse = { readonly name: string; readonly units: number };

/** The difference between use and hold of one meter: below 0, units are given back. */
export type MeterChange = {
  readonly meter: string;
  readonly units: number;
  readonly windows: readonly WindowUsage[];
};

/** The changes that a settlement makes. A meter whose use is not given keeps its hold. */
export function meterChanges(
  { meters, windows }: Holds,
  used: readonly MeterUse[],
): readonly MeterChange[] {
  return meters.flatMap(({ name, hold, max }) => {
    const use = used.find((one) => one.name === name);
    const units = use === undefined ? 0 : Math.min(use.units, max) - hold;
    if (units === 0) return [];
    const { id } = meterPart(name);
    return [{ meter: name, units, windows: windows.filter(({ part }) => part?.id === id) }];
  });
}

/**
 * Whether a refused request would fit if `heldIn` units of each window were given back: only windows
 * of meters have no room for it.
 */
export function isHeldByOthers(
  { windows, nowMs }: Pick<QuotaDecision, "windows" | "nowMs">,
  cost: number,
  heldIn: (usage: WindowUsage) => number,
): boolean {
  const full = windows.filter((one) => one.resetMs > nowMs && !fitsLimit(one, one.used, cost));
  return full.every((one) => {
    return isMeter(one) && fitsLimit(one, Math.max(0, one.used - heldIn(one)), cost);
  });
}
