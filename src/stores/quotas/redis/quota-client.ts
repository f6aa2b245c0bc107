import { randomInt } from "node:crypto";
import type { QuotaDecision } from "../../../core/quota/decide.ts";
import { BUCKET_COUNT, keyBucket } from "../../redis/hash-slots.ts";
import type { Link, RedisArgument } from "../../redis/link.ts";
import { runScript, type Script } from "../../redis/script.ts";
import { StoreClock } from "../../redis/store-clock.ts";
import {
  inMotionFailure,
  isInMotion,
  StoreFailure,
  toStoreFailure,
  withTimeout,
} from "../../redis/store-failure.ts";
import { type AccountRef, bucketOf, isAddressAccount } from "../account-ref.ts";
import type { CallOutcome } from "../batch/outcomes.ts";
import type { AccountRequest } from "../quota-store.ts";
import { accountKey } from "./account-key.ts";
import { DECIDE_SCRIPT, decodeDecisions, encodeDecide, type KeyedRequest } from "./decide-codec.ts";

/** How long the requests of a bucket are sent one by one after its slot was found to be moving. */
const MOTION_MS = 200;
/** How long people, and work in the background, wait for a reply at most. */
export const REPLY_LATE_MS = 2_000;
/** So far below 2^53 that a tag stays exact when the numbers of a reply are added to it. */
const TAG_FROM_MAX = 2 ** 47;

/**
 * The quota side of Redis, without timeouts: reports the outcome of every request, however late,
 * and never resends a command that may have been executed.
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
   * Runs a script on one key, by digest if the server knows it. Rejects with StoreFailure, after
   * REPLY_LATE_MS at the latest.
   */
  run(script: Script, key: string, args: readonly RedisArgument[]): Promise<unknown>;
  /** Sends a command whose first argument is the key. Rejects as `run` does. */
  ask(command: string, key: string, args?: readonly RedisArgument[]): Promise<unknown>;
  /** The key of the account's hash. */
  keyOf(accountRef: AccountRef): string;
  /** The clock of the node that has the bucket. Without a Cluster there is only one. */
  clockOf(bucket: number): StoreClock;
  /**
   * Asks for the time if the clock of the bucket is unknown; returns undefined if it is known.
   * Rejects with StoreFailure.
   */
  ensureClock(bucket: number, timeoutMs: number): Promise<void> | undefined;
  /** Asks for the time of the bucket's node. Rejects with StoreFailure. */
  learnClock(bucket: number, timeoutMs: number): Promise<void>;
  /** Whether calls to the bucket can carry deadlines. */
  knowsClock(bucket: number): boolean;
  /** How long the usage of each account is kept by day; undefined if it is not kept. */
  historyMs: number | undefined;
  readonly link: Link;
};

export type QuotaClientOptions = {
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
  options: QuotaClientOptions = {},
): QuotaClient {
  const client = new RedisQuotaClient(link, prefix, options);
  const isTimed = (bucket: number) => {
    return options.clock !== undefined || client.clockOf(bucket).isKnown;
  };
  return {
    decide: (requests, giveUpMs) =>
      client.decide(requests, giveUpMs).catch(failed(requests.length)),
    decideGroups: (groups, giveUpMs) => {
      return client.decideGroups(groups, giveUpMs).map((outcomes, i) => {
        return outcomes.catch(failed(groups[i]?.length ?? 0));
      });
    },
    runOnAccounts: (...call) => client.runOnAccounts(...call),
    answeredUntilMs: () => Math.min(performance.now(), ...client.unansweredMs),
    run: (script, key, args) => {
      return withTimeout(runScript(link, script, key, [1, key, ...args]), REPLY_LATE_MS);
    },
    ask: (command, key, args = []) => {
      return withTimeout(link.send(key, command, [key, ...args]), REPLY_LATE_MS);
    },
    keyOf: (accountRef) => accountKey(prefix, accountRef),
    clockOf: (bucket) => client.clockOf(bucket),
    knowsClock: isTimed,
    learnClock: (bucket, timeoutMs) => client.learnClock(bucket, timeoutMs),
    ensureClock: (bucket, timeoutMs) => {
      return isTimed(bucket) ? undefined : client.learnClock(bucket, timeoutMs);
    },
    get historyMs() {
      return client.historyMs;
    },
    set historyMs(historyMs) {
      client.historyMs = historyMs;
    },
    link,
  };
}

class RedisQuotaClient {
  readonly #link: Link;
  readonly #prefix: string;
  readonly #clock: (() => number) | undefined;
  readonly #clocks: readonly StoreClock[];
  /** By bucket: until when, on performance.now(), its requests are sent one by one. */
  readonly #motion = new Map<number, number>();
  /** By bucket: until when, on performance.now(), its calls carry no other bucket. */
  readonly #alone = new Map<number, number>();
  /** The tag of the last call that decides. Gateways begin at numbers of their own. */
  #tag = randomInt(TAG_FROM_MAX);
  /** When each unanswered decision was requested, on performance.now(): a few at most. */
  readonly unansweredMs: number[] = [];
  historyMs: number | undefined;
  readonly #onCall: ((tookMs: number) => void) | undefined;

