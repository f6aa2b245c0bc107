import { keyBucket } from "../../redis/hash-slots.ts";
import type { Link, RedisArgument } from "../../redis/link.ts";
import { runScript, type Script } from "../../redis/script.ts";
import type { StoreClock } from "../../redis/store-clock.ts";
import { withTimeout } from "../../redis/store-failure.ts";
import { type AccountRef, isAddressAccount } from "../account-ref.ts";
import type { CallOutcome } from "../batch/outcomes.ts";
import type { AccountRequest } from "../quota-store.ts";
import { accountKey } from "./account-key.ts";
import { BucketClocks } from "./bucket-clocks.ts";
import { DecideCalls } from "./decide-calls.ts";
import type { KeyedRequest } from "./decide-codec.ts";

/** How long people, and work in the background, wait for a reply at most. */
export const REPLY_LATE_MS = 2_000;

/**
 * The quota side of Redis. Never resends a command that may have been executed. `decide`,
 * `decideGroups` and `runOnAccounts` have no timeout: they report the outcome, however late.
 */
export type QuotaClient = {
  /**
   * Decides accounts in one call. On a Cluster all of them are in one bucket. The store does
   * nothing if the call reaches it after `giveUpMs` on performance.now(), because no request waits
   * for it then. Never rejects.
   */
  decide(requests: readonly AccountRequest[], giveUpMs?: number): Promise<readonly CallOutcome[]>;
  /**
   * Decides groups of accounts, each of one bucket, as `decide` does; the outcomes of each group.
   * Those whose buckets are on the same node of a Cluster are decided in one call
   * (docs/decisions/calls-to-a-node.md).
   */
  decideGroups(
    groups: readonly (readonly AccountRequest[])[],
    giveUpMs?: number,
  ): readonly Promise<readonly CallOutcome[]>[];
  /**
   * Runs a script on accounts of one bucket, with the clock as its first argument. The store does
   * nothing if the call reaches it after `giveUpMs`. Rejects with StoreFailure.
   */
  runOnAccounts(
    script: Script,
    keys: readonly string[],
    args: readonly RedisArgument[],
    giveUpMs?: number,
  ): Promise<unknown>;
  /** Every decision that was requested before this instant of performance.now() has its answer. */
  answeredUntilMs(): number;
  /**
   * Runs a script on one key, or on several of one slot, by digest if the server knows it. Rejects
   * with StoreFailure, after REPLY_LATE_MS at the latest.
   */
  run(
    script: Script,
    keys: string | readonly string[],
    args: readonly RedisArgument[],
  ): Promise<unknown>;
  /** Sends a command whose first argument is the key. Rejects as `run` does. */
  ask(command: string, key: string, args?: readonly RedisArgument[]): Promise<unknown>;
  /** The key of the account's hash. */
  keyOf(accountRef: AccountRef): string;
  /** The clock of the node that has the bucket. Without a Cluster there is only one. */
  clockOf(bucket: number): StoreClock;
  /**
   * Asks for the time if the bucket's clock is unknown; else undefined. Rejects with StoreFailure.
   */
  ensureClock(bucket: number, timeoutMs: number): Promise<void> | undefined;
  /** Asks for the time of the bucket's node. Rejects with StoreFailure. */
  learnClock(bucket: number, timeoutMs: number): Promise<void>;
  /** Whether calls to the bucket can carry deadlines. */
  knowsClock(bucket: number): boolean;
  /** How long the usage of each account is kept by day; undefined if it is not kept. */
  historyMs: number | undefined;
  /** `storePrefix`: every key starts with it. */
  readonly prefix: string;
  readonly link: Link;
};

type QuotaClientOptions = {
  /** The store's test clock, in milliseconds. With it calls have no deadline. */
  readonly clock?: (() => number) | undefined;
  /** How long the usage of each account is kept by day; undefined if it is not kept. */
  readonly historyMs?: number | undefined;
  /** Called when a call that decides requests has ended, with or without an answer. */
  readonly onCall?: ((tookMs: number) => void) | undefined;
};

export function createQuotaClient(
  link: Link,
  prefix: string,
  { clock, historyMs, onCall }: QuotaClientOptions = {},
): QuotaClient {
  const clocks = new BucketClocks(link, prefix, clock);
  const toKeyed = ({ accountRef, quotaRequest }: AccountRequest): KeyedRequest => {
    const key = accountKey(prefix, accountRef);
    const isKept = client.historyMs !== undefined && !isAddressAccount(accountRef);
    return isKept ? { key, quotaRequest, historyMs: client.historyMs } : { key, quotaRequest };
  };
  const calls = new DecideCalls(link, clocks, toKeyed, onCall);
  const client: QuotaClient = {
    decide: (requests, giveUpMs) => calls.decide(requests, giveUpMs),
    decideGroups: (groups, giveUpMs) => calls.decideGroups(groups, giveUpMs),
    answeredUntilMs: () => calls.answeredUntilMs(),
    runOnAccounts: (script, keys, args, giveUpMs) => {
      const key = keys[0] as string;
      const buckets = [keyBucket(key)];
      return clocks.send(buckets, giveUpMs, () => {
        const clockMs = clocks.argument(buckets, giveUpMs);
        return runScript(link, script, key, [keys.length, ...keys, clockMs, ...args]);
      });
    },
    run: (script, keys, args) => {
      const all = [keys].flat();
      const given = [all.length, ...all, ...args];
      return withTimeout(runScript(link, script, all[0] as string, given), REPLY_LATE_MS);
    },
    ask: (command, key, args = []) => {
      return withTimeout(link.send(key, command, [key, ...args]), REPLY_LATE_MS);
    },
    keyOf: (accountRef) => accountKey(prefix, accountRef),
    clockOf: (bucket) => clocks.of(bucket),
    knowsClock: (bucket) => clocks.isKnown(bucket),
    learnClock: (bucket, timeoutMs) => clocks.ask(bucket, timeoutMs),
    ensureClock: (bucket, timeoutMs) => {
      return clocks.isKnown(bucket) ? undefined : clocks.ask(bucket, timeoutMs);
    },
    historyMs,
    prefix,
    link,
  };
  return client;
}
