import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { BUCKET_COUNT } from "../../redis/hash-slots.ts";
import { type StoreFailure, toStoreFailure } from "../../redis/store-failure.ts";
import { type AccountRef, bucketOf } from "../account-ref.ts";
import { reportLostCharges } from "../charge-reports.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type {
  AccountRequest,
  ChargeResult,
  FailurePolicy,
  StoreUnavailable,
} from "../quota-store.ts";
import type { QuotaClient } from "../redis/quota-client.ts";
import type { FallbackInputs } from "../redis/quota-store-options.ts";
import { type BreakerContext, CircuitBreaker } from "./breaker.ts";
import { createHeartbeat, type Heartbeat } from "./heartbeat.ts";
import { OutageReports } from "./outage-reports.ts";
import { SettlementQueues, settlementDebt } from "./settlement-queues.ts";

/** An outage handler that always knows whether the store is unreachable. */
export interface Fallback extends OutageHandler {
  health(): { readonly ok: boolean; readonly why?: string };
}

export type FallbackOptions = {
  readonly policy: FailurePolicy;
  readonly prefix: string;
  readonly report: Reporter;
  /** The store's test clock; default: the clock of its last answer. */
  readonly now?: (() => number) | undefined;
  /** The most accounts that are decided here, in all breakers together. */
  readonly accountsMax?: number;
};

/** This many heartbeats missed in a row count as an outage, even if there is no request. */
const BEATS_MISSED_MAX = 2;
const BEAT_MS = 1_000;
const BEAT_LATE_MS = 500;
const PROBE_MS = 500;
/** The pause between heartbeats while gateways wait for each other to charge their debts. */
const SETTLE_MS = 100;
const ACCOUNTS_MAX = 100_000;

/**
 * Decides while the store is unreachable (docs/reference/store.md#away). A breaker trips after five
 * failures in a row. From then on no request waits for the store. A probe every 500 ms finds out
 * when the store is back; it writes, and waits no longer than a request does. Before the breaker
 * closes, the units that were admitted here are charged, once, each to its own window. On a Cluster
 * each bucket has its own breaker: requests of a tripped one are decided here, the others by the
 * store.
 */
export function createFallback(inputs: FallbackInputs, options: FallbackOptions): Fallback {
  return new StoreFallback(inputs, options);
}

