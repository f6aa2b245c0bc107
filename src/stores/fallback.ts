import type { Ask } from "../core/quota.ts";
import type { Gate } from "./batch.ts";
import { createHeartbeat, type Heartbeat } from "./heartbeat.ts";
import { lateCharge } from "./late-charge.ts";
import { LocalAccounts, type Owed, type Terms } from "./local-accounts.ts";
import { orLate, type StoreFailure, translate } from "./redis-failure.ts";
import { bucketOf, CALL_ACCOUNTS_MAX } from "./redis-script.ts";
import { LATE_MS, type SharedStore } from "./redis-shared.ts";
import type { AccountName, Answer, FailurePolicy, NoAnswer, QuotaStore, Report } from "./store.ts";

export type FallbackOptions = {
  /** A reload may change it. */
  readonly policy: () => FailurePolicy;
  readonly prefix: string;
  readonly report: Report;
  /** The store's test clock; default: that of the last heartbeat. */
  readonly now?: (() => number) | undefined;
};

/** What stands in for the store. Open as long as the store answers. */
export type Fallback = Gate & {
  health(): { readonly ok: boolean; readonly why?: string };
  close(): Promise<void>;
};

const FAILURES_MAX = 5;
/** So many heartbeats missed in a row say the same where no request does. */
const BEATS_MISSED_MAX = 2;
const BEAT_MS = 1_000;
const BEAT_LATE_MS = 500;
const PROBE_MS = 500;
const CHARGE_LATE_MS = 2_000;

/**
 * Decides while the store is away (contract 8). A breaker shuts after five failures in a row: from
 * then on nobody waits for the store, and a probe each 500 ms, which writes and is as impatient as a
 * request, finds out when it is back. Before it opens, what was admitted here is charged to its own
 * windows, once.
 */
export function createFallback(
  shared: SharedStore,
  store: Pick<QuotaStore, "lastKnown">,
  options: FallbackOptions,
): Fallback {
  return new Breaker(shared, store, options);
}

class Breaker implements Fallback {
  readonly #shared: SharedStore;
  readonly #store: Pick<QuotaStore, "lastKnown">;
  readonly #options: FallbackOptions;
  readonly #heart: Heartbeat;
  readonly #accounts = new LocalAccounts();
  readonly #now: () => number;
  #failuresInRow = 0;
  #beatsMissed = 0;
  /** What began the absence tells more than what followed: READONLY, then a connection made anew. */
  #first: StoreFailure | undefined;
  #wentMs: number;
  #gatewaysThen = 1;
  /** Why the store is away; undefined while it is not. */
  #why: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(shared: SharedStore, store: Pick<QuotaStore, "lastKnown">, options: FallbackOptions) {
    this.#shared = shared;
    this.#store = store;
    this.#options = options;
    this.#heart = createHeartbeat(shared, options.prefix);
    this.#now = options.now ?? this.#heart.storeNow;
    this.#wentMs = this.#now();
    void shared.link.tried.then(() => this.#start());
  }

  shut(): boolean {
    return this.#why !== undefined;
  }

  decide(name: AccountName, ask: Ask, failure: StoreFailure | undefined): Answer | NoAnswer {
    switch (this.#options.policy().onStoreFailure) {
      case "deny":
        return { unavailable: true };
      case "allow": {
        const verdict = this.#accounts.admit(name, ask, this.#terms(name, failure));
        return { verdict, unspent: 0, admitted: true, by: "local" };
      }
      case "local": {
        const verdict = this.#accounts.decide(name, ask, this.#terms(name, failure));
        return { verdict, unspent: 0, admitted: verdict.granted > 0, by: "local" };
      }
    }
  }

