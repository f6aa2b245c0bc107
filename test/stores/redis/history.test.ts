import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { accountKey } from "../../../src/stores/redis/keyspace.ts";
import { redisOfFile } from "../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

const { server, redis } = await redisOfFile();
const DAY_MS = 86_400_000;
const OCTOBER_30 = Date.UTC(2026, 9, 30);
const name = account("kept");
const october = `${accountKey("tg", name).replace(":{", ":h{")}:${Date.UTC(2026, 9) / DAY_MS}`;

async function openAt(nowMs: () => number, historyMs: number | "off" = 400 * DAY_MS) {
  const kept = historyMs === "off" ? {} : { historyMs };
  return (await open(server.address, { ...kept, now: nowMs })).store;
}

async function calls(): Promise<number> {
  const stats = await redis.info("commandstats");
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

describe("usage by day in Redis", () => {
  it("writes nothing where it is off", async () => {
    const store = await openAt(() => OCTOBER_30, "off");
    await spend(store, name, perDay(10));
    await store.close();
    assert.deepEqual(await redis.keys("*"), [accountKey("tg", name)]);
  });

  it("costs no command of its own", async () => {
    const store = await openAt(() => OCTOBER_30);
    await spend(store, name, perDay(1_000));
    const before = await calls();
    for (let i = 0; i < 50; i++) await spend(store, name, perDay(1_000));
    assert.equal((await calls()) - before, 50);
    await store.close();
    assert.deepEqual(await redis.hgetall(october), { 87: "51" });
  });

  it("leaves with the time of the history after the end of its month", async () => {
    const store = await openAt(() => OCTOBER_30);
    await spend(store, name, perDay(10));
    const life = 400 * DAY_MS + Date.UTC(2026, 10) - OCTOBER_30;
    const left = await redis.pttl(october);
    assert.ok(left <= life && left > life - 60_000, `${left} of ${life}`);
    await store.close();

    const shorter = await openAt(() => OCTOBER_30 + DAY_MS, DAY_MS);
    await spend(shorter, name, perDay(10));
    assert.ok((await redis.pttl(october)) > life - 120_000, "a new time shortens nothing");
    await shorter.close();
  });

  it("takes at most 24 bytes a day, and nothing of the 300 of the account", async () => {
    let nowMs = Date.UTC(2026, 9, 1);
    const store = await openAt(() => nowMs);
    await spend(store, name, perDay(1_000_000));
    const first = Number(await redis.memory("USAGE", october));
    for (let day = 1; day < 31; day++) {
      nowMs += DAY_MS;
      for (let i = 0; i < 3; i++) await spend(store, name, { ...perDay(1_000_000), cost: 9_000 });
      const field = 3 * day;
      await redis.hincrby(october, `${field}`, 29_000);
      await redis.hincrby(october, `${field + 2}`, 30_000);
    }
    await store.close();
    const grown = Number(await redis.memory("USAGE", october)) - first;
    assert.ok(grown / 30 <= 24, `${grown / 30} bytes a day`);
    assert.deepEqual(Object.keys(await redis.hgetall(accountKey("tg", name))), ["d"]);
  });

  it("begins anew where its hash or a number of it is damaged, and charges as ever", async () => {
    const store = await openAt(() => OCTOBER_30);
    for (const harm of [
      () => redis.set(october, "no hash"),
      () => redis.hset(october, 87, "no number"),
      () => redis.hset(october, 87, "9223372036854775807"),
    ]) {
      await redis.flushall();
      await harm();
      const answer = await spend(store, name, perDay(10));
      assert.equal(answer.verdict.windows[0]?.used, 1);
      assert.deepEqual(await redis.hgetall(october), { 87: "1" });
    }
    await store.close();
  });
});
