import type { Ask } from "../core/quota.ts";
import type { Gate } from "./batch.ts";
import { createHeartbeat } from "./heartbeat.ts";
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
  const heart = createHeartbeat(shared, options.prefix);
  const accounts = new LocalAccounts();
  const storeNow = options.now ?? heart.storeNow;
  let failuresInRow = 0;
  /** What began the absence tells more than what followed: READONLY, then a connection made anew. */
  let first: StoreFailure | undefined;
  let beatsMissed = 0;
  let wentMs = storeNow();
  let gatewaysThen = 1;
  let why: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  /** The first failure after an answer: an absence begins, with shares of its own. */
  function begin(failure: StoreFailure): void {
    first = failure;
    wentMs = storeNow();
    gatewaysThen = heart.gateways();
    accounts.forget();
  }

  function shut(failure: StoreFailure): void {
    const { code, message } = first ?? failure;
    why = message;
    const { onStoreFailure } = options.policy();
    options.report("error", "store_away", { code, why, mode: onStoreFailure });
    tendIn(PROBE_MS);
  }

  function tendIn(ms: number): void {
    clearTimeout(timer);
    if (!closed) timer = setTimeout(() => void tend(), ms).unref();
  }

  /** Beats, and opens when that worked while shut. */
  async function tend(): Promise<void> {
    const probing = why !== undefined;
    try {
      await heart.beat(probing ? LATE_MS : BEAT_LATE_MS);
      beatsMissed = 0;
      if (probing) await open();
    } catch (error) {
      missed(translate(error));
    }
    tendIn(why === undefined ? BEAT_MS : PROBE_MS);
  }

  /** On a Cluster the heartbeat is in one part: the other parts may well answer. */
  function missed(failure: StoreFailure): void {
    beatsMissed += 1;
    if (why !== undefined) why = failure.message;
    else if (beatsMissed >= BEATS_MISSED_MAX && !shared.link.clustered) {
      if (failuresInRow === 0) begin(failure);
      shut(failure);
    }
  }

  /**
   * Charges what is owed so far, then lets requests through. What was admitted meanwhile is sent
   * ahead of them on the same connection, so that they are decided with all of it counted.
   */
  async function open(): Promise<void> {
    const accountsCharged = await settle();
    why = undefined;
    failuresInRow = 0;
    first = undefined;
    accounts.forget();
    for (const batch of batchesOf(accounts.take(), shared.link.clustered)) {
      charge(batch).catch(() => undefined);
    }
    options.report("info", "store_back", { accountsCharged });
  }

  async function settle(): Promise<number> {
    const batches = batchesOf(accounts.take(), shared.link.clustered);
    for (const [i, batch] of batches.entries()) {
      try {
        await charge(batch);
      } catch (error) {
        accounts.restore(batches.slice(i + 1).flat());
        throw error;
      }
    }
    return batches.reduce((sum, batch) => sum + batch.length, 0);
  }

  /** A call without an answer may have been executed: it is never sent again. */
  async function charge(batch: readonly Owed[]): Promise<void> {
    try {
      const counts = await orLate(lateCharge(shared, batch, options.now), CHARGE_LATE_MS);
      for (const [i, owed] of batch.entries()) accounts.charged(owed, counts[i] ?? []);
    } catch (error) {
      if (translate(error).executed === "no") accounts.restore(batch);
      throw error;
    }
  }

  function terms(name: AccountName, failure: StoreFailure | undefined): Terms {
    return {
      nowMs: storeNow(),
      wentMs,
      gateways: Math.max(options.policy().expectedGateways, gatewaysThen),
      last: store.lastKnown(name),
      owed: failure === undefined || failure.executed === "no",
    };
  }

  void shared.link.tried.then(() => {
    if (closed) return;
    const { ok, why: reason } = shared.link.health();
    if (!ok && why === undefined) shut(translate(new Error(reason ?? "no connection")));
    else void tend();
  });

  return {
    shut: () => why !== undefined,
    decide: (name, ask, failure) => decideHere(name, ask, failure),
    called: (failure) => {
      if (failure === undefined) {
        failuresInRow = 0;
        if (accounts.owes && why === undefined) settle().catch(() => undefined);
        return;
      }
      if (failuresInRow === 0 && why === undefined) begin(failure);
      failuresInRow += 1;
      if (failuresInRow >= FAILURES_MAX && why === undefined) shut(failure);
    },
    health: () => (why === undefined ? { ok: true } : { ok: false, why }),
    close: async () => {
      closed = true;
      clearTimeout(timer);
      if (why === undefined) await settle().catch(() => undefined);
      await heart.leave();
    },
  };

  function decideHere(
    name: AccountName,
    ask: Ask,
    failure: StoreFailure | undefined,
  ): Answer | NoAnswer {
    switch (options.policy().onStoreFailure) {
      case "deny":
        return { unavailable: true };
      case "allow": {
        const verdict = accounts.admit(name, ask, terms(name, failure));
        return { verdict, unspent: 0, admitted: true, by: "local" };
      }
      case "local": {
        const verdict = accounts.decide(name, ask, terms(name, failure));
        return { verdict, unspent: 0, admitted: verdict.granted > 0, by: "local" };
      }
    }
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
