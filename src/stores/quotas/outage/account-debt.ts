import { DAY_MS } from "../../../core/quota/days.ts";
import type { WindowUsage } from "../../../core/quota/decide.ts";
import { counterName, type Limit, windowStart } from "../../../core/quota/windows.ts";
import type { AccountRef } from "../account-ref.ts";
import type { UncertainCharge } from "../outage-handler.ts";
import type { MeterDebt } from "./meter-debts.ts";

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
  readonly plan?: string;
};

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

export function addWindow(windows: WindowDebt[], debt: WindowDebt): void {
  const at = windows.findIndex((one) => isSameWindow(one, debt));
  const found = windows[at];
  if (found !== undefined) {
    const units = found.units + debt.units;
    const chargedMs = earliest(found.chargedMs, debt.chargedMs);
    const untold = joined(found.untold, debt.untold);
    // Settlements that raise a count have an instant too, unless new units are owed beside them.
    const isCharged = found.chargedMs !== undefined && debt.chargedMs !== undefined;
    windows[at] = {
      ...{ counter: debt.counter, startMs: debt.startMs, units },
      ...(debt.endMs === undefined ? {} : { endMs: debt.endMs }),
      limit: debt.limit ?? found.limit,
      ...(units < 0 || isCharged ? { chargedMs } : {}),
      ...(untold ? { untold } : {}),
    };
    return;
  }
  windows.push(debt);
  const same = windows.filter(({ counter }) => counter === debt.counter);
  if (same.length <= OWED_OF_A_KIND) return;
  const oldest = same.reduce((one, other) => (other.startMs < one.startMs ? other : one));
  windows.splice(windows.indexOf(oldest), 1);
}

export function addDay(days: DayDebt[], { day, requests, units, plan }: DayDebt): void {
  const at = days.findIndex((one) => one.day === day);
  const found: Omit<DayDebt, "day"> = days[at] ?? { requests: 0, units: 0 };
  const sum = { day, requests: found.requests + requests, units: found.units + units };
  const last = plan ?? found.plan;
  days[at < 0 ? days.length : at] = last === undefined ? sum : { ...sum, plan: last };
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

function joined(
  one: WindowDebt["untold"],
  other: WindowDebt["untold"],
): UntoldRange | null | undefined {
  if (other === null || one === null) return other ?? undefined;
  if (one === undefined || other === undefined) return one ?? other;
  return { from: Math.min(one.from, other.from), to: Math.max(one.to, other.to) };
}

/**
 * The part of debts that may be charged again if it is unknown whether the charge ran. Units are
 * taken back at most once (docs/reference/store.md#late-answers).
 */
export function withoutTakeBacks(owed: readonly AccountDebt[]): AccountDebt[] {
  return partOf(owed, ({ units }) => units > 0);
}

/** The part that `withoutTakeBacks` leaves out. */
export function takeBacksOf(owed: readonly AccountDebt[]): AccountDebt[] {
  return partOf(owed, ({ units }) => units <= 0);
}

function partOf(
  owed: readonly AccountDebt[],
  isIn: (part: { readonly units: number }) => boolean,
): AccountDebt[] {
  return owed.map((debt) => ({
    ...debt,
    windows: debt.windows.filter(isIn),
    days: debt.days.filter(isIn),
    meters: debt.meters.filter(isIn),
  }));
}

export function dayDebt(atMs: number, requests: number, units: number, plan?: string): DayDebt {
  const debt = { day: Math.floor(atMs / DAY_MS), requests, units };
  return plan === undefined ? debt : { ...debt, plan };
}

/** The debts with the opposite sign: together they cancel each other. */
export function negated(owed: readonly AccountDebt[]): AccountDebt[] {
  return owed.map((debt) => ({
    ...debt,
    windows: debt.windows.map(({ counter, startMs, endMs, units }) => ({
      ...{ counter, startMs },
      ...(endMs === undefined ? {} : { endMs }),
      units: -units,
      untold: null,
    })),
    days: debt.days.map(({ day, requests, units }) => ({
      day,
      requests: -requests,
      units: -units,
    })),
    meters: debt.meters.map(({ units, ids, ...each }) => {
      return { ...each, units: -units, ids: [], cancelled: ids };
    }),
  }));
}

/** Units in the window that a decision reports. */
export function windowDebt(usage: WindowUsage, units: number): WindowDebt {
  const { window, calendar, resetMs } = usage;
  const startMs = windowStart(window, resetMs - 1, calendar);
  const debt = { counter: counterName(usage), startMs, units };
  return calendar === undefined ? debt : { ...debt, endMs: resetMs };
}

export function isSameWindow(
  one: Pick<WindowDebt, "counter" | "startMs">,
  other: Pick<WindowDebt, "counter" | "startMs">,
): boolean {
  return one.counter === other.counter && one.startMs === other.startMs;
}

/**
 * The units that an account owes: the most of any of its windows, because each window counts the
 * same requests. Meters have units of their own.
 */
export function debtUnits({ windows }: AccountDebt): number {
  return windows.reduce((most, { counter, units }) => {
    return counter.startsWith("#") ? most : Math.max(most, units);
  }, 0);
}

/** The units that each account gives back: the most of any of its windows and days. */
export function takeBackUnits(owed: readonly AccountDebt[]): UncertainCharge[] {
  const charges = owed.map(({ accountRef, windows, days }) => {
    const counted = windows.filter(({ counter }) => !counter.startsWith("#"));
    const units = [...counted, ...days].reduce((most, one) => Math.max(most, -one.units), 0);
    return { accountRef, units };
  });
  return charges.filter(({ units }) => units > 0);
}
