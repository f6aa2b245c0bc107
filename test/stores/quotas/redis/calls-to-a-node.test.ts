import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey, bucketOf } from "../../../../src/stores/quotas/redis/account-key.ts";
import { BUCKET_COUNT, bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { each } from "../../../support/each.ts";
import { eventually } from "../../../support/poll.ts";
import { startCluster, type TestCluster } from "../../../support/redis/redis-engines.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

/** So many accounts of each bucket. */
function namesOf(buckets: readonly number[], count: number, tag: string): string[] {
  return buckets.flatMap((bucket) => {
    const names: string[] = [];
    for (let i = 0; names.length < count; i++) {
      if (bucketOf(account(`${tag}${i}`)) === bucket) names.push(`${tag}${i}`);
    }
    return names;
  });
}

const ALL = Array.from({ length: BUCKET_COUNT }, (_, bucket) => bucket);

describe("accounts of several buckets of one node", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  const ownerOf = (bucket: number) => cluster.ownerOf(bucketSlot(bucket));
  const callsOf = () => Promise.all(cluster.nodes.map((node) => node.calls("evalsha")));

  async function counted(name: string): Promise<number> {
    let sum = 0;
    for (const redis of cluster.clients) {
      const text = await redis.hget(accountKey("tg", account(name)), "d").catch(() => null);
      sum += Number(text?.split(" ")[1] ?? 0);
    }
    return sum;
  }

  async function wave(store: QuotaStore, names: readonly string[], limit = 1e9) {
    return Promise.all(names.map((name) => spend(store, account(name), perDay(limit))));
  }

  it("are decided in one call, each to its own limit", async (t) => {
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const names = namesOf(ALL, 4, "one");
    // The first calls to each bucket learn its clock.
    await wave(store, names, 3);
    const before = await callsOf();
    const answers = await wave(store, [...names, ...names, ...names], 3);
    const calls = (await callsOf()).map((count, i) => count - (before[i] ?? 0));
    assert.deepEqual(calls, [1, 1, 1]);
    assert.equal(answers.filter(({ admitted }) => admitted).length, 2 * names.length);
    for (const name of names) assert.equal(await counted(name), 3, name);
    assert.deepEqual(failures, []);
  });

  it("fail no request and charge none twice while the slot of one of them moves under load", async (t) => {
    const { store, failures } = await open(cluster.address, { historyMs: 86_400_000 });
    t.onTestFinished(() => store.close());
    const bucket = 3;
    const near = ALL.filter((each) => ownerOf(each) === ownerOf(bucket));
    assert.ok(near.length > 2);
    const names = namesOf(near, 6, "moves");
    const admitted = new Map<string, number>();
    let running = true;
    t.onTestFinished(() => {
      running = false;
    });
    const load = Array.from({ length: 64 }, async (_, i) => {
      for (let round = i; running; round++) {
        const name = names[round % names.length] as string;
        const answer = await store.charge(account(name), perDay(1e9));
        if ("admitted" in answer && answer.admitted)
          admitted.set(name, (admitted.get(name) ?? 0) + 1);
        if (round % 8 === 0) await sleep(1);
      }
    });
    await cluster.move(bucketSlot(bucket), (ownerOf(bucket) + 1) % 3, () => sleep(15));
    await sleep(300);
    running = false;
    await Promise.all(load);
    await eventually(() => store.health().ok);
    assert.deepEqual(
      failures.map(({ message }) => message),
      [],
    );
    assert.ok([...admitted.values()].reduce((sum, each) => sum + each, 0) > 500);
    for (const name of names) assert.equal(await counted(name), admitted.get(name) ?? 0, name);
    const today = Math.floor(Date.now() / 86_400_000);
    const days = await store.history(names.map(account), { from: today - 1, to: today });
    for (const [i, name] of names.entries()) {
      const units = days[i]?.reduce((sum, day) => sum + day.units, 0);
      assert.equal(units, admitted.get(name) ?? 0, `the history of ${name}`);
    }
  });

  it("are decided where their slots are after a move that the gateway has not heard of", async (t) => {
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const bucket = 8;
    const names = namesOf(ALL, 3, "gone");
    await wave(store, names);
    await cluster.move(bucketSlot(bucket), (ownerOf(bucket) + 1) % 3, async () => {});
    for (const answer of each(await wave(store, names))) {
      assert.deepEqual([answer.by, answer.admitted], ["store", true]);
    }
    for (const name of names) assert.equal(await counted(name), 2, name);
    assert.deepEqual(failures, []);
  });

  it("go in calls for each bucket where the server lets a script have no keys of its own", async (t) => {
    for (const redis of cluster.clients) {
      // Only keys of accounts: the key with which a bucket is tried is not one.
      await redis.call("ACL", "SETUSER", "strict", "on", ">pw", "~tg:{*}:*", "&*", "+@all");
    }
    const url = cluster.address.url.replace("://", "://strict:pw@");
    const { store, failures } = await open({ ...cluster.address, url });
    t.onTestFinished(() => store.close());
    const names = namesOf(ALL, 3, "strict");
    for (let i = 1; i <= 3; i++) {
      const answers = await wave(store, names);
      assert.ok(each(answers).every(({ by, admitted }) => by === "store" && admitted));
    }
    for (const name of names) assert.equal(await counted(name), 3, name);
    assert.deepEqual(failures, []);
  });

  it("are given up alone when their bucket is stuck, and the others of the node have their answers", async (t) => {
    const { store, failures } = await open(cluster.address, { timeoutMs: 2_000 });
    t.onTestFinished(() => store.close());
    const near = ALL.filter((each) => ownerOf(each) === 0 && each !== 3 && each !== 8);
    const [stuck, ...others] = near as [number, ...number[]];
    assert.ok(others.length > 0);
    const names = namesOf(near, 2, "stuck");
    await wave(store, names);
    // The slot moves to a node that then says nothing.
    const target = cluster.nodes[1];
    await cluster.move(bucketSlot(stuck), 1, async () => {});
    target?.stop();
    t.onTestFinished(() => target?.cont());
    const startMs = performance.now();
    const answers = await Promise.all(
      names.map(async (name) => {
        const answer = await store.charge(account(name), perDay(1e9));
        return { name, answer, tookMs: performance.now() - startMs };
      }),
    );
    for (const { name, answer, tookMs } of answers) {
      const isStuck = bucketOf(account(name)) === stuck;
      assert.equal("unavailable" in answer, isStuck, name);
      if (!isStuck) assert.ok(tookMs < 1_500, `${name} took ${tookMs} ms`);
    }
    assert.equal(failures.length, 1, `${failures}`);
  });
});
