import { BUCKET_COUNT, keyBucket } from "../../redis/hash-slots.ts";
import type { Link, RedisArgument } from "../../redis/link.ts";
import { runScript, type Script } from "../../redis/script.ts";
import { StoreClock } from "../../redis/store-clock.ts";
import { StoreFailure, toStoreFailure, withTimeout } from "../../redis/store-failure.ts";
import type { CallOutcome } from "../batch/batcher.ts";
import { type AccountRef, type AccountRequest, isAddressAccount } from "../quota-store.ts";
import { accountKey } from "./account-key.ts";
import { DECIDE_SCRIPT, decodeDecisions, encodeDecide, type KeyedRequest } from "./decide-codec.ts";

/** How long the requests of a bucket are sent one by one after its slot was found to be moving. */
const MOTION_MS = 200;

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
  decide(asks: readonly AccountRequest[], giveUpMs?: number): Promise<readonly CallOutcome[]>;
  /**
   * Runs a script on accounts of one bucket, with the clock as its first argument. The store does
   * nothing if the call reaches it after `giveUpMs`. Rejects with StoreFailure.
   */
  runOn(
    script: Script,
    keys: readonly string[],
    args: readonly RedisArgument[],
    giveUpMs?: number,
  ): Promise<unknown>;
  /** Every decision that was requested before this instant of performance.now() has its answer. */
  answeredUntilMs(): number;
  /** Runs a script on one key, by digest if the server knows it. Rejects with StoreFailure. */
  run(script: Script, key: string, args: readonly RedisArgument[]): Promise<unknown>;
  /** The key of the account's hash. */
  keyOf(name: AccountRef): string;
  /** The clock of the node that has the bucket. Without a Cluster there is only one. */
  clockOf(bucket: number): StoreClock;
  /**
   * Asks for the time if the clock of the bucket is unknown; returns undefined if it is known.
   * Rejects with StoreFailure.
   */
  ensureClock(bucket: number, timeoutMs: number): Promise<void> | undefined;
  /** Whether calls to the bucket can carry deadlines. */
  knowsClock(bucket: number): boolean;
  /** How long the usage of each account is kept by day; undefined if it is not kept. */
  historyMs: number | undefined;
  readonly link: Link;
};

export type QuotaClientOptions = {
  /** The store's test clock, in milliseconds. With it calls have no deadline. */
  readonly clock?: (() => number) | undefined;
  /** See SharedStore. */
  readonly historyMs?: number | undefined;
  /** Called when a call that decides requests has ended, with or without an answer. */
  readonly onCall?: ((tookMs: number) => void) | undefined;
};

