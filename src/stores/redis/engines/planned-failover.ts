import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { RedisUrl } from "../../../config/schema/addresses.ts";
import { formatHostPort, type HostPort } from "../../../core/address.ts";
import { StrictRedis } from "../connection/strict-redis.ts";
import { bucketSlot } from "../hash-slots.ts";
import { atHost, type LinkOptions, sendOn } from "../link.ts";
import { toStoreFailure } from "../store-failure.ts";
import { SentinelClient } from "./sentinel-client.ts";
import { addressOfReplica, replicaMember, toAddress } from "./sentinels.ts";

/** The node that is the master now, as `host:port`, or why there was no failover, in words. */
export type FailoverOutcome =
  | { readonly ok: true; readonly master: string }
  | { readonly ok: false; readonly why: string };

const DONE_MS_MAX = 30_000;
const LOOK_MS = 50;

/**
 * Calls SENTINEL FAILOVER, and waits until the old master is a replica, some ten seconds later.
 * Until then the old master accepts writes that are lost.
 */
export function failOverSentinel(
  { hosts, master: name, ...login }: RedisUrl,
  link: LinkOptions,
): Promise<FailoverOutcome> {
  const open = (host: HostPort) => new SentinelClient(atHost(link, host), login);
  return withFirst(hosts, open, async (sentinel) => {
    const master = async () => {
      const found = await sendOn(sentinel, "sentinel", ["get-master-addr-by-name", name]);
      const [host, port] = (found ?? []) as string[];
      return toAddress(host, port);
    };
    const before = await master();
    await sendOn(sentinel, "sentinel", ["failover", name]);
    return until(async () => {
      const now = await master();
      const replicas = await sendOn(sentinel, "sentinel", ["replicas", name]);
      const old = (replicas as string[][]).find((one) => addressOfReplica(one) === before);
      return old !== undefined && replicaMember(old, "master-link-status") === "ok"
        ? now
        : undefined;
    });
  });
}

/**
 * Calls CLUSTER FAILOVER at a replica of the master of bucket 0, and waits until it has the slots.
 */
export function failOverCluster(
  seeds: readonly HostPort[],
  link: LinkOptions,
): Promise<FailoverOutcome> {
  const open = (host: HostPort) => new StrictRedis(atHost(link, host));
  return withFirst(seeds, open, async (seed) => {
    const [, replica] = await nodesOfBucket0(seed);
    if (replica === undefined) return { ok: false, why: "the master of bucket 0 has no replica" };
    return withFirst([replica], open, async (promoted) => {
      await sendOn(promoted, "cluster", ["failover"]);
      const wanted = formatHostPort(replica);
      return until(async () => {
        const [master] = await nodesOfBucket0(promoted);
        return master !== undefined && formatHostPort(master) === wanted ? wanted : undefined;
      });
    });
  });
}

/** The master of bucket 0 and its replicas. */
async function nodesOfBucket0(node: Redis): Promise<readonly HostPort[]> {
  const slot = bucketSlot(0);
  const ranges = (await sendOn(node, "cluster", ["slots"])) as [number, number, ...unknown[]][];
  const range = ranges.find(([first, last]) => slot >= first && slot <= last) ?? [];
  return (range.slice(2) as [string, number][]).map(([host, port]) => {
    return { host: host || String(node.options.host), port };
  });
}

async function until(look: () => Promise<string | undefined>): Promise<FailoverOutcome> {
  const untilMs = performance.now() + DONE_MS_MAX;
  while (performance.now() < untilMs) {
    const master = await look();
    if (master !== undefined) return { ok: true, master };
    await pause(LOOK_MS);
  }
  return { ok: false, why: `the failover was not over within ${DONE_MS_MAX / 1_000} s` };
}

/** Runs the work on the first of these hosts that can be reached. */
async function withFirst(
  hosts: readonly HostPort[],
  open: (host: HostPort) => Redis,
  work: (redis: Redis) => Promise<FailoverOutcome>,
): Promise<FailoverOutcome> {
  let why = "no host is named";
  for (const host of hosts) {
    const redis = open(host);
    redis.on("error", () => undefined);
    try {
      await redis.connect();
      return await work(redis);
    } catch (error) {
      const failure = toStoreFailure(error);
      why = failure.message;
      if (failure.code !== "unreachable") break;
    } finally {
      redis.disconnect();
    }
  }
  return { ok: false, why };
}
