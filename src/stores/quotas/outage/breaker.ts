import type { QuotaRequest } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import { isInMotion, type StoreFailure, toStoreFailure } from "../../redis/store-failure.ts";
import type { AccountRef } from "../account-ref.ts";
import type { UncertainCharge } from "../charge-reports.ts";
import type { ChargeResult, FailurePolicy, StoreUnavailable } from "../quota-store.ts";
import type { FallbackInputs } from "../redis/quota-store-options.ts";
import type { AccountDebt } from "./account-debt.ts";
import type { Debts } from "./debts.ts";
import type { Heartbeat, Peers } from "./heartbeat.ts";
import { KnownAccounts } from "./known-accounts.ts";
import { LocalQuotas, type OutageContext } from "./local-quotas.ts";
import { OutagePeers } from "./outage-peers.ts";
import { DebtSettlement } from "./settlement.ts";

/** The state that the circuit breakers of one store share. */
export type BreakerContext = FallbackInputs & {
  readonly heartbeat: Pick<Heartbeat, "gateways" | "peers">;
  policy: FailurePolicy;
  /** The store's test clock. */
  readonly clock: (() => number) | undefined;
};

const FAILURES_MAX = 5;
/** How long a charge may take while no request waits for it. */
const CHARGE_LATE_MS = 2_000;
/** How long a gateway that ends tries to charge its debts to a store that was unreachable. */
const CHARGE_AWAY_MS = 500;

/**
 * The circuit breaker of a part of the store that can fail on its own: one bucket on a Cluster,
 * otherwise the whole store. Says whether requests are sent there, decides them while they are not,
 * and keeps the debts of that time.
 */
export class CircuitBreaker {
  readonly #context: BreakerContext;
  readonly #bucket: number;
  readonly #localQuotas: LocalQuotas;
  readonly #debts: Debts;
  readonly known: KnownAccounts;
  readonly #settlement: DebtSettlement;
  #failuresInRow = 0;
  /**
   * The failure that began the outage; undefined if none goes on. An outage lasts until an answer, or
   * until all of its debts are charged. Its first failure says more than later ones: for example
   * READONLY, and then a new connection that cannot be made.
   */
  #began: StoreFailure | undefined;
  /** Why no request is sent to the store; undefined if requests are. */
  #why: string | undefined;
  readonly #peers: OutagePeers;
  #preparing: Promise<void> | undefined;

