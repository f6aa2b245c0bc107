import type { WindowUsage } from "../../../core/quota/decide.ts";
import { counterName, windowStart } from "../../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../quota-store.ts";

/** Units that were admitted here, counted by `counter` in the window that starts at `startMs`. */
export type WindowDebt = { readonly counter: string; readonly startMs: number; units: number };

/** Requests that were admitted here, and the units that all of them cost. */
export type AdmittedTotals = { readonly requests: number; readonly units: number };

/**
 * The debt of one account: to its windows, of which some may be over, and to its history
 * (docs/reference/history.md).
 */
export type AccountDebt = {
  readonly name: AccountRef;
  readonly windows: WindowDebt[];
  admitted: AdmittedTotals;
};

/** Windows of one counter that an account can owe: the one that ends now, and the one after it. */
const OWED_OF_A_KIND = 2;

/**
 * The units that were admitted without the store and are owed to it. Bounded: beyond `accountsMax`
 * the oldest account's debt goes, and its units count as lost; of windows long over nothing is owed.
 */
export class Debts {
  readonly #owed = new Map<string, AccountDebt>();
  readonly #accountsMax: number;
  #lostUnits = 0;

  constructor(accountsMax: number) {
    this.#accountsMax = accountsMax;
  }

  get any(): boolean {
    return this.#owed.size > 0;
  }

  /** Units that were dropped for want of room, or for good. */
  get lostUnits(): number {
    return this.#lostUnits;
  }

  /** One request was admitted, in each of these windows. */
  add(name: AccountRef, windows: readonly WindowUsage[], cost: number): void {
    if (cost === 0) return;
    const owed = this.#of(name);
    owed.admitted = plus(owed.admitted, { requests: 1, units: cost }, 1);
    for (const standing of windows) addTo(owed, windowDebt(standing, cost));
  }

  /**
   * The store charged these units after all. Gives how many of them nothing was owed for, the most of
   * any window: they are counted twice.
   */
  release({ name, windows, admitted }: AccountDebt): number {
    const id = accountId(name);
    const owed = this.#owed.get(id);
    if (owed !== undefined) owed.admitted = plus(owed.admitted, admitted, -1);
    let twice = 0;
    for (const charged of windows) {
      const found = owed?.windows.find((one) => isSame(one, charged));
      const released = Math.min(charged.units, found?.units ?? 0);
      if (found !== undefined) found.units -= released;
      twice = Math.max(twice, charged.units - released);
    }
    const rest = owed?.windows.some((one) => one.units > 0) || (owed?.admitted.requests ?? 0) > 0;
    if (!rest) this.#owed.delete(id);
    return twice;
  }

  /** The units that the account owes to the window of a counter that starts at `startMs`. */
  unitsIn(name: AccountRef, counter: string, startMs: number): number {
    const owed = this.#owed.get(accountId(name));
    return owed?.windows.find((one) => isSame(one, { counter, startMs }))?.units ?? 0;
  }

  /** Takes all that is owed, for charging. */
  take(): AccountDebt[] {
    const owed = [...this.#owed.values()];
    this.#owed.clear();
    return owed;
  }

  /** Puts back what could not be charged, beside what was admitted since. */
  restore(owed: readonly AccountDebt[]): void {
    for (const { name, windows, admitted } of owed) {
      const again = this.#of(name);
      again.admitted = plus(again.admitted, admitted, 1);
      for (const each of windows) addTo(again, each);
    }
  }

  /** Counts as lost what is owed and will not be charged any more; gives the units. */
  drop(): number {
    let units = 0;
    for (const owed of this.take()) units += debtUnits(owed);
    this.#lostUnits += units;
    return units;
  }

  #of(name: AccountRef): AccountDebt {
    const id = accountId(name);
    let owed = this.#owed.get(id);
    if (owed === undefined) {
      owed = { name, windows: [], admitted: NOTHING };
      const gone = keep(this.#owed, id, owed, this.#accountsMax);
      if (gone !== undefined) this.#lostUnits += debtUnits(gone);
    }
    return owed;
  }
}

const NOTHING: AdmittedTotals = { requests: 0, units: 0 };

/** The sum, or with a `sign` of -1 the difference, but no less than nothing. */
function plus(one: AdmittedTotals, other: AdmittedTotals, sign: 1 | -1): AdmittedTotals {
  return {
    requests: Math.max(0, one.requests + sign * other.requests),
    units: Math.max(0, one.units + sign * other.units),
  };
}

function addTo(owed: AccountDebt, { counter, startMs, units }: WindowDebt): void {
  const same = owed.windows.filter((each) => each.counter === counter);
  const found = same.find((each) => each.startMs === startMs);
  if (found !== undefined) found.units += units;
  else owed.windows.push({ counter, startMs, units });
  if (found !== undefined || same.length < OWED_OF_A_KIND) return;
  const oldest = same.reduce((one, other) => (other.startMs < one.startMs ? other : one));
  owed.windows.splice(owed.windows.indexOf(oldest), 1);
}

/** Units in the window that a verdict tells of. */
export function windowDebt(standing: WindowUsage, units: number): WindowDebt {
  const startMs = windowStart(standing.window, standing.resetMs - 1);
  return { counter: counterName(standing), startMs, units };
}

function isSame(
  one: Pick<WindowDebt, "counter" | "startMs">,
  other: Pick<WindowDebt, "counter" | "startMs">,
): boolean {
  return one.counter === other.counter && one.startMs === other.startMs;
}

/** The units that an account owes: the most of any of its windows, since each counts the same. */
export function debtUnits({ windows }: AccountDebt): number {
  return windows.reduce((most, one) => Math.max(most, one.units), 0);
}

/** Keeps the value as the newest; beyond `max` the oldest goes, and is given back. */
export function keep<T>(map: Map<string, T>, id: string, value: T, max: number): T | undefined {
  map.delete(id);
  let gone: T | undefined;
  if (map.size >= max) {
    const [oldest] = map.keys();
    if (oldest !== undefined) {
      gone = map.get(oldest);
      map.delete(oldest);
    }
  }
  map.set(id, value);
  return gone;
}