  constructor(link: Link, prefix: string, { clock, historyMs, onCall }: QuotaClientOptions) {
    this.#link = link;
    this.#onCall = onCall;
    this.historyMs = historyMs;
    this.#prefix = prefix;
    this.#clock = clock;
    const count = link.clustered ? BUCKET_COUNT : 1;
    this.#clocks = Array.from({ length: count }, () => new StoreClock());
  }

  clockOf(bucket: number): StoreClock {
    return this.#clocks[this.#link.clustered ? bucket : 0] as StoreClock;
  }

  async learnClock(bucket: number, timeoutMs: number): Promise<void> {
    const sentMs = performance.now();
    const key = `${this.#prefix}:{${bucket}}:time`;
    const time = await withTimeout(this.#link.send(key, "time", []), timeoutMs);
    const [seconds, micros] = String(time).split(",");
    const nowMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    this.clockOf(bucket).learn(sentMs, performance.now(), nowMs);
  }

  decide(requests: readonly AccountRequest[], giveUpMs?: number): Promise<readonly CallOutcome[]> {
    return this.#observed(() => this.#decide(requests, giveUpMs));
  }

  decideGroups(
    groups: readonly (readonly AccountRequest[])[],
    giveUpMs?: number,
  ): readonly Promise<readonly CallOutcome[]>[] {
    const shared = groups.length > 1 ? this.#sharing(groups) : [];
    if (shared.length < 2) return groups.map((requests) => this.decide(requests, giveUpMs));
    const call = this.#observed(() => this.#callNode(shared, giveUpMs));
    return groups.map((requests) => {
      const i = shared.indexOf(requests);
      if (i < 0) return this.decide(requests, giveUpMs);
      const from = shared.slice(0, i).flat().length;
      return call.then(
        (all) => all[i] ?? this.decide(requests, giveUpMs),
        failed(requests.length, from),
      );
    });
  }

  /** Runs a call that decides requests, and notes how long it takes. */
  async #observed<T>(call: () => Promise<T>): Promise<T> {
    const sentMs = performance.now();
    this.unansweredMs.push(sentMs);
    try {
      return await call();
    } finally {
      this.#onCall?.(performance.now() - sentMs);
      this.unansweredMs.splice(this.unansweredMs.indexOf(sentMs), 1);
    }
  }

  /** The groups that go in one call: those that the node of the first one has, as far as is known. */
  #sharing(groups: readonly (readonly AccountRequest[])[]) {
    const nowMs = performance.now();
    let node: object | undefined;
    return groups.filter((requests) => {
      const bucket = bucketOfAll(requests);
      if (Math.max(this.#alone.get(bucket) ?? 0, this.#motion.get(bucket) ?? 0) > nowMs)
        return false;
      const owner = this.#link.nodeOf(bucket);
      node ??= owner;
      return owner === node;
    });
  }

  /**
   * One call for groups of several buckets; undefined for a group that the node does not have, of
   * which nothing was done.
   */
  async #callNode(groups: readonly (readonly AccountRequest[])[], giveUpMs?: number) {
    const buckets = groups.map(bucketOfAll);
    const verdicts = await this.#call(groups.flat(), giveUpMs, buckets);
    let at = 0;
    return groups.map((requests, i) => {
      const own = verdicts.slice(at, at + requests.length);
      at += requests.length;
      if (own.some((decision) => decision !== undefined)) return own.map(orInMotion);
      this.#alone.set(buckets[i] as number, performance.now() + MOTION_MS);
      return undefined;
    });
  }

