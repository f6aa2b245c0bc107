import { DAY_MS, dayOf } from "../../../core/quota/days.ts";
import type { QuotaDecision, QuotaRequest, WindowUsage } from "../../../core/quota/decide.ts";
import { costIn, counterName, type Limit, windowStart } from "../../../core/quota/windows.ts";
import type { OnSettlementLost, UncertainCharge } from "../outage-handler.ts";
import { type AccountRef, accountId, type LateUsage } from "../quota-store.ts";
import { BoundedAccounts } from "./bounded-accounts.ts";
import { addMeter, type MeterDebt, metersOf } from "./meter-debts.ts";

/** Counts above `from`, up to `to`, that no quota event has reported. */
type UntoldRange = { readonly from: number; readonly to: number };

/**
 * Units to add to the window of `counter` that starts at `startMs`. `endMs` is its end if its account
 * has a calendar. Units below 0 are taken back.
 * Then `chargedMs` is when the first of them were charged, on the store's clock, because a window
 * that was reset since gives nothing back.
 */
export type WindowDebt = {
  readonly counter: string;
  readonly startMs: number;
  readonly endMs?: number | undefined;
  readonly units: number;
  readonly chargedMs?: number | undefined;
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
  readonly name: AccountRef;
  readonly plan: string | undefined;
  readonly windows: readonly WindowDebt[];
  readonly days: readonly DayDebt[];
  readonly meters: readonly MeterDebt[];
};

/** The part of a request that a debt is reported with. */
export type OwedRequest = Pick<QuotaRequest, "limits" | "plan">;

/**
 * The windows of one counter that an account can owe to: the one that ends now and the next one.
 */
const OWED_OF_A_KIND = 2;

/**
 * The units that were admitted without the store and are owed to it, and the units that it charged
 * although they were not admitted, which it gives back. Bounded: beyond `accountsMax` the oldest
 * account's debt is dropped, and its units count as lost. Windows that ended long ago are owed
 * nothing.
 */
export class Debts {
  readonly #owed: BoundedAccounts<AccountDebt>;
  readonly #onMeterLost: OnSettlementLost;
  #lostUnits = 0;
  #owedUnits = 0;

  constructor(accountsMax: number, onMeterLost: OnSettlementLost = () => undefined) {
    this.#owed = new BoundedAccounts(accountsMax);
    this.#onMeterLost = onMeterLost;
  }

  get any(): boolean {
    return this.#owed.size > 0;
  }

  /** The units that were dropped for lack of room, or for good. */
  get lostUnits(): number {
    return this.#lostUnits;
  }

  /** The units that are owed now. */
  get owedUnits(): number {
    return this.#owedUnits;
  }

