import type { Reporter } from "../../../../telemetry/log/log.ts";
import { BUCKET_COUNT } from "../../../redis/hash-slots.ts";
import type { Link } from "../../../redis/link.ts";
import type { StoreClock } from "../../../redis/store-clock.ts";
import { toStoreFailure, withTimeout } from "../../../redis/store-failure.ts";
import type { AccountRef } from "../../account-ref.ts";
import type { LostCount } from "../../count-corrections.ts";
import { type QuotaClient, REPLY_LATE_MS } from "../quota-client.ts";

export type EvictionWatcher = {
  /** Whether Redis may evict counters to make room, as far as it is known. */
  unsafe(): boolean;
  stop(): void;
};

const EACH_MS = 60_000;
/** The interval until the first answer, which is shorter. */
const FIRST_MS = 2_000;

/**
 * Warns when Redis may evict counters to make room: at the start, and once a minute if that
 * changed. An evicted account starts again with its whole quota. Asks with INFO, which connecting
 * needs anyway, because CONFIG is a right that a gateway should not have.
 */
export function watchEviction(
  link: Pick<Link, "masters" | "tried">,
  shown: string,
  report: Reporter,
  eachMs = EACH_MS,
): EvictionWatcher {
  let known = "noeviction";
  let answered = false;
  let silent = false;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  async function look(): Promise<void> {
    const policies: string[] = [];
    for (const node of await link.masters()) {
      const info = String(await withTimeout(node.send("info", ["memory"]), REPLY_LATE_MS));
      policies.push(/^maxmemory_policy:(\S+)/m.exec(info)?.[1] as string);
    }
    answered = true;
    const policy = policies.find((each) => each !== "noeviction") ?? "noeviction";
    if (policy === known) return;
    known = policy;
    if (policy === "noeviction") {
      return report("info", "store_evicts_no_more", { store: shown, maxmemoryPolicy: policy });
    }
    const advice = "it may drop counters and bans when memory is short: set noeviction";
    report("warn", "store_evicts", { store: shown, maxmemoryPolicy: policy, why: advice });
  }

  /**
   * An unreachable store is no reason for this warning. A store that denies INFO is reported once.
   */
  function unknown(error: unknown): void {
    if (toStoreFailure(error).code !== "NOPERM" || silent) return;
    silent = true;
    answered = true;
    const why =
      "the user has no right to INFO, or Redis has no such command, so the eviction policy is not known";
    report("debug", "store_eviction_unknown", { store: shown, why });
  }

  async function again(): Promise<void> {
    await look().catch(unknown);
    if (!stopped) timer = setTimeout(() => void again(), answered ? eachMs : FIRST_MS).unref();
  }
  void link.tried.then(again);
  return {
    unsafe: () => known !== "noeviction",
    stop: () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

const SPLIT_EACH_MS = 500;
/** A planned failover is not reported here: the outage and its end are reported in any case. */
const SPLIT_TOLD_FROM_MS = 1_000;

/**
 * Reports when the Sentinels have not agreed on one master for a while, and when they agree again.
 */
export function watchSplit(
  link: Pick<Link, "split">,
  shown: string,
  report: Reporter,
): { stop(): void } {
  let sinceMs: number | undefined;
  let isTold = false;
  const look = () => {
    const why = link.split();
    if (why === undefined) {
      if (isTold) report("info", "store_united", { store: shown });
      sinceMs = undefined;
      isTold = false;
      return;
    }
    sinceMs ??= performance.now();
    if (isTold || performance.now() - sinceMs < SPLIT_TOLD_FROM_MS) return;
    isTold = true;
    report("warn", "store_split", { store: shown, why });
  };
  const timer = setInterval(look, SPLIT_EACH_MS).unref();
  return { stop: () => clearInterval(timer) };
}

const CLOCK_EACH_MS = 1_000;
/** A process without heartbeats asks for the time so often. */
const CLOCK_OLD_MS = 10_000;
/** Clocks that differ by no more, or for fewer looks in a row, are not reported. */
const CLOCK_DIFFERS_FROM_MS = 5_000;
const CLOCK_LOOKS = 3;
/** A store that does not answer delays the start of a gateway by at most this. */
const CLOCK_FIRST_LATE_MS = 250;

/**
 * Reports when the clocks of this machine and of a node of the store differ, and when they do no
 * more (docs/operations.md#clocks). Learns the clock of bucket 0 where no heartbeat does. `known`
 * resolves with the first answer, or without one soon.
 */
export function watchClock(
  { clockOf, learnClock, link }: Pick<QuotaClient, "clockOf" | "learnClock" | "link">,
  shown: string,
  report: Reporter,
): { readonly known: Promise<void>; stop(): void } {
  const buckets = link.clustered ? [...Array(BUCKET_COUNT).keys()] : [0];
  let seen = new Map<string | undefined, ClockSeen>();
  const learn = async (lateMs: number) => {
    if (clockOf(0).ageMs < CLOCK_OLD_MS || !link.health().ok) return;
    await learnClock(0, lateMs).catch(() => undefined);
  };
  const compare = (node: string | undefined, ofNode: readonly number[]): ClockSeen => {
    const { looks, isTold } = seen.get(node) ?? { looks: 0, isTold: false };
    const clock = newestClock(ofNode.filter((bucket) => link.health(bucket).ok).map(clockOf));
    if (clock === undefined) return { looks, isTold };
    const aheadMs = -clock.aheadOfMachineMs;
    const members = { store: shown, ...(node !== undefined && { node }), aheadMs };
    const isFar = Math.abs(aheadMs) > CLOCK_DIFFERS_FROM_MS;
    if (isTold && !isFar) report("info", "clock_agrees", members);
    const isNews = !isTold && isFar && looks + 1 >= CLOCK_LOOKS;
    if (isNews) report("warn", "clock_differs", { ...members, why: CLOCKS_DIFFER });
    return { looks: isFar ? looks + 1 : 0, isTold: isFar && (isTold || isNews) };
  };
  const look = async () => {
    await learn(REPLY_LATE_MS);
    const byNode = Map.groupBy(buckets, (bucket) => link.partOf(bucket)?.node);
    for (const [node, { isTold }] of seen) {
      if (!isTold || byNode.has(node)) continue;
      report("info", "clock_agrees", { store: shown, node, why: OWNS_NOTHING });
    }
    seen = new Map([...byNode].map(([node, ofNode]) => [node, compare(node, ofNode)]));
  };
  const timer = setInterval(() => void look(), CLOCK_EACH_MS).unref();
  const known = link.tried.then(() => learn(CLOCK_FIRST_LATE_MS));
  return { known, stop: () => clearInterval(timer) };
}

/** `looks`: how many in a row found that the clocks differ. */
type ClockSeen = { readonly looks: number; readonly isTold: boolean };

const CLOCKS_DIFFER = "the clock of this machine and that of the store differ: both need NTP";
const OWNS_NOTHING = "this node is no master with accounts any more";

/**
 * The clock with the latest answer. An old answer may be that of another node, which had the bucket
 * before a failover.
 */
function newestClock(clocks: readonly StoreClock[]): StoreClock | undefined {
  return clocks
    .filter(({ ageMs }) => ageMs < CLOCK_OLD_MS)
    .toSorted((one, other) => one.ageMs - other.ageMs)[0];
}

/** The pause between two lines about losses: a loss seldom concerns only one account. */
const LOSSES_EACH_MS = 60_000;
/** The pause between two questions whether a count was reset. */
const ASKS_EACH_MS = 1_000;

/**
 * Reports, at most once a minute, that the store has lost charges that it had reported: after a
 * FLUSHALL, a failover to a replica that was behind, a restart, or an eviction. An account that had
 * used up the window may use it again. Counts that a reset lowered are not lost. `wasReset` asks the
 * store itself, because the message of a reset comes later, or not while bucket 0 is unreachable.
 */
export function lostCountReporter(
  shown: string,
  report: Reporter,
  wasReset: (accountRef: AccountRef, lost: LostCount) => Promise<boolean>,
) {
  let toldMs = Number.NEGATIVE_INFINITY;
  let isAsking = false;
  const ask = async (accountRef: AccountRef, lost: LostCount) => {
    if (await wasReset(accountRef, lost).catch(() => false)) return;
    toldMs = performance.now();
    const { environment, account } = accountRef;
    const { window, used, was } = lost;
    const why = "the store has lost charges of a window that is not over";
    const counts = { environment, account, window, used, was };
    report("error", "counter_regression", { store: shown, ...counts, why });
  };
  return (accountRef: AccountRef, lost: LostCount): void => {
    if (isAsking || performance.now() - toldMs < LOSSES_EACH_MS) return;
    isAsking = true;
    void ask(accountRef, lost).finally(() => {
      const asked = () => {
        isAsking = false;
      };
      setTimeout(asked, ASKS_EACH_MS).unref();
    });
  };
}
