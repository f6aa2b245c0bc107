import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, it, vi } from "vitest";
import { watchEviction } from "../../src/stores/quotas/redis/store/store-warnings.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import {
  askTimed,
  changes,
  dayUsed,
  isReady,
  metric,
  openRedisHouse,
  readyWithin,
} from "./redis-house.ts";

afterEach(async () => {
  await redis.config("SET", "maxmemory", "0");
  await redis.config("SET", "maxmemory-policy", "noeviction");
  await redis.replicaof("NO", "ONE");
});
const { server, redis } = await useRedis();

const PER_SECOND_AND_DAY = { free: { second: 1_000, day: 60 }, enterprise: "custom" };
const UNSAFE = "tollgate_store_unsafe_policy";

/** The one key of the store that holds an account. */
async function keyOf(account: string): Promise<string> {
  const [key = ""] = await redis.keys(`tg:*:production:${account}`);
  return key;
}

async function connectionsSoFar(): Promise<number> {
  return Number(/^total_connections_received:(\d+)/m.exec(await redis.info("stats"))?.[1]);
}

/** Asks until the gateway has noticed; every answer meanwhile must be an admission. */
async function notices(house: TestGateway, key: string): Promise<number> {
  let asked = 0;
  await eventually(async () => {
    asked += 1;
    assert.equal((await askTimed(house, key)).status, 200);
    return changes(house).includes("store_away");
  });
  return asked;
}

describe("Redis that takes no writes", () => {
  const cases = [
    {
      what: "2.1 OOM",
      code: "OOM",
      begin: () => redis.config("SET", "maxmemory", "1"),
      end: () => redis.config("SET", "maxmemory", "0"),
    },
    {
      what: "2.1 Read-only replica",
      code: "READONLY",
      begin: () => redis.replicaof("127.0.0.1", 1),
      end: () => redis.replicaof("NO", "ONE"),
    },
  ];
  for (const { what, code, begin, end } of cases) {
    it(`${what}: it is away: every request is decided here, charged once when it is over, and told once`, async () => {
      await using house = await openRedisHouse(server);
      const { key, account } = await house.issue({ plan: "enterprise", limits: { day: 10_000 } });
      assert.equal((await askTimed(house, key)).status, 200);
      const connected = await connectionsSoFar();
      await begin();
      let asked = 1 + (await notices(house, key));
      const away = house.said.find(({ kind }) => kind === "store_away");
      assert.equal(away?.code, code);
      assert.equal((await isReady(house)).status, 503);
      // Long enough for three probes: none of them may take the store to be back.
      for (const endMs = performance.now() + 1_600; performance.now() < endMs; asked++) {
        assert.equal((await askTimed(house, key)).status, 200);
        await sleep(20);
      }
      assert.deepEqual(changes(house), ["store_away"]);
      const anew = (await connectionsSoFar()) - connected;
      assert.ok(anew <= 20, `${anew} connections in 1.6 s`);
      await end();
      await readyWithin(house, 2_000);
      await eventually(async () => assert.equal(await dayUsed(house, account), asked));
      await askTimed(house, key);
      assert.equal(await dayUsed(house, account), asked + 1);
      assert.deepEqual(changes(house), ["store_away", "store_back"]);
      await house.law();
    });
  }
});

describe("2.1 Eviction policy: one that drops counters", () => {
  it("is told once and shown as a metric; noeviction is not", async () => {
    await using safe = await openRedisHouse(server);
    await redis.config("SET", "maxmemory-policy", "allkeys-lru");
    await using unsafe = await openRedisHouse(server);
    await eventually(async () => assert.equal(await metric(unsafe, UNSAFE), 1));
    const warnings = unsafe.said.filter(({ msg }) => msg === "store_evicts");
    assert.equal(warnings.length, 1);
    assert.deepEqual([warnings[0]?.level, warnings[0]?.maxmemoryPolicy], ["warn", "allkeys-lru"]);
    assert.equal(await metric(safe, UNSAFE), 0);
    assert.equal(safe.said.filter(({ msg }) => msg === "store_evicts").length, 0);
  });

  it("is asked for each minute, and told when it changes, either way", async (t) => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    t.onTestFinished(() => void vi.useRealTimers());
    const told: unknown[] = [];
    let [policy, asked] = ["noeviction", 0];
    const send = async () => {
      asked += 1;
      return `maxmemory_policy:${policy}\r\n`;
    };
    const link = { tried: Promise.resolve(), masters: async () => [{ send }] };
    const eviction = watchEviction(link, "redis://a", (level, message) => {
      told.push([level, message]);
    });
    // Promises settle between the ticks of the clock.
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    await settle();
    for (policy of ["allkeys-lfu", "allkeys-lfu", "noeviction"]) {
      const before = asked;
      vi.advanceTimersByTime(59_999);
      await settle();
      assert.equal(asked, before);
      vi.advanceTimersByTime(1);
      await settle();
      assert.equal(asked, before + 1);
      assert.equal(eviction.unsafe(), policy !== "noeviction");
    }
    eviction.stop();
    assert.deepEqual(told, [
      ["warn", "store_evicts"],
      ["info", "store_evicts_no_more"],
    ]);
  });

  it("is asked for again soon where the store was away at the start", async () => {
    await redis.config("SET", "maxmemory-policy", "allkeys-random");
    const late = await startRedis();
    await late.kill();
    await using house = await openRedisHouse(late);
    assert.equal(await metric(house, UNSAFE), 0);
    await late.restart();
    const client = await late.client();
    await client.config("SET", "maxmemory-policy", "volatile-ttl");
    await eventually(async () => assert.equal(await metric(house, UNSAFE), 1));
    await late.close();
  });
});

