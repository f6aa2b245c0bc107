import {
  isInMotion,
  type StoreFailure,
  toStoreFailure,
  withTimeout,
} from "../../redis/store-failure.ts";
import { accountId } from "../account-ref.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { QuotaClient } from "../redis/quota-client.ts";
import {
  type AccountDebt,
  debtUnits,
  isSameWindow,
  negated,
  takeBacksOf,
  takeBackUnits,
} from "./account-debt.ts";
import type { Debts } from "./debts.ts";
import { type ChargedAccount, chargeLate, type LateChargeReply } from "./late-charge.ts";
import { type ChargedInputs, learnCharged } from "./learn-charged.ts";

type SettlementOptions = ChargedInputs & {
  readonly quotaClient: QuotaClient;
  readonly debts: Debts;
  /** Called with units that may have been charged twice. */
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

/**
 * The gateway gives up a connection that is silent for a second, and with it the calls that wait on
 * it. None of them may run after that, because their units are owed again.
 */
const CALL_MS_MAX = 1_000;

/**
 * Charges the store for requests that were admitted without it, once
 * (docs/reference/store.md#late-charges). The reply to an abandoned call may still arrive and say
 * that the call ran, so nothing is charged before that is known. A slow answer therefore charges no
 * unit twice. An answer that was lost with its connection may
 * (docs/reference/store.md#uncertain-charges).
 */
export class DebtSettlement {
  readonly #options: SettlementOptions;
  readonly #unanswered = new Set<Promise<void>>();
  #settling: Promise<number> | undefined;
  #retrying: Promise<void> | undefined;
  /** By account: debts that were taken to be charged, while the store has not answered. */
  readonly #underWay = new Map<string, AccountDebt>();
  /** The batches of the calls without an answer. */
  readonly #calls = new Set<readonly AccountDebt[]>();

  constructor(options: SettlementOptions) {
    this.#options = options;
  }

  get isUnderWay(): boolean {
    return this.#settling !== undefined;
  }

  /** The units that are owed until the store answers the call that charges them. */
  get unitsUnderWay(): number {
    return [...this.#underWay.values()].reduce((sum, debt) => sum + debtUnits(debt), 0);
  }

  /** The debts that calls charge now, which have no answer yet: no call will charge them again. */
  takeUnderWay(): AccountDebt[] {
    const debts = new Set([...this.#underWay.values(), ...[...this.#calls].flat()]);
    this.#underWay.clear();
    this.#calls.clear();
    return [...debts];
  }

  /** Whether units that a call charges now are owed to a window that the debt is about. */
  owesTo({ accountRef, windows }: AccountDebt): boolean {
    const owed = this.#underWay.get(accountId(accountRef))?.windows ?? [];
    return owed.some((one) => one.units > 0 && windows.some((each) => isSameWindow(one, each)));
  }

  /**
   * Called when no request waits for a call any more. `answered` settles when the units that the
   * call charged are no longer owed, or when the reply is known to be lost. It does not reject.
   */
  onCallTimeout(answered: Promise<void>): void {
    this.#unanswered.add(answered);
    void answered.then(() => this.#unanswered.delete(answered));
  }

  /** Charges the debts. Returns the number of charged accounts. Rejects if there was no answer. */
  settle(timeoutMs: number): Promise<number> {
    this.#settling ??= this.#chargeAll(performance.now() + timeoutMs).finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  /** Resolves when no call that charges debts is on its way, whatever came of it. */
  async idle(): Promise<void> {
    await this.#settling?.catch(() => undefined);
  }

  /**
   * Charges the debts of accounts whose slot was moving, while no request waits for it. Ends at a
   * call that finds the slot still moving. Rejects if there was no answer.
   */
  settleDeferred(timeoutMs: number): Promise<void> {
    this.#retrying ??= this.#chargeDeferred(performance.now() + timeoutMs).finally(() => {
      this.#retrying = undefined;
    });
    return this.#retrying;
  }

  /**
   * Charges debts that were taken out, or were never kept, in one call, until `endMs` on
   * performance.now() at the latest. Rejects if there was no answer. The call counts as not run then:
   * the units it would have charged are owed again. The units it would have given back are only given
   * back again if it certainly did not run.
   */
  async charge(batch: readonly AccountDebt[], endMs: number): Promise<void> {
    const { quotaClient, debts } = this.#options;
    const giveUpMs = Math.min(endMs, performance.now() + CALL_MS_MAX);
    this.#calls.add(batch);
    const reply = chargeLate(quotaClient, batch, giveUpMs);
    try {
      this.#onCharged(batch, await inTime(reply, giveUpMs));
      debts.release(batch);
    } catch (error) {
      const failure = toStoreFailure(error);
      if (isInMotion(failure) && batch.length > 1) return this.#chargeSingly(batch, endMs);
      if (isInMotion(failure)) return debts.defer(batch);
      debts.restore(batch);
      const onLost = (later: unknown) => this.#onLost(batch, toStoreFailure(later));
      const onLate = (late: LateChargeReply) => {
        debts.restore(negated(batch));
        this.#onCharged(batch, late);
      };
      if (failure.code !== "late") onLost(failure);
      else this.onCallTimeout(reply.then(onLate, onLost));
      throw error;
    } finally {
      this.#calls.delete(batch);
    }
  }

  /** Charges as many accounts in one call as fit. */
  async #chargeAll(endMs: number): Promise<number> {
    while (this.#unanswered.size > 0) await inTime(Promise.all(this.#unanswered), endMs);
    const { debts } = this.#options;
    const owed = debts.take();
    for (const debt of owed) this.#underWay.set(accountId(debt.accountRef), debt);
    let at = 0;
    try {
      while (at < owed.length) {
        const batch = owed.slice(at, at + CALL_ACCOUNTS_MAX);
        at += batch.length;
        await this.charge(batch, endMs);
        for (const { accountRef } of batch) this.#underWay.delete(accountId(accountRef));
      }
    } finally {
      this.#underWay.clear();
      debts.restore(owed.slice(at));
    }
    return owed.filter(({ accountRef }) => !debts.isDeferred(accountRef)).length;
  }

  async #chargeDeferred(endMs: number): Promise<void> {
    const { debts } = this.#options;
    let isMoving = false;
    while (debts.hasDeferred && !isMoving) {
      const batch = debts.takeDeferred(CALL_ACCOUNTS_MAX);
      if (batch.length === 0) return;
      try {
        await this.charge(batch, endMs);
      } finally {
        debts.endRetry(batch);
      }
      isMoving = batch.some(({ accountRef }) => debts.isDeferred(accountRef));
    }
  }

  /**
   * While a slot of a Cluster moves, its accounts are on both nodes, and so may be the hashes of one
   * account. Such an account stays owed, and keeps no other from being charged.
   */
  async #chargeSingly(batch: readonly AccountDebt[], endMs: number): Promise<void> {
    const charges = batch.map((debt) => this.charge([debt], endMs));
    for (const ended of await Promise.allSettled(charges)) {
      if (ended.status === "rejected") throw ended.reason;
    }
  }

  #onCharged(batch: readonly AccountDebt[], { nowMs, accounts }: LateChargeReply): void {
    for (const [i, debt] of batch.entries()) {
      learnCharged(this.#options, debt, accounts[i] as ChargedAccount, nowMs);
    }
  }

  /**
   * Called when a call will have no answer any more. If it may have run, it is uncertain whether its
   * units were charged or taken back, and no unit is taken back once more
   * (docs/reference/store.md#late-answers).
   */
  #onLost(batch: readonly AccountDebt[], { code, executed }: StoreFailure): void {
    // The script uses every other right before it charges anything.
    if (code === "NOPERM" || executed === "no") return;
    const { debts, onSettlementLost, onUncertain } = this.#options;
    const takeBacks = takeBacksOf(batch);
    debts.restore(negated(takeBacks));
    for (const { accountRef, meters } of takeBacks) {
      for (const each of meters) onSettlementLost(accountRef, each);
    }
    const charges = [...batch.map(chargeOf), ...takeBackUnits(batch)];
    const some = charges.filter(({ units, meters = [] }) => units > 0 || meters.length > 0);
    if (some.length > 0) onUncertain(some);
  }
}

function inTime<T>(answer: Promise<T>, giveUpMs: number): Promise<T> {
  return withTimeout(answer, Math.max(0, giveUpMs - performance.now()));
}

/** The units of an account that are charged, without those that are taken back. */
function chargeOf(debt: AccountDebt): UncertainCharge {
  const meters = debt.meters
    .filter(({ units }) => units > 0)
    .map(({ meter, units }) => ({ name: meter, units }));
  const charge = { accountRef: debt.accountRef, units: debtUnits(debt) };
  return meters.length > 0 ? { ...charge, meters } : charge;
}
