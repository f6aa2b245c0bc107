import { BUCKET_COUNT } from "../../redis/hash-slots.ts";
import type { Link } from "../../redis/link.ts";
import { parseTime, StoreClock } from "../../redis/store-clock.ts";
import { toStoreFailure, withTimeout } from "../../redis/store-failure.ts";

/**
 * The clock of the node that has each bucket, and the deadlines that calls carry by it. Without a
 * Cluster all buckets have one clock. Instants named `…Ms` are on performance.now().
 */
export class BucketClocks {
  readonly #link: Link;
  readonly #prefix: string;
  readonly #testClock: (() => number) | undefined;
  readonly #clocks: readonly StoreClock[];

  constructor(link: Link, prefix: string, testClock: (() => number) | undefined) {
    this.#link = link;
    this.#prefix = prefix;
    this.#testClock = testClock;
    const count = link.clustered ? BUCKET_COUNT : 1;
    this.#clocks = Array.from({ length: count }, () => new StoreClock());
  }

  of(bucket: number): StoreClock {
    return this.#clocks[this.#link.clustered ? bucket : 0] as StoreClock;
  }

  /** Whether calls to the bucket can carry deadlines. */
  isKnown(bucket: number): boolean {
    return this.#testClock !== undefined || this.of(bucket).isKnown;
  }

  /** Asks for the time of the bucket's node. Rejects with StoreFailure. */
  async ask(bucket: number, timeoutMs: number): Promise<void> {
    const sentMs = performance.now();
    const key = `${this.#prefix}:{${bucket}}:time`;
    const time = await withTimeout(this.#link.send(key, "time", []), timeoutMs);
    this.of(bucket).learn(sentMs, performance.now(), parseTime(time));
  }

  /** Called with the reply to a call to these buckets, which tells the store's time. */
  learn(buckets: readonly number[], sentMs: number, storeNowMs: number): void {
    if (this.#testClock !== undefined) return;
    const receivedMs = performance.now();
    for (const bucket of buckets) this.of(bucket).learn(sentMs, receivedMs, storeNowMs);
  }

  /** The first argument of a script: see clock() in time.lua. */
  argument(buckets: readonly number[], giveUpMs: number | undefined): number {
    if (this.#testClock !== undefined) return this.#testClock();
    if (giveUpMs === undefined) return -1;
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const bucket of buckets) {
      const latestMs = this.of(bucket).latestAt(giveUpMs);
      if (latestMs !== undefined) earliestMs = Math.min(earliestMs, latestMs);
    }
    return earliestMs === Number.POSITIVE_INFINITY ? -1 : -earliestMs;
  }

  /**
   * Sends a call whose first argument is `argument`. A call that reached the store after its deadline
   * has not run, and its reply carries the time. If a request still waits for the call, one of the
   * clocks was set, and the call is sent once more.
   */
  async send<T>(
    buckets: readonly number[],
    giveUpMs: number | undefined,
    send: () => Promise<T>,
  ): Promise<T> {
    const sentMs = performance.now();
    try {
      return await send();
    } catch (error) {
      const { storeNowMs } = toStoreFailure(error);
      if (storeNowMs === undefined) throw error;
      this.learn(buckets, sentMs, storeNowMs);
      if (giveUpMs === undefined || performance.now() >= giveUpMs) throw error;
      return send();
    }
  }
}
