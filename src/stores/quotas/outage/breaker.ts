import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import { type StoreFailure, toStoreFailure } from "../../redis/store-failure.ts";
import type { DecisionCache } from "../batch/decision-cache.ts";
import type { UncertainCharge } from "../outage-handler.ts";
import type { AccountRef, ChargeResult, FailurePolicy, StoreUnavailable } from "../quota-store.ts";
import type { QuotaClient } from "../redis/quota-client.ts";
import type { Heartbeat } from "./heartbeat.ts";
import { LocalQuotas, type OutageContext } from "./local-quotas.ts";
import { DebtSettlement } from "./settlement.ts";

/** The state that the breakers of one store share. */
export type BreakerContext = {
  readonly shared: QuotaClient;
  readonly answers: DecisionCache;
  readonly heart: Pick<Heartbeat, "gateways">;
  policy: FailurePolicy;
  /** The store's test clock. */
  readonly clock: (() => number) | undefined;
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

/**
 * Gateways that may have admitted shares and not charged them yet. `sinceMs`, of the clock of bucket
 * 0: when the store was seen to be back. A gateway with no debt from before that instant has none
 * from this absence; one that had none earlier may still have asked in vain.
 */
type PeerShares = { sinceMs: number; pending: number; untilMs: number };

/** The store is not back yet: later than any heartbeat. */
const NOT_BACK_MS = Number.MAX_SAFE_INTEGER;

/** A gateway that is not back by then has died, and its shares with it. */
const OTHERS_MS_MAX = 5_000;
const FAILURES_MAX = 5;
/** As long as this a charge may take while no request waits for it. */
const CHARGE_LATE_MS = 2_000;

/**
 * A part of the store that can be away by itself: a bucket of a Cluster, else all of it. Says
 * whether requests go there, decides them while they do not, and keeps what is owed for that.
 */
export class CircuitBreaker {
  readonly #context: BreakerContext;
  readonly #bucket: number;
  readonly #accounts: LocalQuotas;
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
  /** The absence goes on until an answer, or until all that is owed for it is charged. */
  #isAbsent = false;
  #others: PeerShares | undefined;
  /** The same, left over from the absence before this one. */
  #pendingBefore = 0;
  #preparing: Promise<void> | undefined;
  readonly #settlement: DebtSettlement;

  constructor(context: BreakerContext, bucket: number, accountsMax: number) {
    this.#context = context;
    this.#bucket = bucket;
    this.#accounts = new LocalQuotas(accountsMax);
    const { shared, onUncertain } = context;
    this.#settlement = new DebtSettlement({ shared, accounts: this.#accounts, onUncertain });
    this.#wentMs = this.#now();
  }

  get isTripped(): boolean {
    return this.#why !== undefined;
  }

  get why(): string | undefined {
    return this.#why;
  }

  get lostUnits(): number {
    return this.#accounts.debts.lostUnits;
  }

  decide(name: AccountRef, ask: QuotaRequest): ChargeResult | StoreUnavailable {
    switch (this.#context.policy.onStoreFailure) {
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

  /** See OutageHandler.prepare. */
  prepare(): Promise<void> | undefined {
    const { shared } = this.#context;
    const isReady =
      shared.isTimed(this.#bucket) && !this.#accounts.debts.any && !this.#settlement.isUnderWay;
    if (isReady) return this.#preparing;
    this.#preparing ??= this.#prepare().finally(() => {
      this.#preparing = undefined;
    });
    return this.#preparing;
  }

  /**
   * Told of the end of a call: `failure` is undefined when it was answered. Gives true when it
   * failed once too often.
   */
  onCallEnd(failure: StoreFailure | undefined): boolean {
    if (failure === undefined) {
      this.#failuresInRow = 0;
      this.#isAbsent = false;
      this.#awaitOthers();
      if (!this.isTripped) this.prepare()?.catch(() => undefined);
      return false;
    }
    // The server behind the next connection may be another one, with a clock of its own.
    if (failure.code === "unreachable") this.#context.shared.clockOf(this.#bucket).forget();
    if (!this.#isAbsent && !this.isTripped) this.#begin(failure);
    this.#failuresInRow += 1;
    return this.#failuresInRow >= FAILURES_MAX && !this.isTripped;
  }

  /** From now on nobody waits for the store. Returns the failure that the absence began with. */
  trip(failure: StoreFailure): StoreFailure {
    if (!this.#isAbsent) this.#begin(failure);
    const began = this.#first as StoreFailure;
    this.#why = began.message;
    return began;
  }

  /** It is still away, for this reason. */
  updateReason(failure: StoreFailure): void {
    this.#why = failure.message;
  }

  /**
   * Charges what is owed so far, then lets requests through. The units that were admitted meanwhile
   * are charged ahead of the first of them. Gives the accounts that were charged.
   */
  async recover(): Promise<number> {
    const accountsCharged = await this.settle();
    this.#why = undefined;
    this.#failuresInRow = 0;
    this.#isAbsent = false;
    this.#first = undefined;
    this.#awaitOthers();
    if (this.#others === undefined) this.#accounts.forget();
    return accountsCharged;
  }

  /** Charges what is owed; returns of how many accounts. Rejects where there was no answer. */
  settle(timeoutMs = CHARGE_LATE_MS): Promise<number> {
    return this.#settlement.settle(timeoutMs);
  }

  /** See CallObserver.onCallTimeout. */
  onCallTimeout(answered: Promise<void>): void {
    this.#settlement.onCallTimeout(answered);
  }

  /** Forgets the debts for good; gives their units. */
  drop(): number {
    return this.#accounts.debts.drop();
  }

  /** Whether nothing is owed, and nothing can be admitted here but by the store. */
  get isSettled(): boolean {
    return !this.isTripped && !this.#accounts.debts.any && !this.#settlement.isUnderWay;
  }

  /** Whether other gateways may have admitted what they have not charged. */
  get awaitsPeers(): boolean {
    return this.#others !== undefined;
  }

  /**
   * When the store was seen to be back, while other gateways may have admitted what they have not
   * charged; undefined where there is nothing to wait for, or the store is not back.
   */
  get peersSinceMs(): number | undefined {
    const sinceMs = this.#others?.sinceMs;
    return sinceMs === NOT_BACK_MS ? undefined : sinceMs;
  }

  /** So many gateways, this one too, owe nothing that is older than `sinceMs`. */
  onPeersSettled(settled: number, sinceMs: number): void {
    if (this.isSettled) this.#isAbsent = false;
    if (this.#others === undefined) return;
    this.#awaitOthers();
    // The heartbeat that counted them was sent before this absence was over.
    if (sinceMs < this.#others.sinceMs) return;
    this.#others.pending = Math.max(0, this.#gatewaysThen - settled);
    if (this.#others.pending > 0 && performance.now() < this.#others.untilMs) return;
    this.#others = undefined;
    if (!this.#isAbsent && !this.isTripped) this.#accounts.forget();
  }

  /** See OutageHandler.limitsFor. */
  limitsFor(name: AccountRef, limits: readonly Limit[]): readonly Limit[] {
    if (this.#others === undefined) return limits;
    return this.#accounts.limitsBesidePeers(name, limits, this.#others.pending, this.#terms(name));
  }

  /** The store is back: the others have from now on so long to come back too. */
  #awaitOthers(): void {
    if (this.#others === undefined || this.#others.sinceMs !== NOT_BACK_MS) return;
    this.#others.sinceMs = this.#context.shared.clockOf(0).now();
    this.#others.untilMs = performance.now() + OTHERS_MS_MAX;
  }

  /** See CallObserver.onLateDecision. */
  onLateDecision(name: AccountRef, verdict: QuotaDecision, units: number): number {
    const admitted = { requests: verdict.granted, units };
    return this.#accounts.onLateDecision(name, verdict.windows, admitted);
  }

  async #prepare(): Promise<void> {
    const { shared, policy } = this.#context;
    const { storeTimeoutMs } = policy;
    await shared.ensureClock(this.#bucket, storeTimeoutMs)?.catch(rejectAsFailure);
    if (this.#accounts.debts.any || this.#settlement.isUnderWay) {
      await this.settle(storeTimeoutMs).catch(rejectAsFailure);
    }
  }

  /** The first failure after an answer: an absence begins, with shares of its own. */
  #begin(failure: StoreFailure): void {
    const { heart, policy } = this.#context;
    this.#first = failure;
    this.#isAbsent = true;
    this.#wentMs = this.#now();
    this.#gatewaysThen = heart.gateways();
    this.#accounts.forget();
    this.#pendingBefore = this.#others?.pending ?? 0;
    const pending = policy.onStoreFailure === "local" ? this.#gatewaysThen - 1 : 0;
    const untilMs = Number.POSITIVE_INFINITY;
    this.#others = pending > 0 ? { sinceMs: NOT_BACK_MS, pending, untilMs } : undefined;
  }

  #now(): number {
    const { clock, shared } = this.#context;
    return clock?.() ?? shared.clockOf(this.#bucket).now();
  }

  #terms(name: AccountRef): OutageContext {
    const { policy, answers } = this.#context;
    return {
      nowMs: this.#now(),
      wentMs: this.#wentMs,
      gateways: Math.max(policy.expectedGateways, this.#gatewaysThen),
      last: answers.lastCounted(name),
      pending: this.#pendingBefore,
    };
  }
}

function rejectAsFailure(error: unknown): never {
  throw toStoreFailure(error);
}