describe("2.1 FLUSHALL", () => {
  it("starts the counters at 0: no refusal, no odd number in a header, no crash, and it is told once", async () => {
    await using house = await openRedisHouse(server, { config: { plans: PER_SECOND_AND_DAY } });
    const [one, other] = [await house.issue(), await house.issue()];
    const lost = () => house.said.filter(({ msg }) => msg === "counter_regression");
    for (let i = 0; i < 30; i++) await askTimed(house, i % 2 === 0 ? one.key : other.key);
    // A window that ended has lost nothing.
    const second = Math.floor(Date.now() / 1_000);
    await eventually(() => Math.floor(Date.now() / 1_000) > second + 1, { everyMs: 100 });
    for (const { key } of [one, other]) await askTimed(house, key);
    assert.deepEqual(lost(), []);
    await redis.flushall();
    for (const { key, account } of [one, other]) {
      const told = await askTimed(house, key);
      assert.deepEqual([told.status, told.limit, told.remaining], [200, 60, 59]);
      assert.equal(await dayUsed(house, account), 1);
    }
    await eventually(() =>
      assert.deepEqual(
        lost().map(({ level, account, window, used, was }) => [level, account, window, used, was]),
        [["error", one.account, "day", 1, 16]],
      ),
    );
    assert.deepEqual(changes(house), []);
  });

  it("does not end a ban that a gateway knows of", async () => {
    const bans = { strikes: 1, within: "10s", grace: "0s", duration: "1h" };
    const config = { plans: { free: { day: 2 } }, bans };
    await using house = await openRedisHouse(server, { config });
    const { key } = await house.issue();
    await eventually(async () => (await askTimed(house, key)).code === "key_banned");
    await redis.flushall();
    for (let i = 0; i < 5; i++) assert.equal((await askTimed(house, key)).code, "key_banned");
    await sleep(1_200);
    assert.equal((await askTimed(house, key)).code, "key_banned", "after the next poll too");
  });

  it("ends no known refusal at the next change of other keys, only what follows from other windows", async () => {
    const bans = { strikes: 1, within: "10s", grace: "0s", duration: "1h" };
    const plans = { free: { day: 2 }, paid: { day: 3 } };
    await using house = await openRedisHouse(server, { config: { plans, bans } });
    const [banned, full] = [await house.issue(), await house.issue()];
    const codeOf = async ({ key }: typeof full) => (await askTimed(house, key)).code;
    await eventually(async () => (await codeOf(banned)) === "key_banned");
    await house.admin(`/api/accounts/${full.account}`, {
      method: "PATCH",
      body: '{"plan":"paid"}',
    });
    for (let i = 0; i < 3; i++) assert.equal(await codeOf(full), undefined);
    await eventually(async () => (await codeOf(full)) === "key_banned");
    await redis.flushall();
    const other = await house.issue();
    await house.admin(`/api/keys/${other.id}/revoke`, { method: "POST", body: "{}" });
    await house.admin(`/api/keys/${banned.id}/rotate`, { method: "POST", body: "{}" });
    assert.deepEqual([await codeOf(banned), await codeOf(full)], ["key_banned", "key_banned"]);
  });
});

describe("damage to one account", () => {
  it("2.1 WRONGTYPE on a counter key: it is repaired in place, told, and counted on together", async () => {
    await using one = await openRedisHouse(server);
    const { key, account } = await one.issue();
    await askTimed(one, key);
    const stored = await keyOf(account);
    await redis.del(stored);
    await redis.set(stored, "a text");
    assert.equal((await askTimed(one, key)).status, 200);
    assert.equal((await askTimed(one, key)).remaining, 58);
    assert.equal(await redis.type(stored), "hash");
    assert.equal(one.said.filter(({ msg }) => msg === "counter_repaired").length, 1);
    assert.deepEqual(changes(one), []);
  });

  it("2.1 TTL lost: it is made good by the next request", async () => {
    await using house = await openRedisHouse(server);
    const { key, account } = await house.issue();
    await askTimed(house, key);
    const stored = await keyOf(account);
    await redis.persist(stored);
    assert.equal(await redis.ttl(stored), -1);
    await askTimed(house, key);
    const toMidnight = 86_400 - (Math.floor(Date.now() / 1000) % 86_400);
    assert.ok((await redis.ttl(stored)) >= toMidnight - 2);
    assert.equal(await dayUsed(house, account), 2);
  });

  it("2.1 Redis clock goes back: a window of an impossible future is moved to now with its count, and told", async () => {
    await using house = await openRedisHouse(server);
    const { key, account } = await house.issue();
    await askTimed(house, key);
    const futureMs = (Math.floor(Date.now() / 86_400_000) + 400) * 86_400_000;
    await redis.hset(await keyOf(account), "d", `${futureMs} 40 0`);
    const told = await askTimed(house, key);
    assert.deepEqual([told.status, told.remaining], [200, 19]);
    assert.ok(told.reset * 1_000 <= Date.now() + 86_400_000);
    assert.equal(house.said.filter(({ msg }) => msg === "counter_repaired").length, 1);
  });
});