export function createQuotaClient(
  link: Link,
  prefix: string,
  options: QuotaClientOptions = {},
): QuotaClient {
  const decider = new RedisQuotaClient(link, prefix, options);
  const isTimed = (bucket: number) => {
    return options.clock !== undefined || decider.clockOf(bucket).isKnown;
  };
  return {
    decide: (asks, giveUpMs) => decider.decide(asks, giveUpMs).catch(failed(asks.length)),
    runOn: (...call) => decider.runOn(...call),
    answeredUntilMs: () => Math.min(performance.now(), ...decider.unansweredMs),
    run: (script, key, args) => runScript(link, script, key, [1, key, ...args]),
    keyOf: (name) => accountKey(prefix, name),
    clockOf: (bucket) => decider.clockOf(bucket),
    knowsClock: isTimed,
    ensureClock: (bucket, timeoutMs) => {
      return isTimed(bucket) ? undefined : decider.learnClock(bucket, timeoutMs);
    },
    get historyMs() {
      return decider.historyMs;
    },
    set historyMs(historyMs) {
      decider.historyMs = historyMs;
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
    const [seconds, micros] = time as string[];
    const nowMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    this.clockOf(bucket).learn(sentMs, performance.now(), nowMs);
  }

  async decide(
    asks: readonly AccountRequest[],
    giveUpMs?: number,
  ): Promise<readonly CallOutcome[]> {
    const sentMs = performance.now();
    this.unansweredMs.push(sentMs);
    try {
      return await this.#decide(asks, giveUpMs);
    } finally {
      this.#onCall?.(performance.now() - sentMs);
      this.unansweredMs.splice(this.unansweredMs.indexOf(sentMs), 1);
    }
  }

  async #decide(
    asks: readonly AccountRequest[],
    giveUpMs?: number,
  ): Promise<readonly CallOutcome[]> {
    if (asks.length === 1 || !this.#link.clustered) return this.#call(asks, giveUpMs);
    const bucket = keyBucket(this.#keyed(asks[0] as AccountRequest).key);
    if ((this.#motion.get(bucket) ?? 0) > performance.now()) return this.#singly(asks, giveUpMs);
    try {
      return await this.#call(asks, giveUpMs);
    } catch (error) {
      // If ASK is about several keys at once, the other node replies with TRYAGAIN.
      if (!["TRYAGAIN", "ASK"].includes(toStoreFailure(error).code)) throw error;
      this.#motion.set(bucket, performance.now() + MOTION_MS);
      return this.#singly(asks, giveUpMs);
    }
  }

  runOn(
    script: Script,
    keys: readonly string[],
    args: readonly RedisArgument[],
    giveUpMs?: number,
  ) {
    const key = keys[0] as string;
    const bucket = keyBucket(key);
    return this.#timed(bucket, giveUpMs, () => {
      const all = [keys.length, ...keys, this.#clockArgument(bucket, giveUpMs), ...args];
      return runScript(this.#link, script, key, all);
    });
  }

  async #call(asks: readonly AccountRequest[], giveUpMs?: number): Promise<readonly CallOutcome[]> {
    const all = asks.map((ask) => this.#keyed(ask));
    const { key } = all[0] as KeyedRequest;
    const bucket = keyBucket(key);
    let sentMs = 0;
    const reply = await this.#timed(bucket, giveUpMs, () => {
      sentMs = performance.now();
      const args = encodeDecide(all, this.#clockArgument(bucket, giveUpMs));
      return runScript(this.#link, DECIDE_SCRIPT, key, args);
    });
    const verdicts = decodeDecisions(all, reply);
    const [first] = verdicts;
    if (first !== undefined && this.#clock === undefined) {
      this.clockOf(bucket).learn(sentMs, performance.now(), first.nowMs);
    }
    return verdicts;
  }

  /** A single key is on one node or the other, so it never meets TRYAGAIN. */
  async #singly(
    asks: readonly AccountRequest[],
    giveUpMs?: number,
  ): Promise<readonly CallOutcome[]> {
    const outcomes = await Promise.all(
      asks.map((ask) => this.#call([ask], giveUpMs).catch(failed(1))),
    );
    return outcomes.flat();
  }

  /**
   * A call that reached the store after its deadline has not run, and its reply carries the time.
   * If a request still waits for the call, one of the clocks was set, and the call is sent once
   * more.
   */
  async #timed<T>(
    bucket: number,
    giveUpMs: number | undefined,
    send: () => Promise<T>,
  ): Promise<T> {
    const sentMs = performance.now();
    try {
      return await send();
    } catch (error) {
      const nowMs = toStoreFailure(error).storeNowMs;
      if (nowMs === undefined) throw error;
      this.clockOf(bucket).learn(sentMs, performance.now(), nowMs);
      if (giveUpMs === undefined || performance.now() >= giveUpMs) throw error;
      return send();
    }
  }

  /** The first argument of a script: see clock() in time.lua. */
  #clockArgument(bucket: number, giveUpMs: number | undefined): number {
    if (this.#clock !== undefined) return this.#clock();
    const latestMs = giveUpMs === undefined ? undefined : this.clockOf(bucket).latestAt(giveUpMs);
    return latestMs === undefined ? -1 : -latestMs;
  }

  #keyed({ name, ask }: AccountRequest): KeyedRequest {
    const key = accountKey(this.#prefix, name);
    const { historyMs } = this;
    return historyMs === undefined || isAddressAccount(name)
      ? { key, ask }
      : { key, ask, historyMs };
  }
}

/** The same failure for each of `count` requests. */
function failed(count: number): (error: unknown) => CallOutcome[] {
  return (error) => {
    const failure =
      error instanceof StoreFailure
        ? error
        : new StoreFailure("unreadable", (error as Error).message, "unknown");
    return Array.from({ length: count }, () => ({ failure }));
  };
}