  called(failure: StoreFailure | undefined): void {
    if (failure === undefined) {
      this.#failuresInRow = 0;
      if (this.#accounts.owes && !this.shut()) this.#settle().catch(() => undefined);
      return;
    }
    if (this.#failuresInRow === 0 && !this.shut()) this.#begin(failure);
    this.#failuresInRow += 1;
    if (this.#failuresInRow >= FAILURES_MAX && !this.shut()) this.#shut(failure);
  }

  health(): { readonly ok: boolean; readonly why?: string } {
    return this.#why === undefined ? { ok: true } : { ok: false, why: this.#why };
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    if (!this.shut()) await this.#settle().catch(() => undefined);
    await this.#heart.leave();
  }

  #start(): void {
    if (this.#closed) return;
    const { ok, why } = this.#shared.link.health();
    if (!ok && !this.shut()) this.#shut(translate(new Error(why ?? "no connection")));
    else void this.#tend();
  }

  /** The first failure after an answer: an absence begins, with shares of its own. */
  #begin(failure: StoreFailure): void {
    this.#first = failure;
    this.#wentMs = this.#now();
    this.#gatewaysThen = this.#heart.gateways();
    this.#accounts.forget();
  }

  #shut(failure: StoreFailure): void {
    const { code, message: why } = this.#first ?? failure;
    this.#why = why;
    const { onStoreFailure: mode } = this.#options.policy();
    this.#options.report("error", "store_away", { code, why, mode });
    this.#tendIn(PROBE_MS);
  }

  #tendIn(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#closed) this.#timer = setTimeout(() => void this.#tend(), ms).unref();
  }

  /** Beats, and opens when that worked while shut. */
  async #tend(): Promise<void> {
    const probing = this.shut();
    try {
      await this.#heart.beat(probing ? LATE_MS : BEAT_LATE_MS);
      this.#beatsMissed = 0;
      if (probing) await this.#open();
    } catch (error) {
      this.#missed(translate(error));
    }
    this.#tendIn(this.shut() ? PROBE_MS : BEAT_MS);
  }

  /** On a Cluster the heartbeat is in one part: the other parts may well answer. */
  #missed(failure: StoreFailure): void {
    this.#beatsMissed += 1;
    if (this.shut()) this.#why = failure.message;
    else if (this.#beatsMissed >= BEATS_MISSED_MAX && !this.#shared.link.clustered) {
      if (this.#failuresInRow === 0) this.#begin(failure);
      this.#shut(failure);
    }
  }

  /**
   * Charges what is owed so far, then lets requests through. What was admitted meanwhile is sent
   * ahead of them on the same connection, so that they are decided with all of it counted.
   */
  async #open(): Promise<void> {
    const accountsCharged = await this.#settle();
    this.#why = undefined;
    this.#failuresInRow = 0;
    this.#first = undefined;
    this.#accounts.forget();
    for (const batch of this.#takeOwed()) this.#charge(batch).catch(() => undefined);
    this.#options.report("info", "store_back", { accountsCharged });
  }

  async #settle(): Promise<number> {
    const batches = this.#takeOwed();
    for (const [i, batch] of batches.entries()) {
      try {
        await this.#charge(batch);
      } catch (error) {
        this.#accounts.restore(batches.slice(i + 1).flat());
        throw error;
      }
    }
    return batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  #takeOwed(): Owed[][] {
    return batchesOf(this.#accounts.take(), this.#shared.link.clustered);
  }

  /** A call without an answer may have been executed: it is never sent again. */
  async #charge(batch: readonly Owed[]): Promise<void> {
    try {
      const charging = lateCharge(this.#shared, batch, this.#options.now);
      const counts = await orLate(charging, CHARGE_LATE_MS);
      for (const [i, owed] of batch.entries()) this.#accounts.charged(owed, counts[i] ?? []);
    } catch (error) {
      if (translate(error).executed === "no") this.#accounts.restore(batch);
      throw error;
    }
  }

  #terms(name: AccountName, failure: StoreFailure | undefined): Terms {
    return {
      nowMs: this.#now(),
      wentMs: this.#wentMs,
      gateways: Math.max(this.#options.policy().expectedGateways, this.#gatewaysThen),
      last: this.#store.lastKnown(name),
      owed: failure === undefined || failure.executed === "no",
    };
  }
}

/** As many accounts as fit in a call; on a Cluster, of one bucket. */
function batchesOf(owed: readonly Owed[], clustered: boolean): Owed[][] {
  const byBucket = new Map<number, Owed[]>();
  for (const each of owed) {
    const bucket = clustered ? bucketOf(each.name) : 0;
    const all = byBucket.get(bucket) ?? [];
    byBucket.set(bucket, all);
    all.push(each);
  }
  const batches: Owed[][] = [];
  for (const all of byBucket.values()) {
    for (let i = 0; i < all.length; i += CALL_ACCOUNTS_MAX) {
      batches.push(all.slice(i, i + CALL_ACCOUNTS_MAX));
    }
  }
  return batches;
}
