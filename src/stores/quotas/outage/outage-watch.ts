import { type StoreFailure, toStoreFailure } from "../../redis/store-failure.ts";
import type { BreakerContext, CircuitBreaker } from "./breaker.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { OutageReports } from "./outage-reports.ts";

type OutageWatchOptions = {
  readonly context: Pick<BreakerContext, "quotaClient" | "policy">;
  readonly heartbeat: Heartbeat;
  /** By bucket. Without a Cluster there is only the one of bucket 0. */
  readonly breakers: readonly CircuitBreaker[];
  readonly reports: OutageReports;
};

/** This many heartbeats missed in a row count as an outage, even if there is no request. */
const BEATS_MISSED_MAX = 2;
const BEAT_MS = 1_000;
/** The least time between heartbeats to buckets other than 0: less than a pause, whose timer may be early. */
const TURNS_MS = 900;
const BEAT_LATE_MS = 500;
const PROBE_MS = 500;
/** The pause between heartbeats while gateways wait for each other to charge their debts. */
const SETTLE_MS = 100;
/** The pause between two looks at the connections, which send nothing. */
const LOOK_MS = 250;

/**
 * Sets the pace of the heartbeats, and learns from them which parts of the store are away: trips the
 * circuit breakers of those, and closes the breakers of parts that are back.
 */
export class OutageWatch {
  readonly #options: OutageWatchOptions;
  /** By bucket: the number of heartbeats in a row that had no answer. */
  readonly #beatsMissed = new Map<number, number>();
  /**
   * The buckets other than 0, where the gateways are counted. One goes to the end when it answers, so
   * that one that did not is asked again.
   */
  readonly #turns: Set<number>;
  #turnsMs = Number.NEGATIVE_INFINITY;
  /** The buckets whose probe is under way. One heartbeat may begin before the last has ended. */
  readonly #probed = new Set<number>();
  #timer: NodeJS.Timeout | undefined;
  #looks: NodeJS.Timeout | undefined;
  /** By bucket: the number of looks in a row that found no connection. */
  readonly #looksLost = new Map<number, number>();
  #hasStarted = false;
  #isHastened = false;
  #isStopped = false;

  constructor(options: OutageWatchOptions) {
    this.#options = options;
    this.#turns = new Set([...options.breakers.keys()].slice(1));
  }

  /** The buckets that are away. */
  get away(): number[] {
    return this.#buckets(true);
  }

  /** Whether `away` has what the first attempt to connect has found. */
  get hasStarted(): boolean {
    return this.#hasStarted;
  }

