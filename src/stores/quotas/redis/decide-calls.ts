import { randomInt } from "node:crypto";
import type { QuotaDecision } from "../../../core/quota/decide.ts";
import type { Link } from "../../redis/link.ts";
import { runScript } from "../../redis/script.ts";
import {
  inMotionFailure,
  isInMotion,
  StoreFailure,
  toStoreFailure,
} from "../../redis/store-failure.ts";
import { bucketOf } from "../account-ref.ts";
import type { CallOutcome } from "../batch/outcomes.ts";
import type { AccountRequest } from "../quota-store.ts";
import { DECIDE_SCRIPT } from "./account-scripts.ts";
import type { BucketClocks } from "./bucket-clocks.ts";
import { decodeDecisions, encodeDecide, type KeyedRequest } from "./decide-codec.ts";

/** How long a bucket is called by itself, or its requests one by one, after its slot was found to move. */
const MOTION_MS = 200;
/** So far below 2^53 that a tag stays exact when the numbers of a reply are added to it. */
const TAG_FROM_MAX = 2 ** 47;

/** The calls that decide requests: see QuotaClient. */
export class DecideCalls {
  readonly #link: Link;
  readonly #clocks: BucketClocks;
  readonly #toKeyed: (request: AccountRequest) => KeyedRequest;
  readonly #onCall: ((tookMs: number) => void) | undefined;
  /** By bucket, on performance.now(): its requests are sent one by one until then. */
  readonly #singlyUntilMs = new Map<number, number>();
  /** By bucket, on performance.now(): its calls carry no other bucket until then. */
  readonly #aloneUntilMs = new Map<number, number>();
  /** The tag of the last call that decides. Gateways begin at numbers of their own. */
  #tag = randomInt(TAG_FROM_MAX);
  /** When each unanswered decision was requested, on performance.now(): a few at most. */
  readonly #unansweredMs: number[] = [];

  constructor(
    link: Link,
    clocks: BucketClocks,
    toKeyed: (request: AccountRequest) => KeyedRequest,
    onCall: ((tookMs: number) => void) | undefined,
  ) {
    this.#link = link;
    this.#clocks = clocks;
    this.#toKeyed = toKeyed;
    this.#onCall = onCall;
  }

  answeredUntilMs(): number {
    return Math.min(performance.now(), ...this.#unansweredMs);
  }

  decide(requests: readonly AccountRequest[], giveUpMs?: number): Promise<readonly CallOutcome[]> {
    const call = this.#observed(() => this.#decide(requests, giveUpMs));
    return call.catch(failed(requests.length));
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
    this.#unansweredMs.push(sentMs);
    try {
      return await call();
    } finally {
      this.#onCall?.(performance.now() - sentMs);
      this.#unansweredMs.splice(this.#unansweredMs.indexOf(sentMs), 1);
    }
  }

  /** The groups that go in one call: those that the node of the first one has, as far as is known. */
  #sharing(groups: readonly (readonly AccountRequest[])[]) {
    const nowMs = performance.now();
    let node: object | undefined;
    return groups.filter((requests) => {
      const bucket = bucketOfAll(requests);
      const aloneUntilMs = this.#aloneUntilMs.get(bucket) ?? 0;
      const singlyUntilMs = this.#singlyUntilMs.get(bucket) ?? 0;
      if (Math.max(aloneUntilMs, singlyUntilMs) > nowMs) return false;
      const owner = this.#link.nodeOf(bucket);
      node ??= owner;
      return owner === node;
    });
  }

  /** One call for groups of several buckets; undefined for one that the node does not have. */
  async #callNode(groups: readonly (readonly AccountRequest[])[], giveUpMs?: number) {
    const buckets = groups.map(bucketOfAll);
    const verdicts = await this.#call(groups.flat(), giveUpMs, buckets);
    let at = 0;
    return groups.map((requests, i) => {
      const own = verdicts.slice(at, at + requests.length);
      at += requests.length;
      if (own.some((decision) => decision !== undefined)) return own.map(orInMotion);
      this.#aloneUntilMs.set(buckets[i] as number, performance.now() + MOTION_MS);
      return undefined;
    });
  }

  async #decide(
    requests: readonly AccountRequest[],
    giveUpMs?: number,
  ): Promise<readonly CallOutcome[]> {
    if (requests.length === 1 || !this.#link.clustered) return this.#callBucket(requests, giveUpMs);
    const bucket = bucketOfAll(requests);
    if ((this.#singlyUntilMs.get(bucket) ?? 0) > performance.now())
      return this.#singly(requests, giveUpMs);
    try {
      return await this.#callBucket(requests, giveUpMs);
    } catch (error) {
      if (!isInMotion(toStoreFailure(error))) throw error;
      this.#singlyUntilMs.set(bucket, performance.now() + MOTION_MS);
      return this.#singly(requests, giveUpMs);
    }
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
    const keyed = requests.map(this.#toKeyed);
    const { key } = keyed[0] as KeyedRequest;
    let sentMs = 0;
    const verdicts = (await this.#clocks.send(buckets, giveUpMs, () => {
      sentMs = performance.now();
      const clockMs = this.#clocks.argument(buckets, giveUpMs);
      this.#tag += 1;
      const tag = this.#tag;
      const args = encodeDecide(keyed, clockMs, tag, buckets.length > 1);
      const read = (reply: unknown) => decodeDecisions(keyed, reply, tag);
      return runScript(this.#link, DECIDE_SCRIPT, key, args, read);
    })) as (QuotaDecision | undefined)[];
    const told = verdicts.find((decision) => decision !== undefined);
    if (told !== undefined) this.#clocks.learn(buckets, sentMs, told.nowMs);
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
