import type { QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { BUCKET_COUNT } from "../../redis/hash-slots.ts";
import type { StoreFailure } from "../../redis/store-failure.ts";
import { type AccountRef, bucketOf } from "../account-ref.ts";
import { reportLostCharges } from "../charge-reports.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type {
  AccountRequest,
  ChargeResult,
  FailurePolicy,
  StoreUnavailable,
} from "../quota-store.ts";
import type { FallbackInputs } from "../redis/quota-store-options.ts";
import { type BreakerContext, CircuitBreaker } from "./breaker.ts";
import { createHeartbeat, type Heartbeat } from "./heartbeat.ts";
import { OutageReports } from "./outage-reports.ts";
import { OutageWatch } from "./outage-watch.ts";
import { SettlementQueues, settlementDebt } from "./settlement-queues.ts";

type FallbackOptions = {
  readonly policy: FailurePolicy;
  readonly prefix: string;
  readonly report: Reporter;
  /** The store's test clock; default: the clock of its last answer. */
  readonly now?: (() => number) | undefined;
  /** The most accounts that are decided here, in all breakers together. */
  readonly accountsMax?: number;
};

const ACCOUNTS_MAX = 100_000;

/**
 * Decides while the store is unreachable (docs/reference/store.md#away). A breaker trips after five
 * failures in a row. From then on no request waits for the store. A probe every 500 ms finds out
 * when the store is back; it writes, and waits no longer than a request does. Before the breaker
 * closes, the units that were admitted here are charged, once, each to its own window. On a Cluster
 * each bucket has its own breaker: requests of a tripped one are decided here, the others by the
 * store.
 */
export class Fallback implements OutageHandler {
  readonly #context: BreakerContext;
  readonly #report: Reporter;
  readonly #heartbeat: Heartbeat;
  /** By bucket. Without a Cluster there is only the one of bucket 0. */
  readonly #breakers: readonly CircuitBreaker[];
  readonly #settlements = new SettlementQueues((batch, bucket) => {
    return this.#breaker(bucket).settleMeters(batch);
  });
  readonly #reports: OutageReports;
  readonly #watch: OutageWatch;
  #hasDropped = false;

  constructor(inputs: FallbackInputs, options: FallbackOptions) {
    const { now: clock, policy, prefix, report, accountsMax = ACCOUNTS_MAX } = options;
    const { quotaClient } = inputs;
    const { link } = quotaClient;
    const heartbeat = createHeartbeat(quotaClient, prefix);
    const context = { ...inputs, heartbeat, policy, clock };
    this.#context = context;
    this.#report = report;
    this.#heartbeat = heartbeat;
    const count = link.clustered ? BUCKET_COUNT : 1;
    const breakers = Array.from({ length: count }, (_, bucket) => {
      return new CircuitBreaker(context, bucket, accountsMax / count);
    });
    this.#breakers = breakers;
    const reports = new OutageReports({
      ...{ report, link },
      mode: () => context.policy.onStoreFailure,
      lostUnits: () => this.lostUnits(),
    });
    this.#reports = reports;
    this.#watch = new OutageWatch({ context, heartbeat, breakers, reports });
    void link.tried.then(() => this.#watch.start());
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

  settle(...[accountRef, holds, changes]: Parameters<OutageHandler["settle"]>): void {
    if (changes.length === 0) return;
    const bucket = this.#bucketOf(accountRef);
    const debt = settlementDebt(accountRef, holds, changes);
    // No call is sent that others could join, and the share has room again from now on.
    if (this.isAway(bucket)) void this.#breaker(bucket).settleMeters([debt]);
    else this.#settlements.add(bucket, debt);
  }

  onCallEnd(bucket: number, failure: StoreFailure | undefined): void {
    if (failure !== undefined) this.#watch.hasten();
    if (this.#breaker(bucket).onCallEnd(failure) && failure !== undefined)
      this.#watch.trip(bucket, failure);
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

  health(): { readonly ok: boolean; readonly why?: string } {
    const { away, hasStarted } = this.#watch;
    const { clustered, health } = this.#context.quotaClient.link;
    const way = health();
    if (!hasStarted && !way.ok) return { ok: false, why: way.failure.message };
    const why = away[0] === undefined ? undefined : this.#breaker(away[0]).why;
    if (why === undefined) return { ok: true };
    const where = clustered ? `buckets ${away.join(", ")} of ${BUCKET_COUNT} are away: ` : "";
    return { ok: false, why: `${where}${why}` };
  }

  async close(): Promise<void> {
    this.#watch.stop();
    this.#reports.tellUntold();
    await this.#settlements.finish();
    await Promise.allSettled(this.#breakers.map((breaker) => breaker.settleLast()));
    this.dropOwed();
    await this.#heartbeat.leave();
  }

  /** Units that are owed again because a call fails afterwards were told by then. */
  dropOwed(): void {
    if (this.#hasDropped) return;
    this.#hasDropped = true;
    this.#reports.tellForgotten();
    reportLostCharges(
      this.#report,
      this.#breakers.flatMap((breaker, bucket) => breaker.drop(this.#settlements.take(bucket))),
    );
  }

  #bucketOf(accountRef: AccountRef): number {
    return this.#context.quotaClient.link.clustered ? bucketOf(accountRef) : 0;
  }

  #breakerOf(accountRef: AccountRef): CircuitBreaker {
    return this.#breaker(this.#bucketOf(accountRef));
  }

  #breaker(bucket: number): CircuitBreaker {
    return this.#breakers[bucket] as CircuitBreaker;
  }
}
