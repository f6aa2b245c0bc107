import type { Ask } from "../../core/quota/decide.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import type {
  AccountName,
  Answer,
  FailurePolicy,
  NoAnswer,
  QuotaStore,
} from "../interface/quota-store.ts";
import { orLate, type StoreFailure } from "../interface/store-failure.ts";
import type { SharedStore } from "../redis/decider.ts";
import { translate } from "../redis/reply-errors.ts";
import type { Owed } from "./debts.ts";
import type { Heartbeat } from "./heartbeat.ts";
import { lateCharge } from "./late-charge.ts";
import { LocalAccounts, type Terms } from "./local-quotas.ts";

/** The state that the breakers of one store share. */
export type BreakerContext = {
  readonly shared: SharedStore;
  readonly store: Pick<QuotaStore, "lastKnown">;
  readonly heart: Pick<Heartbeat, "gateways">;
  readonly policy: () => FailurePolicy;
  /** The store's now, in Unix milliseconds, as far as it is known. */
  readonly now: () => number;
  /** The store's test clock. */
  readonly clock: (() => number) | undefined;
};

const FAILURES_MAX = 5;
const CHARGE_LATE_MS = 2_000;

/**
 * A part of the store that can be away by itself: a bucket of a Cluster, else all of it. Says
 * whether requests go there, decides them while they do not, and keeps what is owed for that.
 */
export class Breaker {
  readonly #around: BreakerContext;
  readonly #accounts: LocalAccounts;
  #failuresInRow = 0;
  /**
   * The first failure of an absence tells more than later ones: READONLY, then a connection made
   * anew.
   */
  #first: StoreFailure | undefined;
  #wentMs: number;
  #gatewaysThen = 1;
  /** Why it is away; undefined while it is not. */
  #why: string | undefined;

  constructor(around: BreakerContext, accountsMax: number) {
    this.#around = around;
    this.#accounts = new LocalAccounts(accountsMax);
    this.#wentMs = around.now();
  }

  get isTripped(): boolean {
    return this.#why !== undefined;
  }

  get why(): string | undefined {
    return this.#why;
  }

  decide(name: AccountName, ask: Ask): Answer | NoAnswer {
    switch (this.#around.policy().onStoreFailure) {
      case "deny":
        return { unavailable: true };
      case "allow": {
        const verdict = this.#accounts.admit(name, ask, this.#terms(name));
        return { verdict, unspent: 0, admitted: true, by: "local" };
      }
      case "local": {
        const verdict = this.#accounts.decide(name, ask, this.#terms(name));
        if (verdict === undefined) return { unavailable: true };
        const answer = { verdict, unspent: 0, admitted: verdict.granted > 0, by: "local" } as const;
        return verdict.earned === undefined ? answer : { ...answer, earned: verdict.earned };
      }
    }
  }

  /**
   * Told of the end of a call: `failure` is undefined when it was answered. Gives true when it
   * failed once too often.
   */
  called(failure: StoreFailure | undefined): boolean {
    if (failure === undefined) {
      this.#failuresInRow = 0;
      if (this.#accounts.debts.any && !this.isTripped) this.settle().catch(() => undefined);
      return false;
    }
    if (this.#failuresInRow === 0 && !this.isTripped) this.#begin(failure);
    this.#failuresInRow += 1;
    return this.#failuresInRow >= FAILURES_MAX && !this.isTripped;
  }

  /** From now on nobody waits for the store. Returns the failure that the absence began with. */
  trip(failure: StoreFailure): StoreFailure {
    if (this.#failuresInRow === 0) this.#begin(failure);
    const began = this.#first as StoreFailure;
    this.#why = began.message;
    return began;
  }

  /** It is still away, for this reason. */
  remains(failure: StoreFailure): void {
    this.#why = failure.message;
  }

  /**
   * Charges what is owed so far, then lets requests through. The units that were admitted meanwhile
   * are sent ahead of them on the same connection, so that they are decided with all of it counted.
   */
  async recover(): Promise<number> {
    const accountsCharged = await this.settle();
    this.#why = undefined;
    this.#failuresInRow = 0;
    this.#first = undefined;
    this.#accounts.forget();
    for (const batch of this.#takeOwed()) this.#charge(batch).catch(() => undefined);
    return accountsCharged;
  }

  /** Charges what is owed; returns of how many accounts. Rejects where there was no answer. */
  async settle(): Promise<number> {
    const batches = this.#takeOwed();
    for (const [i, batch] of batches.entries()) {
      try {
        await this.#charge(batch);
      } catch (error) {
        this.#accounts.debts.restore(batches.slice(i + 1).flat());
        throw error;
      }
    }
    return batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  /** The first failure after an answer: an absence begins, with shares of its own. */
  #begin(failure: StoreFailure): void {
    this.#first = failure;
    this.#wentMs = this.#around.now();
    this.#gatewaysThen = this.#around.heart.gateways();
    this.#accounts.forget();
  }

  /** As many accounts as fit in a call. */
  #takeOwed(): Owed[][] {
    const owed = this.#accounts.debts.take();
    const batches: Owed[][] = [];
    for (let i = 0; i < owed.length; i += CALL_ACCOUNTS_MAX) {
      batches.push(owed.slice(i, i + CALL_ACCOUNTS_MAX));
    }
    return batches;
  }

  /** A call without an answer may have been executed: it is never sent again. */
  async #charge(batch: readonly Owed[]): Promise<void> {
    const { shared, clock } = this.#around;
    try {
      const counts = await orLate(lateCharge(shared, batch, clock), CHARGE_LATE_MS);
      for (const [i, owed] of batch.entries()) {
        this.#accounts.charged(owed, counts[i] as (number | undefined)[]);
      }
    } catch (error) {
      if (translate(error).executed === "no") this.#accounts.debts.restore(batch);
      throw error;
    }
  }

  #terms(name: AccountName): Terms {
    const { now, policy, store } = this.#around;
    return {
      nowMs: now(),
      wentMs: this.#wentMs,
      gateways: Math.max(policy().expectedGateways, this.#gatewaysThen),
      last: store.lastKnown(name),
    };
  }
}