  async #decide(
    requests: readonly AccountRequest[],
    giveUpMs?: number,
  ): Promise<readonly CallOutcome[]> {
    if (requests.length === 1 || !this.#link.clustered) return this.#callBucket(requests, giveUpMs);
    const bucket = bucketOfAll(requests);
    if ((this.#motion.get(bucket) ?? 0) > performance.now())
      return this.#singly(requests, giveUpMs);
    try {
      return await this.#callBucket(requests, giveUpMs);
    } catch (error) {
      if (!isInMotion(toStoreFailure(error))) throw error;
      this.#motion.set(bucket, performance.now() + MOTION_MS);
      return this.#singly(requests, giveUpMs);
    }
  }

  runOnAccounts(
    script: Script,
    keys: readonly string[],
    args: readonly RedisArgument[],
    giveUpMs?: number,
  ) {
    const key = keys[0] as string;
    const bucket = keyBucket(key);
    return this.#timed([bucket], giveUpMs, () => {
      const all = [keys.length, ...keys, this.#clockArgument([bucket], giveUpMs), ...args];
      return runScript(this.#link, script, key, all);
    });
  }

  async #callBucket(requests: readonly AccountRequest[], giveUpMs?: number) {
    return (await this.#call(requests, giveUpMs)).map(orInMotion);
  }

  /** One call for accounts of these buckets; undefined for one that the node left undecided. */
  async #call(
    requests: readonly AccountRequest[],
    giveUpMs: number | undefined,
    buckets: readonly number[] = [bucketOfAll(requests)],
  ): Promise<(QuotaDecision | undefined)[]> {
    const all = requests.map((ask) => this.#keyed(ask));
    const { key } = all[0] as KeyedRequest;
    let sentMs = 0;
    const verdicts = (await this.#timed(buckets, giveUpMs, () => {
      sentMs = performance.now();
      const clockMs = this.#clockArgument(buckets, giveUpMs);
      this.#tag += 1;
      const tag = this.#tag;
      const args = encodeDecide(all, clockMs, tag, buckets.length > 1);
      const read = (reply: unknown) => decodeDecisions(all, reply, tag);
      return runScript(this.#link, DECIDE_SCRIPT, key, args, read);
    })) as (QuotaDecision | undefined)[];
    const receivedMs = performance.now();
    const told = verdicts.find((decision) => decision !== undefined);
    if (told !== undefined && this.#clock === undefined) {
      for (const bucket of buckets) this.clockOf(bucket).learn(sentMs, receivedMs, told.nowMs);
    }
    return verdicts;
  }

  /** A single key is on one node or the other, so it never meets TRYAGAIN. */
  async #singly(
    requests: readonly AccountRequest[],
    giveUpMs?: number,
  ): Promise<readonly CallOutcome[]> {
    const outcomes = await Promise.all(
      requests.map((ask) => this.#callBucket([ask], giveUpMs).catch(failed(1))),
    );
    return outcomes.flat();
  }

  /**
   * A call that reached the store after its deadline has not run, and its reply carries the time.
   * If a request still waits for the call, one of the clocks was set, and the call is sent once
   * more.
   */
  async #timed<T>(
    buckets: readonly number[],
    giveUpMs: number | undefined,
    send: () => Promise<T>,
  ): Promise<T> {
    const sentMs = performance.now();
    try {
      return await send();
    } catch (error) {
      const nowMs = toStoreFailure(error).storeNowMs;
      if (nowMs === undefined) throw error;
      const receivedMs = performance.now();
      for (const bucket of buckets) this.clockOf(bucket).learn(sentMs, receivedMs, nowMs);
      if (giveUpMs === undefined || performance.now() >= giveUpMs) throw error;
      return send();
    }
  }

  /** The first argument of a script: see clock() in time.lua. */
  #clockArgument(buckets: readonly number[], giveUpMs: number | undefined): number {
    if (this.#clock !== undefined) return this.#clock();
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const bucket of giveUpMs === undefined ? [] : buckets) {
      const latestMs = this.clockOf(bucket).latestAt(giveUpMs as number);
      if (latestMs !== undefined) earliestMs = Math.min(earliestMs, latestMs);
    }
    return earliestMs === Number.POSITIVE_INFINITY ? -1 : -earliestMs;
  }

  #keyed({ accountRef, quotaRequest }: AccountRequest): KeyedRequest {
    const key = accountKey(this.#prefix, accountRef);
    const { historyMs } = this;
    return historyMs === undefined || isAddressAccount(accountRef)
      ? { key, quotaRequest }
      : { key, quotaRequest, historyMs };
  }
}

/** The bucket of accounts that are all in one. */
function bucketOfAll(requests: readonly AccountRequest[]): number {
  return bucketOf((requests[0] as AccountRequest).accountRef);
}

/** A caps' or meters' hash may be on the other node of a slot that is moving, and the account's own here. */
function orInMotion(decision: QuotaDecision | undefined): CallOutcome {
  return decision ?? { failure: inMotionFailure() };
}

/** The same failure for each of `count` requests, which are in the call from the index `from` on. */
function failed(count: number, from = 0): (error: unknown) => CallOutcome[] {
  return (error) => {
    const failure =
      error instanceof StoreFailure
        ? error
        : new StoreFailure("unreadable", (error as Error).message, "unknown");
    const verdicts = failure.later as Promise<(QuotaDecision | undefined)[]> | undefined;
    return Array.from({ length: count }, (_, i) => {
      if (verdicts === undefined) return { failure };
      const later = verdicts.then(
        (all) => orInMotion(all[from + i]),
        (lost): CallOutcome => ({ failure: toStoreFailure(lost) }),
      );
      return { failure, later };
    });
  };
}
