import type { WindowUsage } from "../../../core/quota/decide.ts";
import { heldUnits } from "../../../core/quota/meters.ts";
import { counterName, type Limit, usageStart } from "../../../core/quota/windows.ts";
import type { AccountRef } from "../account-ref.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { LostSettlement, WindowTotal } from "../count-corrections.ts";

/** Counts above `from`, up to `to`, that no quota event has reported. */
type UntoldRange = { readonly from: number; readonly to: number };

/**
 * Units to add to the window of `counter` that starts at `startMs`. `endMs` is its end if its account
 * has a calendar. Units below 0 are taken back. With them, and with what a settlement adds,
 * `chargedMs` is when the first of them were charged, on the store's clock, because a window that
 * was reset since neither gives back nor takes them.
 */
export type WindowDebt = {
  readonly counter: string;
  readonly startMs: number;
  readonly endMs?: number | undefined;
  readonly units: number;
  readonly chargedMs?: number | undefined;
  /** The outage in which the hold that is settled was admitted from a share. */
  readonly outage?: number | undefined;
  /** The limit that its events are reported with. */
  readonly limit?: Limit | undefined;
  /** Null in a debt that cancels another one: its range has been reported, or never will be. */
  readonly untold?: UntoldRange | null | undefined;
};

/**
 * Requests and their cost in units, for the usage of a day. Numbers below 0 are taken back. `plan`
 * is that of the last request of the day.
 */
export type DayDebt = {
  readonly day: number;
  readonly requests: number;
  readonly units: number;
  readonly plan?: string | undefined;
};

/**
 * Units of a meter for the usage of a day; below 0 they are taken back. `ids` are those of the
 * requests that were settled, and `cancelled` those of another debt that this one cancels.
 */
export type MeterDebt = LostSettlement & { readonly cancelled?: readonly string[] };

/**
 * The difference between the units admitted here for an account and the units that the store has
 * charged for them. It concerns the account's windows, some of which may be over, and its history
 * (docs/reference/history.md). `plan` is that of its last request.
 */
export type AccountDebt = {
  readonly accountRef: AccountRef;
  readonly plan: string | undefined;
  readonly windows: readonly WindowDebt[];
  readonly days: readonly DayDebt[];
  readonly meters: readonly MeterDebt[];
};

/**
 * The windows of one counter that an account can owe to: the one that ends now and the next one.
 */
const OWED_OF_A_KIND = 2;
/** The most requests that are named when the settlement of a meter on a day is lost. */
const IDS_MAX = 20;

/** The debts of one account together, without the parts that cancel each other. */
export function addDebts(before: AccountDebt | undefined, debt: AccountDebt): AccountDebt {
  const windows = [...(before?.windows ?? [])];
  for (const each of debt.windows) addWindow(windows, each);
  const days = [...(before?.days ?? [])];
  for (const each of debt.days) addDay(days, each);
  const meters = [...(before?.meters ?? [])];
  for (const each of debt.meters) addMeter(meters, each);
  return {
    ...debt,
    windows: windows.filter(({ units, untold }) => units !== 0 || untold),
    days: days.filter(({ requests, units }) => requests !== 0 || units !== 0),
    meters: meters.filter(({ units }) => units !== 0),
  };
}

function addWindow(windows: WindowDebt[], debt: WindowDebt): void {
  const at = windows.findIndex((one) => isSameWindow(one, debt));
  const found = windows[at];
  if (found !== undefined) {
    const { counter, startMs, endMs } = debt;
    const units = found.units + debt.units;
    // Settlements that raise a count have an instant too, unless new units are owed beside them.
    const isCharged = found.chargedMs !== undefined && debt.chargedMs !== undefined;
    const chargedMs =
      units < 0 || isCharged ? earliest(found.chargedMs, debt.chargedMs) : undefined;
    const limit = debt.limit ?? found.limit;
    windows[at] = {
      ...{ counter, startMs, endMs, units, chargedMs, limit },
      untold: joined(found.untold, debt.untold),
    };
    return;
  }
  windows.push(debt);
  const same = windows.filter(({ counter }) => counter === debt.counter);
  if (same.length <= OWED_OF_A_KIND) return;
  const oldest = same.reduce((one, other) => (other.startMs < one.startMs ? other : one));
  windows.splice(windows.indexOf(oldest), 1);
}