class StoreFallback implements Fallback {
  readonly #quotaClient: QuotaClient;
  readonly #options: FallbackOptions;
  readonly #heartbeat: Heartbeat;
  readonly #context: BreakerContext;
  /** By bucket. Without a Cluster there is only the one of bucket 0. */
  readonly #breakers: readonly CircuitBreaker[];
  readonly #settlements = new SettlementQueues((batch, bucket) => {
    return this.#breaker(bucket).settleMeters(batch);
  });
  readonly #reports: OutageReports;
  /** By bucket: the number of heartbeats in a row that had no answer. */
  readonly #beatsMissed = new Map<number, number>();
  /** The buckets whose probe is under way. One heartbeat may begin before the last has ended. */
  readonly #probed = new Set<number>();
  #timer: NodeJS.Timeout | undefined;
  #hastened = false;
  #closed = false;
  #dropped = false;

  constructor(
    { quotaClient, decisionCache, onUncertain, corrections }: FallbackInputs,
    options: FallbackOptions,
  ) {
    const { now: clock, policy, prefix, accountsMax = ACCOUNTS_MAX } = options;
    this.#quotaClient = quotaClient;
    this.#options = options;
    const heartbeat = createHeartbeat(quotaClient, prefix);
    this.#heartbeat = heartbeat;
    this.#context = {
      quotaClient,
      decisionCache,
      heartbeat,
      policy,
      clock,
      onUncertain,
      corrections,
    };
    const count = quotaClient.link.clustered ? BUCKET_COUNT : 1;
    this.#breakers = Array.from({ length: count }, (_, bucket) => {
      return new CircuitBreaker(this.#context, bucket, accountsMax / count);
    });
    this.#reports = new OutageReports({
      report: options.report,
      link: quotaClient.link,
      mode: () => this.#context.policy.onStoreFailure,
      lostUnits: () => this.lostUnits(),
    });
    void quotaClient.link.tried.then(() => this.#start());
  }

  get timeoutMs(): number {
    return this.#context.policy.storeTimeoutMs;
  }

  get admitsShares(): boolean {
    return this.#context.policy.onStoreFailure === "local";
  }

  reconfigure(policy: FailurePolicy): void {
    this.#context.policy = policy;
    for (const breaker of this.#breakers) breaker.onPolicy();
  }

  isAway(bucket: number): boolean {
    return this.#breaker(bucket).isTripped;
  }

  prepare(bucket: number): Promise<void> | undefined {
    return this.#breaker(bucket).prepare();
  }

  reservedFor(bucket: number, accountRef: AccountRef, limits: readonly Limit[]) {
    return this.#breaker(bucket).reservedFor(accountRef, limits);
  }

  decide(accountRef: AccountRef, quotaRequest: QuotaRequest): ChargeResult | StoreUnavailable {
    return this.#breakerOf(accountRef).decide(accountRef, quotaRequest);
  }

  withOwed(accountRef: AccountRef, refused: ChargeResult): ChargeResult {
    return this.#breakerOf(accountRef).known.withOwed(accountRef, refused);
  }

  settle(...settlement: Parameters<OutageHandler["settle"]>): void {
    if (settlement[2].length === 0) return;
    const bucket = this.#quotaClient.link.clustered ? bucketOf(settlement[0]) : 0;
    const debt = settlementDebt(...settlement);
    // No call is sent that others could join, and the share has room again from now on.
    if (this.isAway(bucket)) void this.#breaker(bucket).settleMeters([debt]);
    else this.#settlements.add(bucket, debt);
  }

  onCallTimeout(bucket: number, answered: Promise<void>): void {
    this.#breaker(bucket).onCallTimeout(answered);
  }

  onLateDecision(request: AccountRequest, decision: QuotaDecision): void {
    this.#breakerOf(request.accountRef).known.onLateDecision(request, decision);
  }

  lastKnown(...[accountRef, ...known]: Parameters<OutageHandler["lastKnown"]>) {
    return this.#breakerOf(accountRef).known.lastKnown(accountRef, ...known);
  }

  onReading(accountRef: AccountRef, decision: QuotaDecision): void {
    this.#breakerOf(accountRef).known.onReading(accountRef, decision);
  }

  lostUnits(): number {
    return this.#breakers.reduce((sum, { lostUnits }) => sum + lostUnits, 0);
  }

  owedUnits(): number {
    return this.#breakers.reduce((sum, { owedUnits }) => sum + owedUnits, 0);
  }

  onCallEnd(bucket: number, failure: StoreFailure | undefined): void {
    if (failure !== undefined) this.#settleSoon();
    if (this.#breaker(bucket).onCallEnd(failure) && failure !== undefined)
      this.#trip(bucket, failure);
  }

  health(): { readonly ok: boolean; readonly why?: string } {
    const away = this.#away();
    const why = away[0] === undefined ? undefined : this.#breaker(away[0]).why;
    if (why === undefined) return { ok: true };
    const clustered = this.#quotaClient.link.clustered;
    const where = clustered ? `buckets ${away.join(", ")} of ${BUCKET_COUNT} are away: ` : "";
    return { ok: false, why: `${where}${why}` };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#reports.tellUntold();
    await this.#settlements.finish();
    await Promise.allSettled(this.#breakers.map((breaker) => breaker.settleLast()));
    this.dropOwed();
    await this.#heartbeat.leave();
  }

  /** Units that are owed again because a call fails afterwards were told by then. */
  dropOwed(): void {
    if (this.#dropped) return;
    this.#dropped = true;
    this.#reports.tellForgotten();
    reportLostCharges(
      this.#options.report,
      this.#breakers.flatMap((breaker, bucket) => breaker.drop(this.#settlements.take(bucket))),
    );
  }

  /**
   * Heartbeats soon: other gateways wait for the one that says that all debts of this outage are
   * charged.
   */
  #settleSoon(): void {
    if (this.#hastened || this.#heartbeat.gateways() === 1 || !this.admitsShares) return;
    this.#hastened = true;
    this.#scheduleHeartbeat(SETTLE_MS);
  }

  #breakerOf(accountRef: AccountRef): CircuitBreaker {
    return this.#breaker(this.#quotaClient.link.clustered ? bucketOf(accountRef) : 0);
  }

  /** How long a heartbeat may take: no request waits for it, so at least as long as a request. */
  get #beatLateMs(): number {
    return Math.max(BEAT_LATE_MS, this.timeoutMs);
  }

  #breaker(bucket: number): CircuitBreaker {
    return this.#breakers[bucket] as CircuitBreaker;
  }

  #away(): number[] {
    return [...this.#breakers.keys()].filter((bucket) => this.isAway(bucket));
  }

  #start(): void {
    if (this.#closed) return;
    const { clustered, health } = this.#quotaClient.link;
    const way = health();
    if (way.ok || this.isAway(0)) void this.#runHeartbeat();
    // The first heartbeat names the gateways that share the limits of the buckets that trip.
    else if (clustered) void this.#runHeartbeat().then(() => this.#probeAllBuckets());
    else this.#trip(0, way.failure);
  }

  #trip(bucket: number, failure: StoreFailure): void {
    const began = this.#breaker(bucket).trip(failure);
    this.#scheduleHeartbeat(PROBE_MS);
    const tripping = this.#reports.tripped(bucket, began);
    if (tripping === undefined) return;
    void this.#probeAllBuckets().finally(() => this.#reports.tellTripping(tripping));
  }

  /**
   * Probes the other buckets of a Cluster too: a node holds several, and the next request of each
   * might meet the same failure. The probe waits at least as long as a request does, because one
   * failure is enough here.
   */
  async #probeAllBuckets(): Promise<void> {
    const open = [...this.#breakers.keys()].filter((bucket) => !this.isAway(bucket));
    const look = (bucket: number) => {
      return this.#heartbeat.beat(this.#beatLateMs, bucket).catch((error: unknown) => {
        if (!this.isAway(bucket)) this.#trip(bucket, toStoreFailure(error));
      });
    };
    await Promise.all(open.map(look));
  }

  #scheduleHeartbeat(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#closed) this.#timer = setTimeout(() => void this.#runHeartbeat(), ms).unref();
  }

  /** Sends a heartbeat, and probes the breakers that are tripped. */
  async #runHeartbeat(): Promise<void> {
    const away = this.#away().filter((bucket) => !this.#probed.has(bucket));
    const beating = this.#beatOpen();
    await Promise.all(away.map((bucket) => this.#probe(bucket)));
    this.#reports.tellUntold();
    this.#reports.tellBack();
    await beating;
    this.#hastened = false;
    this.#scheduleHeartbeat(
      this.#awaitsOthers() ? SETTLE_MS : this.#away().length > 0 ? PROBE_MS : BEAT_MS,
    );
  }

  #awaitsOthers(): boolean {
    return this.#breakers.some(({ isTripped, awaitsPeers }) => !isTripped && awaitsPeers);
  }

  /**
   * Sends a heartbeat to bucket 0, where the gateways are counted, and to each other bucket whose
   * node is not connected: without requests nothing else notices that.
   */
  async #beatOpen(): Promise<void> {
    const open = [...this.#breakers.keys()].filter((bucket) => !this.isAway(bucket));
    // Debts of the last outage are charged without waiting for a request.
    await Promise.allSettled(open.map((bucket) => this.#breaker(bucket).settleIdle()));
    const { link } = this.#quotaClient;
    const beating = open.filter((bucket) => bucket === 0 || !link.health(bucket).ok);
    for (const bucket of open) if (!beating.includes(bucket)) this.#beatsMissed.delete(bucket);
    await Promise.all(beating.map((bucket) => this.#beat(bucket)));
  }

  async #beat(bucket: number): Promise<void> {
    try {
      const peers = await this.#heartbeat.beat(this.#beatLateMs, bucket, this.#settledMs());
      this.#beatsMissed.delete(bucket);
      if (bucket === 0) for (const breaker of this.#breakers) breaker.onHeartbeat(peers);
    } catch (error) {
      const missed = (this.#beatsMissed.get(bucket) ?? 0) + 1;
      this.#beatsMissed.set(bucket, missed);
      const failure = toStoreFailure(error);
      // A store that a newer gateway has written to is not for this version, from the first
      // heartbeat on.
      const isOver = missed >= BEATS_MISSED_MAX || failure.code === "NEWER";
      if (isOver && !this.isAway(bucket)) this.#trip(bucket, failure);
    }
  }

  /** See Heartbeat.beat. */
  #settledMs(): number {
    if (!this.#breakers.every((breaker) => breaker.isSettled)) return 0;
    return this.#quotaClient.clockOf(0).latestAt(this.#quotaClient.answeredUntilMs()) ?? 0;
  }

  /** Closes a breaker whose bucket answers. */
  async #probe(bucket: number): Promise<void> {
    const breaker = this.#breaker(bucket);
    this.#probed.add(bucket);
    try {
      await this.#heartbeat.beat(this.timeoutMs, bucket);
      this.#beatsMissed.delete(bucket);
      this.#reports.onBack(bucket, await breaker.recover());
    } catch (error) {
      breaker.updateReason(toStoreFailure(error));
    } finally {
      this.#probed.delete(bucket);
    }
  }
}
