import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import { accountKey, bucketOf } from "../../../src/stores/quotas/redis/account-key.ts";
import { crc16 } from "../../../src/stores/redis/hash-slots.ts";
import { connectRedis } from "../../../src/stores/redis/single-link.ts";
import { each } from "../../support/each.ts";
import { DEFAULT_BANS } from "../../support/gateway/default-bans.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { startCluster, type TestCluster } from "../../support/redis/redis-engines.ts";
import { account, open, perDay, spend } from "../quotas/redis/redis-kit.ts";

describe("Redis Cluster", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  /** The count of an account in the store, wherever its key is now. */
  async function counted(name: string): Promise<number> {
    const key = accountKey("tg", account(name));
    let sum = 0;
    for (const redis of cluster.clients) {
      const text = await redis.hget(key, "d").catch(() => null);
      sum += Number(text?.split(" ")[1] ?? 0);
    }
    return sum;
  }

  it("counts exactly, with accounts on every node and one call a bucket", async (t) => {
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const names = Array.from({ length: 300 }, (_, i) => `all${i}`);
    const answers = await Promise.all(
      names.flatMap((name) =>
        Array.from({ length: 5 }, () => spend(store, account(name), perDay(3))),
      ),
    );
    assert.equal(answers.filter(({ admitted }) => admitted).length, 900);
    assert.equal(new Set(names.map((name) => bucketOf(account(name)))).size, 16);
    const calls = await Promise.all(cluster.nodes.map((node) => node.calls("evalsha")));
    assert.ok(
      each(calls).every((each) => each > 0),
      `${calls}`,
    );
    assert.ok(calls.reduce((sum, each) => sum + each, 0) <= 40, `${calls}`);
    assert.deepEqual(failures, []);
    assert.deepEqual(store.health(), { ok: true });
  });

  it("is well as soon as its store is open: each node that owns keys is connected then", async (t) => {
    // Told of one node only, it learns of the others from that one.
    const url = cluster.address.url.replace(/,[^/]*/, "");
    const { store } = await open({ ...cluster.address, url });
    t.onTestFinished(() => store.close());
    assert.deepEqual(store.health(), { ok: true });
  });

  it("lists and lifts bans of every node, and tells the other gateways", async (t) => {
    const [one, other] = [await open(cluster.address), await open(cluster.address)];
    t.onTestFinished(
      async () => void (await Promise.all([one.store.close(), other.store.close()])),
    );
    const ask = perDay(1, { ...DEFAULT_BANS, strikes: 1, graceMs: 0 });
    const names = Array.from({ length: 12 }, (_, i) => `ban${String(i).padStart(2, "0")}`);
    for (const name of names) {
      await eventually(
        async () => (await spend(one.store, account(name), ask)).verdict.ban !== undefined,
      );
      assert.ok((await spend(other.store, account(name), ask)).verdict.ban);
    }
    const listed = await one.store.bans();
    assert.deepEqual(listed.map((ban) => ban.account).sort(), names);
    for (const name of names) assert.equal(await one.store.liftBan(account(name)), true);
    const liftedAtMs = performance.now();
    const { stalledMs } = await watchStalls(async () => {
      for (const name of names) {
        await eventually(async () => (await spend(other.store, account(name), perDay(9))).admitted);
      }
    });
    assert.ok(performance.now() - liftedAtMs < 1_000 + stalledMs);
    assert.deepEqual(await one.store.bans(), []);
  });

  it("fails no request and charges none twice while a slot moves under load", async (t) => {
    const { store, failures } = await open(cluster.address, { historyMs: 86_400_000 });
    t.onTestFinished(() => store.close());
    const bucket = 3;
    const names: string[] = [];
    for (let i = 0; names.length < 24; i++) {
      if (bucketOf(account(`m${i}`)) === bucket) names.push(`m${i}`);
    }
    const admitted = new Map<string, number>();
    let running = true;
    t.onTestFinished(() => {
      running = false;
    });
    const load = Array.from({ length: 48 }, async (_, i) => {
      for (let round = i; running; round++) {
        const name = names[round % names.length] as string;
        const answer = await store.charge(account(name), perDay(1e9));
        if ("admitted" in answer && answer.admitted)
          admitted.set(name, (admitted.get(name) ?? 0) + 1);
        if (round % 8 === 0) await sleep(1);
      }
    });
    const slot = crc16(String(bucket)) % 16_384;
    const to = (cluster.ownerOf(slot) + 1) % 3;
    await cluster.move(slot, to, () => sleep(15));
    await sleep(300);
    running = false;
    await Promise.all(load);
    await settled(store);
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

  async function settled(store: QuotaStore): Promise<void> {
    await eventually(() => store.health().ok);
  }

  it("lets any number of requests wait for a node that is being connected, without a warning", async (t) => {
    const warnings: string[] = [];
    const onWarning = ({ name, message }: Error) => warnings.push(`${name}: ${message}`);
    process.on("warning", onWarning);
    t.onTestFinished(() => void process.off("warning", onWarning));
    // It takes connections, and says nothing on them until it goes on.
    const silent = cluster.nodes[1];
    silent?.stop();
    t.onTestFinished(() => silent?.cont());
    const link = connectRedis({ address: cluster.address });
    t.onTestFinished(() => link.close());
    await eventually(() => link.partOf(0)?.node !== "no node");
    const keys = Array.from({ length: 16 * 20 }, (_, i) => `tg:{${i % 16}}:none`);
    const asked = Promise.all(keys.map((key) => link.send(key, "get", [key])));
    silent?.cont();
    const answers = await asked;
    assert.ok(each(answers).every((answer) => answer === null));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(warnings, []);
  });
});