  /**
   * Adds one request that was admitted at `atMs` of the store's clock, in each of these windows.
   */
  add(
    name: AccountRef,
    request: OwedRequest & { readonly cost?: number },
    windows: readonly WindowUsage[],
    atMs: number,
  ): void {
    const { cost = 1, limits, plan } = request;
    this.#put({
      ...{ name, plan },
      windows: windows.map((standing, i) => {
        return { ...windowDebt(standing, costIn(standing, cost)), limit: limits[i] };
      }),
      days: cost === 0 ? [] : [dayDebt(atMs, 1, cost, plan)],
      meters: metersOf(limits, dayOf(atMs), 1),
    });
  }

  /**
   * Subtracts what the store charged for requests that were decided here. Returns the windows that
   * were owed as many, with the counts that these brought: `from` and `used`. Units that were not
   * owed are taken back later. If they stay after all, their counts are reported.
   */
  subtract(
    name: AccountRef,
    request: OwedRequest & { readonly cost?: number },
    { windows, granted, nowMs }: Pick<QuotaDecision, "windows" | "granted" | "nowMs">,
  ): readonly CountedUsage[] {
    const { limits, plan, cost = 1 } = request;
    const counted: CountedUsage[] = [];
    const charged = windows.map((standing, i) => {
      const units = granted * costIn(standing, cost);
      const debt = { ...windowDebt(standing, -units), limit: limits[i] };
      const owed = Math.max(0, this.unitsIn(name, debt.counter, debt.startMs));
      const from = standing.used - units;
      const to = from + Math.min(units, owed);
      if (to > from) counted.push({ ...standing, used: to, from });
      const untold = to < standing.used ? { from: to, to: standing.used } : undefined;
      return { ...debt, chargedMs: nowMs, untold };
    });
    this.#put({
      ...{ name, plan, windows: charged },
      days: cost === 0 ? [] : [dayDebt(nowMs, -granted, -granted * cost)],
      meters: metersOf(limits, dayOf(nowMs), -granted),
    });
    return counted;
  }

  /** The units that the account owes to the window of a counter. Below 0 they are taken back. */
  unitsIn(name: AccountRef, counter: string, startMs: number): number {
    const owed = this.#owed.get(accountId(name));
    return owed?.windows.find((one) => isSame(one, { counter, startMs }))?.units ?? 0;
  }

  /** Whether units are owed to a window that the debt is about. */
  owesTo({ name, windows }: AccountDebt): boolean {
    return windows.some(({ counter, startMs }) => this.unitsIn(name, counter, startMs) > 0);
  }

  /** Takes out all debts, to charge them. */
  take(): AccountDebt[] {
    const owed = this.#owed.values();
    this.#owed.clear();
    this.#owedUnits = 0;
    return owed;
  }

  /** Puts back the debts that could not be charged, and adds them to those made since. */
  restore(owed: readonly AccountDebt[]): void {
    for (const debt of owed) this.#put(debt);
  }

  /**
   * Counts all debts as lost, because they will not be charged any more. Returns their units, and
   * those of each account that will not be taken back.
   */
  drop(): { readonly lostUnits: number; readonly takeBacks: readonly UncertainCharge[] } {
    const owed = this.take();
    const lostUnits = owed.reduce((sum, each) => sum + this.#lose(each), 0);
    this.#lostUnits += lostUnits;
    return { lostUnits, takeBacks: takeBackUnits(owed) };
  }

  #put(debt: AccountDebt): void {
    const id = accountId(debt.name);
    const before = this.#owed.get(id);
    const windows = [...(before?.windows ?? [])];
    for (const each of debt.windows) addWindow(windows, each);
    const days = [...(before?.days ?? [])];
    for (const each of debt.days) addDay(days, each);
    const meters = [...(before?.meters ?? [])];
    for (const each of debt.meters) addMeter(meters, each);
    const all = {
      ...debt,
      windows: windows.filter(({ units, untold }) => units !== 0 || untold),
      days: days.filter(({ requests, units }) => requests !== 0 || units !== 0),
      meters: meters.filter(({ units }) => units !== 0),
    };
    this.#owedUnits += debtUnits(all) - (before === undefined ? 0 : debtUnits(before));
    if (all.windows.length + all.days.length + all.meters.length === 0) {
      this.#owed.delete(id);
    } else if (before !== undefined) {
      this.#owed.replace(id, all);
    } else {
      const gone = this.#owed.add(id, all);
      const units = gone === undefined ? 0 : this.#lose(gone);
      this.#lostUnits += units;
      this.#owedUnits -= units;
    }
  }

  #lose(owed: AccountDebt): number {
    for (const each of owed.meters) this.#onMeterLost(owed.name, each);
    return debtUnits(owed);
  }
}

/** A window whose count rose above `from`, up to `used`, by units that stay. */
export type CountedUsage = LateUsage["usage"];

function addWindow(windows: WindowDebt[], debt: WindowDebt): void {
  const at = windows.findIndex((one) => isSame(one, debt));
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

function addDay(days: DayDebt[], { day, requests, units, plan }: DayDebt): void {
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
  return owed.map((debt) => ({
    ...debt,
    windows: debt.windows.filter(({ units }) => units > 0),
    days: debt.days.filter(({ units }) => units > 0),
    meters: debt.meters.filter(({ units }) => units > 0),
  }));
}

/** The part that `withoutTakeBacks` leaves out. */
export function takeBacksOf(owed: readonly AccountDebt[]): AccountDebt[] {
  return owed.map((debt) => ({
    ...debt,
    windows: debt.windows.filter(({ units }) => units <= 0),
    days: debt.days.filter(({ units }) => units <= 0),
    meters: debt.meters.filter(({ units }) => units <= 0),
  }));
}

function dayDebt(atMs: number, requests: number, units: number, plan?: string): DayDebt {
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
export function windowDebt(standing: WindowUsage, units: number): WindowDebt {
  const { window, calendar, resetMs } = standing;
  const startMs = windowStart(window, resetMs - 1, calendar);
  const debt = { counter: counterName(standing), startMs, units };
  return calendar === undefined ? debt : { ...debt, endMs: resetMs };
}

function isSame(
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
  const charges = owed.map(({ name, windows, days }) => {
    const counted = windows.filter(({ counter }) => !counter.startsWith("#"));
    const units = [...counted, ...days].reduce((most, one) => Math.max(most, -one.units), 0);
    return { name, units };
  });
  return charges.filter(({ units }) => units > 0);
}