  constructor(context: BreakerContext, bucket: number, accountsMax: number) {
    this.#context = context;
    this.#bucket = bucket;
    this.#peers = new OutagePeers(context);
    const { quotaClient, decisionCache, onUncertain, corrections } = context;
    this.#localQuotas = new LocalQuotas(accountsMax, corrections.onSettlementLost);
    this.known = new KnownAccounts({
      ...{ decisionCache, corrections, localQuotas: this.#localQuotas },
      mode: () => this.#outageMode(),
      outageContext: (accountRef) => this.#outageContext(accountRef),
    });
    const { debts } = this.#localQuotas;
    this.#debts = debts;
    this.#settlement = new DebtSettlement({
      ...{ quotaClient, debts, decisionCache, onUncertain },
      ...corrections,
    });
  }

  get isTripped(): boolean {
    return this.#why !== undefined;
  }

  get why(): string | undefined {
    return this.#why;
  }

  get lostUnits(): number {
    return this.#debts.lostUnits;
  }

  get owedUnits(): number {
    return this.#debts.owedUnits + this.#settlement.unitsUnderWay;
  }

  decide(accountRef: AccountRef, quotaRequest: QuotaRequest): ChargeResult | StoreUnavailable {
    const { policy, decisionCache } = this.#context;
    if (policy.onStoreFailure === "deny") return { unavailable: true };
    const context = this.#outageContext(accountRef);
    if (policy.onStoreFailure === "allow") {
      const decision = this.#localQuotas.admit(accountRef, quotaRequest, context);
      return { decision, requestsAfter: 0, admitted: true, by: "local" };
    }
    const { decision, outcome } = this.#localQuotas.decide(accountRef, quotaRequest, context);
    const admitted = outcome === "admitted";
    const by = outcome === "share" ? "share" : "local";
    const answer = { decision, requestsAfter: 0, admitted, by } as const;
    const { newBan: earned, ban, nowMs } = decision;
    if (earned === undefined) return answer;
    // The shares, and what they decided, are dropped after the outage: the ban lasts longer.
    if (ban !== undefined) decisionCache.learnBan(accountRef, ban, nowMs);
    return { ...answer, earned };
  }

  /** See OutageHandler.prepare. */
  prepare(): Promise<void> | undefined {
    const { quotaClient } = this.#context;
    const isReady =
      quotaClient.knowsClock(this.#bucket) && !this.#debts.isDue && !this.#settlement.isUnderWay;
    if (isReady) return this.#preparing;
    this.#preparing ??= this.#prepare().finally(() => {
      this.#preparing = undefined;
    });
    return this.#preparing;
  }

  /**
   * Called when a call ends. `failure` is undefined if the store replied. Returns true if this
   * failure reaches the limit of failures in a row.
   */
  onCallEnd(failure: StoreFailure | undefined): boolean {
    if (failure === undefined) {
      this.#failuresInRow = 0;
      this.#onStoreBack();
      if (!this.isTripped) this.prepare()?.catch(() => undefined);
      return false;
    }
    // The server behind the next connection may be a different one with a different clock.
    if (failure.code === "unreachable" || failure.code === "unreadable")
      this.#context.quotaClient.clockOf(this.#bucket).forget();
    if (this.#began === undefined && !this.isTripped) this.#begin(failure);
    if (this.#began !== undefined && isInMotion(this.#began)) this.#began = failure;
    // A store that says that a slot is moving answers, and decides the other accounts of the bucket.
    this.#failuresInRow = isInMotion(failure) ? 0 : this.#failuresInRow + 1;
    return this.#failuresInRow >= FAILURES_MAX && !this.isTripped;
  }

  /** Trips: no request waits for the store any more. Returns the failure that began the outage. */
  trip(failure: StoreFailure): StoreFailure {
    if (this.#began === undefined) this.#begin(failure);
    const began = this.#began as StoreFailure;
    this.#why = began.message;
    return began;
  }

  /** Called when the store is still unreachable, for this reason. */
  updateReason(failure: StoreFailure): void {
    this.#why = failure.message;
  }

  /**
   * Charges the debts, then lets requests through. The units that are admitted during that are
   * charged ahead of the first of them. Returns the number of accounts that were charged.
   */
  async recover(): Promise<number> {
    const accountsCharged = await this.#settlement.settle(CHARGE_LATE_MS);
    this.#why = undefined;
    this.#failuresInRow = 0;
    this.#onStoreBack();
    this.#endIfSettled();
    return accountsCharged;
  }

  /** Charges all that is owed, because nothing follows. A call on its way may have less time. */
  async settleLast(): Promise<void> {
    const timeoutMs = this.isTripped ? CHARGE_AWAY_MS : CHARGE_LATE_MS;
    await this.#settlement.idle();
    await this.#settlement.settle(timeoutMs);
    await this.settleIdle();
  }

  /** Charges what is owed without a request that waits for it. */
  async settleIdle(): Promise<void> {
    await this.prepare();
    await this.#settlement.settleDeferred(this.#context.policy.storeTimeoutMs);
  }

  /**
   * Settles what requests used of their meters. While the store is unreachable, and if the holds
   * themselves are still owed, the settlements go with the other debts: a hold whose call fails is
   * charged later, and the store takes back no units that it has not charged.
   */
  async settleMeters(batch: readonly AccountDebt[]): Promise<void> {
    // Ahead of the call, which may have no answer: what was used is known already.
    this.#localQuotas.settleShares(batch);
    const { kept = [], sent = [] } = Object.groupBy(batch, (debt) => {
      const isOwed = this.#debts.owesTo(debt) || this.#settlement.owesTo(debt);
      const isKept = this.isTripped || isOwed || this.#debts.isDeferred(debt.accountRef);
      return isKept ? "kept" : "sent";
    });
    this.#debts.restore(kept);
    if (sent.length === 0) return;
    const endSettling = this.#context.decisionCache.settlingMeters.begin(sent);
    // Debts of a call that fails are kept, and charged before the next decision.
    const endMs = performance.now() + CHARGE_LATE_MS;
    await this.#settlement.charge(sent, endMs).catch(() => undefined);
    endSettling();
  }

  /** See OutageHandler.onCallTimeout. */
  onCallTimeout(answered: Promise<void>): void {
    this.#settlement.onCallTimeout(answered);
  }

  /**
   * Drops the debts for good, with those that no call has taken yet; returns the units of each account
   * that are not charged. Those that are not taken back are reported as uncertain.
   */
  drop(unsent: readonly AccountDebt[]): readonly UncertainCharge[] {
    const others = [...this.#settlement.takeUnderWay(), ...unsent];
    const { lost, takeBacks } = this.#debts.drop(others);
    if (takeBacks.length > 0) this.#context.onUncertain(takeBacks);
    return lost;
  }

  /** Called when the policy has changed. */
  onPolicy(): void {
    this.#peers.onPolicy();
  }

  /** Whether there are no debts, and requests can only be admitted by the store. */
  get isSettled(): boolean {
    return !this.isTripped && !this.#debts.hasAny && !this.#settlement.isUnderWay;
  }

  /** Whether other gateways may have admitted requests that they have not charged. */
  get awaitsPeers(): boolean {
    return this.#peers.pending > 0;
  }

  /**
   * Called with the answer to a heartbeat, which says what debts the other gateways have. While this
   * bucket is away, one that owes nothing may still admit requests from its share.
   */
  onHeartbeat(peers: Peers): void {
    if (this.isTripped) {
      // Requests admitted until now stay counted, and are not part of the new shares.
      if (this.#peers.recount()) this.#localQuotas.beginOutage();
      return;
    }
    if (this.isSettled) this.#onStoreBack();
    this.#peers.onHeartbeat(peers);
    this.#endIfSettled();
  }

  /** See OutageHandler.reservedFor. */
  reservedFor(accountRef: AccountRef, limits: readonly Limit[]): readonly number[] | undefined {
    const { pending } = this.#peers;
    if (pending === 0 && !this.#debts.isDeferred(accountRef)) return undefined;
    return this.#localQuotas.reservedFor(
      accountRef,
      limits,
      pending,
      this.#outageContext(accountRef),
    );
  }

  #onStoreBack(): void {
    this.#began = undefined;
    this.#peers.onStoreBack(this.#context.quotaClient.clockOf(0).now());
  }

  /** Shares belong to one outage, and stay while any gateway may have debts from its own. */
  #endIfSettled(): void {
    if (this.#began !== undefined || !this.isSettled || this.#peers.pending > 0) return;
    this.#peers.end();
    this.#localQuotas.endOutage();
  }

  async #prepare(): Promise<void> {
    const { quotaClient, policy } = this.#context;
    const { storeTimeoutMs } = policy;
    await quotaClient.ensureClock(this.#bucket, storeTimeoutMs)?.catch(rejectAsFailure);
    if (this.#debts.isDue || this.#settlement.isUnderWay) {
      await this.#settlement.settle(storeTimeoutMs).catch(rejectAsFailure);
    }
  }

  /**
   * Called on the first failure after an answer: an outage begins, with shares of its own. While debts
   * of the one before cannot be charged because their slot is moving, its shares stay those of this
   * one: with new ones for each answer between, a gateway could admit a whole limit.
   */
  #begin(failure: StoreFailure): void {
    this.#began = failure;
    const isHeld = this.#peers.isCurrent && this.#debts.hasDeferred;
    if (isHeld && isInMotion(failure)) return;
    const isAwaited = this.#peers.begin();
    if (isHeld) return;
    if (isAwaited) this.#localQuotas.beginOutage();
    else this.#localQuotas.endOutage();
  }

  /** See KnownAccountsOptions.mode. */
  #outageMode(): "local" | "allow" | undefined {
    const { onStoreFailure } = this.#context.policy;
    const isOutage = this.isTripped || this.#began !== undefined;
    return onStoreFailure === "deny" || !isOutage ? undefined : onStoreFailure;
  }

  #outageContext(accountRef: AccountRef): OutageContext {
    const { clock, quotaClient, decisionCache } = this.#context;
    const storeClock = quotaClient.clockOf(this.#bucket);
    return {
      nowMs: clock?.() ?? storeClock.now(),
      latestMs: clock?.() ?? storeClock.latestNow(),
      gateways: this.#peers.gateways,
      pendingBefore: this.#peers.pendingBefore,
      knownCount: (counter, startMs) => decisionCache.countOf(accountRef, counter, startMs),
    };
  }
}

function rejectAsFailure(error: unknown): never {
  throw toStoreFailure(error);
}
