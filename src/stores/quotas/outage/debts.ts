import { dayOf } from "../../../core/quota/days.ts";
import type { QuotaDecision, QuotaRequest, WindowUsage } from "../../../core/quota/decide.ts";
import { costIn } from "../../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../account-ref.ts";
import { BoundedAccounts } from "../bounded-accounts.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { OnSettlementLost, WindowTotal } from "../count-corrections.ts";
import type { LateUsage } from "../quota-store.ts";
import {
  type AccountDebt,
  addDebts,
  debtUnits,
  isSameWindow,
  metersOf,
  takeBackUnits,
  type WindowDebt,
  type WindowKey,
  windowOf,
} from "./account-debt.ts";

/** The part of a request that a debt is reported with. */
type OwedRequest = Pick<QuotaRequest, "limits" | "plan" | "cost">;

/** A window whose count rose above `from`, up to `used`, by units that stay. */
export type CountedUsage = LateUsage["usage"];

/**
 * The units that were admitted without the store and are owed to it, and the units that it charged
 * although they were not admitted, which it gives back. Bounded: beyond `accountsMax` the oldest
 * account's debt is dropped, and its units count as lost. Windows that ended long ago are owed
 * nothing.
 */
export class Debts {
  readonly #owed: BoundedAccounts<AccountDebt>;
  /** The debts of accounts whose slot is moving. */
  readonly #deferred: BoundedAccounts<AccountDebt>;
  /** By id, the accounts whose slot is moving. The value is the debt that a call charges now. */
  readonly #moving = new Map<string, AccountDebt | undefined>();
  readonly #onMeterLost: OnSettlementLost;
  #lostUnits = 0;
  #owedUnits = 0;

  constructor(accountsMax: number, onMeterLost: OnSettlementLost = () => undefined) {
    this.#owed = new BoundedAccounts(accountsMax);
    this.#deferred = new BoundedAccounts(accountsMax);
    this.#onMeterLost = onMeterLost;
  }

  /** Whether any account owes something, or is owed something. */
  get hasAny(): boolean {
    return this.isDue || this.hasDeferred;
  }

  /** Whether there are debts that precede the next decision. */
  get isDue(): boolean {
    return this.#owed.size > 0;
  }

  get hasDeferred(): boolean {
    return this.#moving.size > 0;
  }

  /** Whether the account owes what cannot be charged because its slot is moving. */
  isDeferred(accountRef: AccountRef): boolean {
    return this.#moving.has(accountId(accountRef));
  }

  /** The units that were dropped for lack of room, or for good. */
  get lostUnits(): number {
    return this.#lostUnits;
  }

