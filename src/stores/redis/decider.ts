import type { NamedAsk, Outcome } from "../batch/batch.ts";
import type { AccountName } from "../interface/quota-store.ts";
import { orLate, StoreFailure } from "../interface/store-failure.ts";
import { DECIDE, decideArguments, type KeyedAsk, readVerdicts } from "./decide-call.ts";
import { accountKey } from "./keyspace.ts";
import type { Argument, Link } from "./link.ts";
import { translate } from "./reply-errors.ts";
import type { Script } from "./script.ts";

/** A call without an answer is late after this, and after one more look at the socket. */
export const LATE_MS = 50;
/** The time for which the asks of a bucket go singly after its slot was seen in motion. */
const MOTION_MS = 200;

/**
 * The store that all gateways share, without patience: an ask that has no answer in time has
 * failed. It fails each ask by itself, and never sends an ask again that may have been executed.
 */
export type SharedStore = {
  /**
   * Decides accounts in one call, all of one bucket on a Cluster; not at all where it is past
   * `deadlineMs` by the store's clock when it comes to that. Never rejects.
   */
  decide(
    asks: readonly NamedAsk[],
    patienceMs?: number,
    deadlineMs?: number,
  ): Promise<readonly Outcome[]>;
  /** The time that a call may take before it counts as lost, in milliseconds. */
  readonly lateMs: number;
  /** Runs a script on one key, by its digest where the server knows it. Rejects with StoreFailure. */
  run(script: Script, key: string, args: readonly Argument[]): Promise<unknown>;
  /** The key of the account's hash. */
  keyOf(name: AccountName): string;
  readonly link: Link;
};

export type SharedOptions = {
  /** The store's test clock, in milliseconds. */
  readonly clock?: (() => number) | undefined;
  /** Default 50. */
  readonly lateMs?: number | undefined;
};

export function createSharedStore(
  link: Link,
  prefix: string,
  { clock, lateMs = LATE_MS }: SharedOptions = {},
): SharedStore {
  /** By bucket: until when, on performance.now(), its asks go singly. */
  const motion = new Map<number, number>();
  const keyed = ({ name, ask }: NamedAsk) => ({ key: accountKey(prefix, name), ask });

  async function call(asks: readonly NamedAsk[], deadlineMs = 1): Promise<readonly Outcome[]> {
    const all = asks.map(keyed);
    const args = decideArguments(all, clock ? clock() : -deadlineMs);
    const reply = await runScript(link, DECIDE, (all[0] as KeyedAsk).key, args);
    return readVerdicts(all, reply);
  }

  /** A single key is on one node or on the other, so it never meets TRYAGAIN. */
  async function singly(asks: readonly NamedAsk[]): Promise<readonly Outcome[]> {
    const outcomes = await Promise.all(asks.map((ask) => call([ask]).catch(failed(1))));
    return outcomes.flat();
  }

  async function decideNow(
    asks: readonly NamedAsk[],
    deadlineMs: number | undefined,
  ): Promise<readonly Outcome[]> {
    const bucket = bucketIn(keyed(asks[0] as NamedAsk).key);
    if (asks.length === 1 || !link.clustered) return call(asks, deadlineMs);
    if ((motion.get(bucket) ?? 0) > performance.now()) return singly(asks);
    try {
      return await call(asks);
    } catch (error) {
      // ASK about several keys at once would be answered by TRYAGAIN on the other side.
      if (!["TRYAGAIN", "ASK"].includes(translate(error).code)) throw error;
      motion.set(bucket, performance.now() + MOTION_MS);
      return singly(asks);
    }
  }

  return {
    decide: (asks, patienceMs = lateMs, deadlineMs) =>
      orLate(decideNow(asks, deadlineMs), patienceMs).catch(failed(asks.length)),
    run: (script, key, args) => runScript(link, script, key, [1, key, ...args]),
    keyOf: (name) => accountKey(prefix, name),
    lateMs,
    link,
  };
}

/** NOSCRIPT means that nothing was executed: after SCRIPT FLUSH the whole text goes, once. */
export async function runScript(
  link: Link,
  script: Script,
  key: string,
  args: readonly Argument[],
) {
  try {
    return await link.send(key, "evalsha", [script.sha, ...args]);
  } catch (error) {
    if (translate(error).code !== "NOSCRIPT") throw error;
    return link.send(key, "eval", [script.text, ...args]);
  }
}

function bucketIn(key: string): number {
  return Number(/\{(\d+)\}/.exec(key)?.[1]);
}

/** The same failure for each of `count` asks. */
function failed(count: number): (error: unknown) => Outcome[] {
  return (error) => {
    const failure =
      error instanceof StoreFailure
        ? error
        : new StoreFailure("unreadable", (error as Error).message, "unknown");
    return Array.from({ length: count }, () => ({ failure }));
  };
}