function addDay(days: DayDebt[], { day, requests, units, plan }: DayDebt): void {
  const at = days.findIndex((one) => one.day === day);
  const found: Omit<DayDebt, "day"> = days[at] ?? { requests: 0, units: 0 };
  days[at < 0 ? days.length : at] = {
    day,
    requests: found.requests + requests,
    units: found.units + units,
    plan: plan ?? found.plan,
  };
}

function addMeter(
  meters: MeterDebt[],
  { day, meter, units, ids, cancelled = [] }: MeterDebt,
): void {
  const at = meters.findIndex((one) => one.day === day && one.meter === meter);
  const found = meters[at] ?? { units: 0, ids: [] };
  const all = [...found.ids, ...ids].filter((id) => !cancelled.includes(id));
  const sum = { day, meter, units: found.units + units, ids: all.slice(0, IDS_MAX) };
  meters[at < 0 ? meters.length : at] = sum;
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

function joined(one: WindowDebt["untold"], other: WindowDebt["untold"]): UntoldRange | undefined {
  if (other === null || one === null) return other ?? undefined;
  if (one === undefined || other === undefined) return one ?? other;
  return { from: Math.min(one.from, other.from), to: Math.max(one.to, other.to) };
}

/** The parts of debts that are taken back, or cancelled: no unit is taken back twice. */
export function takeBacksOf(owed: readonly AccountDebt[]): AccountDebt[] {
  const isTakenBack = ({ units }: { readonly units: number }) => units <= 0;
  return owed.map((debt) => ({
    ...debt,
    windows: debt.windows.filter(isTakenBack),
    days: debt.days.filter(isTakenBack),
    meters: debt.meters.filter(isTakenBack),
  }));
}

/** The units that requests take from each meter of the windows, on a day. */
export function metersOf(limits: readonly Limit[], day: number, requests: number): MeterDebt[] {
  return heldUnits(limits).map(({ name, units }) => {
    return { day, meter: name, units: requests * units, ids: [] };
  });
}

/** The debts with the opposite sign: together they cancel each other. */
export function negated(owed: readonly AccountDebt[]): AccountDebt[] {
  return owed.map((debt) => ({
    ...debt,
    windows: debt.windows.map(({ counter, startMs, endMs, units }) => {
      return { counter, startMs, endMs, units: -units, untold: null };
    }),
    days: debt.days.map(({ day, requests, units }) => {
      return { day, requests: -requests, units: -units };
    }),
    meters: debt.meters.map(({ units, ids, ...each }) => {
      return { ...each, units: -units, ids: [], cancelled: ids };
    }),
  }));
}

/** The window that a decision reports. `endMs` is its end if its account has a calendar. */
export function windowOf(usage: WindowUsage): Omit<WindowTotal, "used"> {
  const endMs = usage.calendar === undefined ? undefined : usage.resetMs;
  return { counter: counterName(usage), startMs: usageStart(usage), endMs };
}

/** The names of a window: no other one of its account has both. */
export type WindowKey = Pick<WindowDebt, "counter" | "startMs">;

export function isSameWindow(one: WindowKey, other: WindowKey): boolean {
  return one.counter === other.counter && one.startMs === other.startMs;
}

/** The most that any window owes, because each of them counts the same requests. */
export function debtUnits({ windows }: AccountDebt): number {
  return windows.reduce((most, one) => {
    return countsRequests(one) ? Math.max(most, one.units) : most;
  }, 0);
}

/** The units that each account gives back: the most of any of its windows and days. */
export function takeBackUnits(owed: readonly AccountDebt[]): UncertainCharge[] {
  const charges = owed.map(({ accountRef, windows, days }) => {
    const counted = [...windows.filter(countsRequests), ...days];
    const units = counted.reduce((most, one) => Math.max(most, -one.units), 0);
    return { accountRef, units };
  });
  return charges.filter(({ units }) => units > 0);
}

/** Whether a window counts what requests cost: that of a meter has units of its own. */
function countsRequests({ counter }: WindowDebt): boolean {
  return !counter.startsWith("#");
}