  /** The units that are owed now. */
  get owedUnits(): number {
    let units = this.#owedUnits;
    for (const retried of this.#moving.values()) units += retried ? debtUnits(retried) : 0;
    return units;
  }

  /**
   * Adds one request that was admitted at `atMs` of the store's clock, in each of these windows.
   */
  add(
    accountRef: AccountRef,
    { cost = 1, limits, plan }: OwedRequest,
    windows: readonly WindowUsage[],
    atMs: number,
  ): void {
    const day = dayOf(atMs);
    this.#put({
      ...{ accountRef, plan },
      windows: windows.map((usage, i) => {
        return { ...windowOf(usage), units: costIn(usage, cost), limit: limits[i] };
      }),
      days: cost === 0 ? [] : [{ day, requests: 1, units: cost, plan }],
      meters: metersOf(limits, day, 1),
    });
  }

  /**
   * Subtracts what the store charged for requests that were decided here. Returns the windows that
   * were owed as many, with the counts that these brought: `from` and `used`. Units that were not
   * owed are taken back later. If they stay after all, their counts are reported.
   */
  subtract(
    accountRef: AccountRef,
    { limits, plan, cost = 1 }: OwedRequest,
    { windows, granted, nowMs }: Pick<QuotaDecision, "windows" | "granted" | "nowMs">,
  ): readonly CountedUsage[] {
    const day = dayOf(nowMs);
    const counted: CountedUsage[] = [];
    const charged = windows.map((usage, i): WindowDebt => {
      const units = granted * costIn(usage, cost);
      const window = windowOf(usage);
      const from = usage.used - units;
      const to = from + Math.min(units, this.owedIn(accountRef, window));
      if (to > from) counted.push({ ...usage, used: to, from });
      const untold = to < usage.used ? { from: to, to: usage.used } : undefined;
      return { ...window, units: -units, limit: limits[i], chargedMs: nowMs, untold };
    });
    this.#put({
      ...{ accountRef, plan, windows: charged },
      days: cost === 0 ? [] : [{ day, requests: -granted, units: -granted * cost }],
      meters: metersOf(limits, day, -granted),
    });
    return counted;
  }

  /** The units that the account owes to a window; 0 if units of it will be taken back. */
  owedIn(accountRef: AccountRef, window: WindowKey): number {
    return Math.max(0, this.unitsIn(accountRef, window));
  }

  /** The same, below 0 if units will be taken back. */
  unitsIn(accountRef: AccountRef, window: WindowKey): number {
    const id = accountId(accountRef);
    const debts = [this.#placeOf(id).get(id), this.#moving.get(id)];
    return debts.reduce((sum, debt) => {
      return sum + (debt?.windows.find((one) => isSameWindow(one, window))?.units ?? 0);
    }, 0);
  }

  /** The decision with the units that the account owes to its windows counted. */
  countIn(accountRef: AccountRef, decision: QuotaDecision): QuotaDecision {
    const windows = decision.windows.map((usage) => {
      const owed = this.owedIn(accountRef, windowOf(usage));
      if (owed === 0) return usage;
      const { isUnknown, ...known } = usage;
      const used = usage.used + owed;
      return { ...known, used, ...(isUnknown && used < usage.limit ? { isUnknown } : {}) };
    });
    return { ...decision, windows };
  }

  /** The counts that the store told of windows, without the units that will be taken back. */
  totalsOf(accountRef: AccountRef, windows: readonly WindowUsage[]): readonly WindowTotal[] {
    return windows.map((usage) => {
      const window = windowOf(usage);
      const takenBack = Math.max(0, -this.unitsIn(accountRef, window));
      return { ...window, used: Math.max(0, usage.used - takenBack) };
    });
  }

  /** Whether units are owed to a window that the debt is about. */
  owesTo({ accountRef, windows }: AccountDebt): boolean {
    return windows.some((window) => this.owedIn(accountRef, window) > 0);
  }

  /** Takes out the debts that are due, to charge them. */
  take(): AccountDebt[] {
    const owed = this.#owed.values();
    this.#owed.clear();
    for (const debt of owed) this.#owedUnits -= debtUnits(debt);
    return owed;
  }

  /** Adds debts that were not charged to those made since. */
  restore(owed: readonly AccountDebt[]): void {
    for (const debt of owed) this.#put(debt);
  }

  /**
   * Puts back debts that cannot be charged because a slot is moving, with what their accounts come to
   * owe until `release`. They do not precede decisions.
   */
  defer(owed: readonly AccountDebt[]): void {
    for (const debt of owed) {
      const id = accountId(debt.accountRef);
      if (!this.#moving.has(id)) this.#transfer(id, () => this.#moving.set(id, undefined));
      this.#put(debt);
    }
  }

  /** Called when debts of these accounts were charged: whatever they owe is due. */
  release(charged: readonly AccountDebt[]): void {
    for (const { accountRef } of this.hasDeferred ? charged : []) {
      const id = accountId(accountRef);
      if (this.#moving.has(id)) this.#transfer(id, () => this.#moving.delete(id));
    }
  }

  /** Takes out deferred debts, the oldest first, to charge them. They stay owed until `endRetry`. */
  takeDeferred(accountsMax: number): AccountDebt[] {
    const taken = this.#deferred.values().slice(0, accountsMax);
    for (const debt of taken) {
      const id = accountId(debt.accountRef);
      this.#remove(this.#deferred, id);
      this.#moving.set(id, debt);
    }
    return taken;
  }

  /** Called when the debts that `takeDeferred` returned were charged or put back. */
  endRetry(taken: readonly AccountDebt[]): void {
    for (const { accountRef } of taken) {
      const id = accountId(accountRef);
      if (this.#deferred.get(id) === undefined) this.#moving.delete(id);
      else this.#moving.set(id, undefined);
    }
  }

  /**
   * Counts all debts as lost, with others that are not kept here, because they will not be charged any
   * more. Returns the units of each account, and those that will not be taken back.
   */
  drop(
    others: readonly AccountDebt[],
  ): Readonly<Record<"lost" | "takeBacks", readonly UncertainCharge[]>> {
    const deferred = this.takeDeferred(Number.POSITIVE_INFINITY);
    this.#moving.clear();
    const owed = [...this.take(), ...deferred, ...others];
    const lost = owed.map((each) => ({ accountRef: each.accountRef, units: this.#lose(each) }));
    return { lost, takeBacks: takeBackUnits(owed) };
  }

  #placeOf(id: string): BoundedAccounts<AccountDebt> {
    return this.#moving.has(id) ? this.#deferred : this.#owed;
  }

  /** Takes the debt of an account with it when `change` makes another place its own. */
  #transfer(id: string, change: () => void): void {
    const debt = this.#remove(this.#placeOf(id), id);
    change();
    if (debt !== undefined) this.#put(debt);
  }

  #remove(place: BoundedAccounts<AccountDebt>, id: string): AccountDebt | undefined {
    const debt = place.get(id);
    place.delete(id);
    if (debt !== undefined) this.#owedUnits -= debtUnits(debt);
    return debt;
  }

  #put(debt: AccountDebt): void {
    const id = accountId(debt.accountRef);
    const place = this.#placeOf(id);
    const before = place.get(id);
    const all = addDebts(before, debt);
    this.#owedUnits += debtUnits(all) - (before === undefined ? 0 : debtUnits(before));
    if (all.windows.length + all.days.length + all.meters.length === 0) {
      place.delete(id);
      if (this.#moving.get(id) === undefined) this.#moving.delete(id);
    } else if (before !== undefined) {
      place.replace(id, all);
    } else {
      const gone = place.add(id, all);
      if (gone === undefined) return;
      this.#moving.delete(accountId(gone.accountRef));
      this.#owedUnits -= this.#lose(gone);
    }
  }

  /** Counts a debt that was taken out as lost. Returns its units. */
  #lose(debt: AccountDebt): number {
    for (const each of debt.meters) this.#onMeterLost(debt.accountRef, each);
    const units = debtUnits(debt);
    this.#lostUnits += units;
    return units;
  }
}
