import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { eventually } from "../../../support/poll.ts";
import type { TestCluster } from "../../../support/redis/redis-engines.ts";
import { account, type Opened, perDay } from "./redis-kit.ts";

/** So many accounts of each bucket. */
export function namesOf(buckets: readonly number[], count: number, tag: string): string[] {
  return buckets.flatMap((bucket) => {
    const names: string[] = [];
    for (let i = 0; names.length < count; i++) {
      if (bucketOf(account(`${tag}${i}`)) === bucket) names.push(`${tag}${i}`);
    }
    return names;
  });
}

/** The count of the day of an account in the store, wherever its key is. */
export async function countedIn({ clients }: TestCluster, name: string): Promise<number> {
  const key = accountKey("tg", account(name));
  let sum = 0;
  for (const redis of clients) {
    const text = await redis.hget(key, "d").catch(() => null);
    sum += Number(text?.split(" ")[1] ?? 0);
  }
  return sum;
}

/** Moves the hashes of meters of these accounts alone, as `moveKeys`. */
export function moveMeters(cluster: TestCluster, bucket: number, names: readonly string[]) {
  const keys = names.map((name) => `${accountKey("tg", account(name)).replace(":{", ":c{")}:m`);
  return moveKeys(cluster, bucket, keys);
}

/**
 * Begins to move the slot of a bucket to the next node, and moves these keys alone. What it returns
 * moves the rest.
 */
export async function moveKeys(cluster: TestCluster, bucket: number, keys: readonly string[]) {
  const slot = bucketSlot(bucket);
  const from = cluster.ownerOf(slot);
  const to = (from + 1) % cluster.nodes.length;
  const [source, target] = [cluster.clients[from], cluster.clients[to]];
  assert.ok(source !== undefined && target !== undefined);
  const [sourceId, targetId] = [await source.cluster("MYID"), await target.cluster("MYID")];
  await target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", sourceId);
  await source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", targetId);
  const migrate = (key: string) => {
    return source.call("MIGRATE", "127.0.0.1", Number(cluster.nodes[to]?.port), key, 0, 5_000);
  };
  for (const key of keys) assert.equal(await migrate(key), "OK", `${key} is there`);
  return async () => {
    for (const key of await source.cluster("GETKEYSINSLOT", slot, 10_000)) await migrate(key);
    for (const redis of [target, source]) {
      await redis.call("CLUSTER", "SETSLOT", slot, "NODE", targetId);
    }
  };
}

type Move = {
  readonly cluster: TestCluster;
  /** A store with history. */
  readonly opened: Opened;
  /** The bucket whose slot moves to the next node. */
  readonly bucket: number;
  readonly names: readonly string[];
  /** Charges under way at a time. */
  readonly clients: number;
};

/** Charges the accounts while the slot moves: no charge fails, and each is counted once. */
export async function chargeWhileMoving(move: Move): Promise<void> {
  const { cluster, bucket, names, clients } = move;
  const { store, failures } = move.opened;
  const admitted = new Map<string, number>();
  let running = true;
  const load = Array.from({ length: clients }, async (_, i) => {
    for (let round = i; running; round++) {
      const name = names[round % names.length] as string;
      const answer = await store.charge(account(name), perDay(1e9));
      if ("admitted" in answer && answer.admitted)
        admitted.set(name, (admitted.get(name) ?? 0) + 1);
      if (round % 8 === 0) await sleep(1);
    }
  });
  try {
    const slot = bucketSlot(bucket);
    await cluster.move(slot, (cluster.ownerOf(slot) + 1) % 3, () => sleep(15));
    await sleep(300);
  } finally {
    running = false;
  }
  await Promise.all(load);
  await eventually(() => store.health().ok);
  assert.deepEqual(
    failures.map(({ message }) => message),
    [],
  );
  assert.ok([...admitted.values()].reduce((sum, each) => sum + each, 0) > 500);
  for (const name of names) {
    assert.equal(await countedIn(cluster, name), admitted.get(name) ?? 0, name);
  }
  const today = Math.floor(Date.now() / 86_400_000);
  const days = await store.history(names.map(account), { from: today - 1, to: today });
  for (const [i, name] of names.entries()) {
    const units = days[i]?.reduce((sum, day) => sum + day.units, 0);
    assert.equal(units, admitted.get(name) ?? 0, `the history of ${name}`);
  }
}