  /** Called when the first attempt to connect has ended. */
  async start(): Promise<void> {
    if (this.#isStopped) return;
    this.#looks = setInterval(() => this.#look(), LOOK_MS).unref();
    const { clustered, health } = this.#options.context.quotaClient.link;
    const way = health();
    if (way.ok || this.#breaker(0).isTripped) void this.#runHeartbeat();
    else if (clustered) {
      // The first heartbeat names the gateways that share the limits of the buckets that trip.
      await this.#runHeartbeat();
      await this.#probeOpen();
    } else this.trip(0, way.failure);
    this.#hasStarted = true;
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#looks);
  }

  /** Trips the breaker of a bucket because of this failure, and probes the bucket from now on. */
  trip(bucket: number, failure: StoreFailure): void {
    const { reports } = this.#options;
    const began = this.#breaker(bucket).trip(failure);
    this.#schedule(PROBE_MS);
    const outage = reports.onTrip(bucket, began);
    if (outage === undefined) return;
    void this.#probeOpen().finally(() => reports.tellOutage(outage));
  }

  /**
   * Heartbeats soon, because a call has failed: other gateways wait for the heartbeat that says that
   * all debts of this outage are charged.
   */
  hasten(): void {
    const { context, heartbeat } = this.#options;
    const { onStoreFailure } = context.policy;
    if (this.#isHastened || heartbeat.gateways() === 1 || onStoreFailure !== "local") return;
    this.#isHastened = true;
    this.#schedule(SETTLE_MS);
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#runHeartbeat(), ms).unref();
  }

  /**
   * Trips the breakers of buckets that have had no connection for as long as a heartbeat may take.
   * Without requests a store that is gone would be missed by two heartbeats, a second apart. Looks
   * are counted, not time: while this process stands still it has none, and cannot connect either.
   */
  #look(): void {
    const { health } = this.#options.context.quotaClient.link;
    if (health().ok) {
      this.#looksLost.clear();
      return;
    }
    for (const bucket of this.#options.breakers.keys()) {
      const way = health(bucket);
      const isLost = !way.ok && !this.#breaker(bucket).isTripped;
      const looks = isLost ? (this.#looksLost.get(bucket) ?? 0) + 1 : 0;
      this.#looksLost.set(bucket, looks);
      if (isLost && (looks - 1) * LOOK_MS >= this.#beatLateMs) this.trip(bucket, way.failure);
    }
  }

  /** Sends a heartbeat, and probes the breakers that are tripped. */
  async #runHeartbeat(): Promise<void> {
    const { reports, breakers } = this.#options;
    const unprobed = this.away.filter((bucket) => !this.#probed.has(bucket));
    const beating = this.#beatOpen();
    await Promise.all(unprobed.map((bucket) => this.#probe(bucket)));
    reports.tellUntold();
    reports.tellBack();
    await beating;
    this.#isHastened = false;
    const awaitsPeers = breakers.some((breaker) => !breaker.isTripped && breaker.awaitsPeers);
    this.#schedule(awaitsPeers ? SETTLE_MS : this.away.length > 0 ? PROBE_MS : BEAT_MS);
  }

  async #beatOpen(): Promise<void> {
    const open = this.#buckets(false);
    // Debts of the last outage are charged without waiting for a request.
    await Promise.allSettled(open.map((bucket) => this.#breaker(bucket).settleIdle()));
    const beating = [...open.filter((bucket) => bucket === 0), ...this.#takeTurns()];
    await Promise.all(beating.map((bucket) => this.#beat(bucket)));
  }

  /**
   * The first open bucket of each node: without requests nothing else notices that a node is gone,
   * hangs, or has lost a slot. That is no reason to keep the pace of debts and probes.
   */
  #takeTurns(): number[] {
    const nowMs = performance.now();
    if (nowMs - this.#turnsMs < TURNS_MS) return [];
    this.#turnsMs = nowMs;
    const { link } = this.#options.context.quotaClient;
    const open = [...this.#turns].filter((bucket) => !this.#breaker(bucket).isTripped);
    const byNode = Map.groupBy(open, (bucket) => link.nodeOf(bucket));
    return [...byNode.values()].map(([first]) => first as number);
  }

  async #beat(bucket: number): Promise<void> {
    const { heartbeat, breakers } = this.#options;
    try {
      const peers = await heartbeat.beat(this.#beatLateMs, bucket, this.#settledMs());
      this.#beatsMissed.delete(bucket);
      if (this.#turns.delete(bucket)) this.#turns.add(bucket);
      if (bucket === 0) for (const breaker of breakers) breaker.onHeartbeat(peers);
    } catch (error) {
      const missed = (this.#beatsMissed.get(bucket) ?? 0) + 1;
      this.#beatsMissed.set(bucket, missed);
      const failure = toStoreFailure(error);
      // A store that a newer gateway has written to is not for this version, from the first
      // heartbeat on.
      const isOver = missed >= BEATS_MISSED_MAX || failure.code === "NEWER";
      if (isOver && !this.#breaker(bucket).isTripped) this.trip(bucket, failure);
    }
  }

  /** Closes a breaker whose bucket answers. The probe waits no longer than a request does. */
  async #probe(bucket: number): Promise<void> {
    const { context, heartbeat, reports } = this.#options;
    const breaker = this.#breaker(bucket);
    this.#probed.add(bucket);
    try {
      await heartbeat.beat(context.policy.storeTimeoutMs, bucket);
      this.#beatsMissed.delete(bucket);
      reports.onBack(bucket, await breaker.recover());
    } catch (error) {
      breaker.updateReason(toStoreFailure(error));
    } finally {
      this.#probed.delete(bucket);
    }
  }

  /**
   * Probes the other buckets of a Cluster too: a node holds several, and the next request of each
   * might meet the same failure. The probe waits at least as long as a request does, because one
   * failure is enough here.
   */
  async #probeOpen(): Promise<void> {
    const probe = async (bucket: number) => {
      try {
        await this.#options.heartbeat.beat(this.#beatLateMs, bucket);
      } catch (error) {
        if (!this.#breaker(bucket).isTripped) this.trip(bucket, toStoreFailure(error));
      }
    };
    await Promise.all(this.#buckets(false).map(probe));
  }

  /** How long a heartbeat may take: no request waits for it, so at least as long as a request. */
  get #beatLateMs(): number {
    return Math.max(BEAT_LATE_MS, this.#options.context.policy.storeTimeoutMs);
  }

  /** See Heartbeat.beat. */
  #settledMs(): number {
    const { context, breakers } = this.#options;
    if (!breakers.every((breaker) => breaker.isSettled)) return 0;
    const { quotaClient } = context;
    return quotaClient.clockOf(0).latestAt(quotaClient.answeredUntilMs()) ?? 0;
  }

  #breaker(bucket: number): CircuitBreaker {
    return this.#options.breakers[bucket] as CircuitBreaker;
  }

  #buckets(isAway: boolean): number[] {
    const { breakers } = this.#options;
    return [...breakers.keys()].filter((bucket) => this.#breaker(bucket).isTripped === isAway);
  }
}
