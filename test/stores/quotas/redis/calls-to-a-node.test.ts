import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { QuotaDecision } from "../../../../src/core/quota/decide.ts";
import { bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import { laterOf } from "../../../../src/stores/quotas/batch/outcomes.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { BUCKET_COUNT, bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { each } from "../../../support/each.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { startCluster, type TestCluster } from "../../../support/redis/redis-engines.ts";
import { chargeWhileMoving, countedIn, namesOf } from "./moving-slot.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

const ALL = Array.from({ length: BUCKET_COUNT }, (_, bucket) => bucket);

describe("accounts of several buckets of one node", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  const ownerOf = (bucket: number) => cluster.ownerOf(bucketSlot(bucket));
  /** The buckets of the first node that no test here has moved. */
  const stayed = () => ALL.filter((each) => ownerOf(each) === 0 && each !== 3 && each !== 8);
  const callsOf = () => Promise.all(cluster.nodes.map((node) => node.calls("evalsha")));

  const counted = (name: string) => countedIn(cluster, name);

  async function wave(store: QuotaStore, names: readonly string[], limit = 1e9) {
    return Promise.all(names.map((name) => spend(store, account(name), perDay(limit))));
  }

  it("have their calls of all deprecated operations in one command", async (t) => {
    const { store } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const calls = ["/v1/old", "/v1/older"].flatMap((route) => {
      return ["a", "b"].map((name) => ({
        ...{ environment: "production", method: "GET", route, account: name },
        ...{ requests: 2, last: 70 },
      }));
    });
    await store.activity.addCalls(calls);
    const before = (await callsOf()).reduce((sum, count) => sum + count, 0);
    const { sums } = await store.activity.addCalls(calls.map((one) => ({ ...one, requests: 0 })));
    assert.deepEqual(sums, calls);
    assert.equal((await callsOf()).reduce((sum, count) => sum + count, 0) - before, 1);
  });

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
    const opened = await open(cluster.address, { historyMs: 86_400_000 });
    t.onTestFinished(() => opened.store.close());
    const bucket = 3;
    const near = ALL.filter((each) => ownerOf(each) === ownerOf(bucket));
    assert.ok(near.length > 2);
    const names = namesOf(near, 6, "moves");
    await chargeWhileMoving({ cluster, opened, bucket, names, clients: 64 });
  });

  it("are decided where their slots are after a move that the gateway has not heard of", async (t) => {
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const bucket = 8;
    const names = namesOf(ALL, 3, "gone");
    await wave(store, names);
    await cluster.move(bucketSlot(bucket), (ownerOf(bucket) + 1) % 3, async () => {});
    for (const result of each(await wave(store, names))) {
      assert.deepEqual([result.by, result.admitted], ["store", true]);
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

  it("have their own decisions of a call whose connection was given up before its reply", async (t) => {
    const link = connectRedis({ address: cluster.address });
    t.onTestFinished(() => link.close());
    await link.tried;
    const quotaClient = createQuotaClient(link, "tg", {});
    const names = namesOf(stayed().slice(0, 2), 2, "late");
    const asks = names.map((name, i) => {
      return { accountRef: account(name), quotaRequest: perDay(10 + i) };
    });
    const groups = [asks.slice(0, 2), asks.slice(2)];
    const decide = () => Promise.all(quotaClient.decideGroups(groups));
    const limitsOf = (outcomes: readonly unknown[]) => {
      return outcomes.map((outcome) => {
        const [window] = (outcome as QuotaDecision).windows;
        return [window?.limit, window?.used];
      });
    };
    const inTime = (await decide()).flat();
    assert.deepEqual(limitsOf(inTime), [
      [10, 1],
      [11, 1],
      [12, 1],
      [13, 1],
    ]);
    const list = `${accountKey("tg", account(String(names[0])))}:list`;
    // The node reads nothing more of the connection on which this waits.
    link.send(list, "blpop", [list, 0]).catch(() => undefined);
    const laters = (await decide()).flat().map(laterOf);
    assert.ok(each(laters).every((later) => later !== undefined));
    await cluster.clients[0]?.rpush(list, "a");
    assert.deepEqual(limitsOf(await Promise.all(laters)), [
      [10, 2],
      [11, 2],
      [12, 2],
      [13, 2],
    ]);
  });

  it("are given up alone when their bucket is stuck, and the others of the node have their answers", async (t) => {
    const { store, failures } = await open(cluster.address, { timeoutMs: 2_000 });
    t.onTestFinished(() => store.close());
    const near = stayed();
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
    const { value: answers, stalledMs } = await watchStalls(() => {
      return Promise.all(
        names.map(async (name) => {
          const answer = await store.charge(account(name), perDay(1e9));
          return { name, answer, tookMs: performance.now() - startMs };
        }),
      );
    });
    for (const { name, answer, tookMs } of answers) {
      const isStuck = bucketOf(account(name)) === stuck;
      assert.equal("unavailable" in answer, isStuck, name);
      const told = `${name} took ${tookMs} ms, ${stalledMs} stalled`;
      if (!isStuck) assert.ok(tookMs < 1_500 + stalledMs, told);
    }
    assert.equal(failures.length, 1, `${failures}`);
  });
});
