import type { Ask } from "../core/quota.ts";
import type { Gate } from "./batch.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { lateCharge } from "./late-charge.ts";
import { LocalAccounts, type Owed, type Terms } from "./local-accounts.ts";
import { orLate, type StoreFailure, translate } from "./redis-failure.ts";
import { bucketOf, CALL_ACCOUNTS_MAX } from "./redis-script.ts";
import type { SharedStore } from "./redis-shared.ts";
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
const PROBE_MS = 500;
const CHARGE_LATE_MS = 2_000;

/**
 * Decides while the store is away (contract 8). A breaker shuts after five failures in a row: from
 * then on nobody waits for the store, and a probe each 500 ms, which writes, finds out when it is
 * back. Before it opens, what was admitted here is charged to its own windows, once.
 */
export function createFallback(
  shared: SharedStore,
  store: Pick<QuotaStore, "lastKnown">,
  options: FallbackOptions,
): Fallback {
  const heart = startHeartbeat(shared.link, options.prefix);
  const accounts = new LocalAccounts();
  const storeNow = options.now ?? heart.storeNow;
  let failuresInRow = 0;
  let wentMs = storeNow();
  /** Asked for at the first failure: a gateway that went with the store is still counted. */
  let gatewaysThen = 1;
  let why: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function shut(failure: StoreFailure): void {
    why = failure.message;
    const { onStoreFailure } = options.policy();
    options.report("error", "store_away", { code: failure.code, why, mode: onStoreFailure });
    probeLater();
  }

  function probeLater(): void {
    if (closed) return;
    timer = setTimeout(() => void probe(), PROBE_MS).unref();
  }

  async function probe(): Promise<void> {
    try {
      await heart.beat();
      const charged = await settle();
      accounts.forget();
      why = undefined;
      failuresInRow = 0;
      options.report("info", "store_back", { charged });
    } catch (error) {
      why = translate(error).message;
      probeLater();
    }
  }

  /** Charges all that is owed; what is admitted meanwhile is owed too, until nothing is. */
  async function settle(): Promise<number> {
    let charged = 0;
    while (accounts.owes) {
      const batches = batchesOf(accounts.settle(), shared.link.clustered);
      for (const [i, batch] of batches.entries()) {
        try {
          await orLate(lateCharge(shared, batch, options.now), CHARGE_LATE_MS);
        } catch (error) {
          // A call without an answer may have been executed: it is never sent again.
          const executed = translate(error).executed !== "no";
          accounts.restore(batches.slice(executed ? i + 1 : i).flat());
          throw error;
        }
        charged += batch.length;
      }
    }
    return charged;
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
    const { ok, why: reason } = shared.link.health();
    if (!ok && why === undefined) shut(translate(new Error(reason ?? "no connection")));
  });

  return {
    shut: () => why !== undefined,
    decide: (name, ask, failure) => decideHere(name, ask, failure),
    called: (failure) => {
      if (failure === undefined) {
        failuresInRow = 0;
        if (accounts.owes && why === undefined) void settle().catch(() => {});
        return;
      }
      if (failuresInRow === 0) {
        wentMs = storeNow();
        gatewaysThen = heart.gateways();
      }
      failuresInRow += 1;
      if (failuresInRow >= FAILURES_MAX && why === undefined) shut(failure);
    },
    health: () => (why === undefined ? { ok: true } : { ok: false, why }),
    close: async () => {
      closed = true;
      clearTimeout(timer);
      if (why === undefined) await settle().catch(() => {});
      await heart.close();
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
