import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import type { TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import { openReplyProxy } from "../support/wire/reply-proxy.ts";
import {
  askTimed,
  changes,
  changesButLate,
  dayUsed,
  metric,
  openHouseBehind,
  openRedisHouse,
  readyWithin,
  startLoad,
  type Told,
} from "./redis-house.ts";

const { server, redis } = await useRedis();

const LOCAL = 'tollgate_store_unavailable_decisions_total{mode="local"}';

/** The one key of the store that holds an account. */
async function keyOf(account: string): Promise<string> {
  const [key = ""] = await redis.keys(`tg:*:production:${account}`);
  return key;
}

describe("2.1 Clock skew between gateways: clocks", () => {
  it("of gateways an hour apart give the same Reset and one count", async () => {
    const keys = { [KEY]: { id: "both" } };
    await using early = await openRedisHouse(server, { keys, now: () => Date.now() - 3_600_000 });
    await using late = await openRedisHouse(server, { keys, now: () => Date.now() + 3_600_000 });
    const decidedHere = async () => (await metric(early, LOCAL)) + (await metric(late, LOCAL));
    let told: Told[] = [];
    let local = 0;
    // Where the machine stalls for 50 ms a gateway decides by its own: such a round is void.
    for (let round = 0; round === 0 || (round < 5 && local > 0); round++) {
      const before = await decidedHere();
      told = [];
      for (let i = 0; i < 64; i++) told.push(await askTimed(i % 2 === 0 ? early : late, KEY));
      local = (await decidedHere()) - before;
      if (local > 0) await redis.flushall();
    }
    const admitted = told.filter(({ status }) => status === 200);
    assert.equal(admitted.length, 60);
    assert.deepEqual(
      admitted.map(({ remaining }) => remaining),
      admitted.map((_, i) => 59 - i),
    );
    assert.deepEqual([...new Set(told.map(({ reset }) => reset))].length, 1);
    assert.equal((told[0]?.reset ?? 0) % 86_400, 0);
  });
});

describe("2.1 Redis clock goes back: over an edge it", () => {
  it("opens no window that was spent before: what is left of the later one is all there is", async () => {
    await using house = await openRedisHouse(server);
    const { key, account } = await house.issue();
    await askTimed(house, key);
    const tomorrowMs = (Math.floor(Date.now() / 86_400_000) + 1) * 86_400_000;
    await redis.hset(await keyOf(account), "d", `${tomorrowMs} 59 0`);
    const told = [await askTimed(house, key), await askTimed(house, key)];
    assert.deepEqual(
      told.map(({ status, remaining, reset }) => [status, remaining, reset * 1_000]),
      [
        [200, 0, tomorrowMs + 86_400_000],
        [429, 0, tomorrowMs + 86_400_000],
      ],
    );
    assert.equal(house.said.filter(({ msg }) => msg === "counter_repaired").length, 0);
  });
});

it.each([
  ["ends with its window by the clock of Redis, also when that is set an hour ahead", 3_600_000],
  [
    "is decided again when the clock of Redis is set an hour back, because its end moves",
    -3_600_000,
  ],
])("a refusal that is known %s", async (_, byMs) => {
  await using proxy = await openReplyProxy(server);
  await using house = await openRedisHouse(proxy, {
    config: { plans: { free: { hour: 1 } }, bans: "off" },
  });
  const { key } = await house.issue();
  const by = async () => {
    await eventually(async () => (await askTimed(house, key)).status === 429);
    return house.lines.at(-1)?.by;
  };
  await eventually(async () => assert.equal(await by(), "memory"));
  // A heartbeat tells the time of Redis. Decisions, which carry a sum, tell it as it is.
  let shifted = 0;
  proxy.behave(({ name }, reply) => {
    const text = reply.toString();
    const now = /^\*2\r\n\$\d+\r\n\S+\r\n\*\d+\r\n:\d+\r\n:(\d{13})\r\n/.exec(text)?.[1];
    if (name !== "evalsha" || now === undefined) return undefined;
    shifted += 1;
    return [Buffer.from(text.replace(now, String(Number(now) + byMs)))];
  });
  await eventually(() => assert.ok(shifted > 0));
  await eventually(async () => assert.equal(await by(), "store"));
});

describe("2.1 CLIENT PAUSE / BUSY script", () => {
  const HELD_MS = 700;
  const holds = [
    {
      how: "a pause",
      hold: () => redis.client("PAUSE", HELD_MS),
    },
    {
      how: "a busy script",
      hold: async () => {
        await redis.config("SET", "busy-reply-threshold", "100");
        const text = `
          local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
          local ends = now() + ${HELD_MS}
          while now() < ends do end`;
        await redis.eval(text, 0);
      },
    },
  ];
  async function holdUntilAway(house: TestGateway, hold: () => Promise<unknown>): Promise<boolean> {
    const isAway = changes(house).includes("store_away");
    if (!isAway) await hold();
    return isAway;
  }

  for (const { how, hold } of holds) {
    it(`(${how}) is an absence like any other: answers go on, and each request is charged once`, async () => {
      await using house = await openHouseBehind(server);
      const { key, account } = await house.issue({ plan: "enterprise", limits: { day: 100_000 } });
      const load = startLoad(house, [key], 200);
      await eventually(() => load.told.length > 50);
      // Four calls in a row must be late: a machine that stands still meanwhile sends fewer.
      await eventually(() => holdUntilAway(house, hold), { everyMs: 1.5 * HELD_MS });
      await eventually(() => changes(house).includes("store_back"));
      const told = await load.stop();
      assert.deepEqual(
        told.filter(({ status }) => status !== 200),
        [],
      );
      assert.deepEqual(changesButLate(house), ["store_away", "store_back"]);
      await readyWithin(house, 2_000);
      // A last answer that was late is owed until the next heartbeat.
      await eventually(async () => assert.equal(await dayUsed(house, account), told.length));
      await house.law();
    });
  }
});

describe("2.4 Event-loop stall: one that Redis has no part in", () => {
  it("raises no alarm: every answer is the store's", async () => {
    // Redis on a busy machine answers within this, and the event loop stands still for longer.
    const timeoutMs = 500;
    const config = { storeTimeout: `${timeoutMs}ms` };
    await using house = await openRedisHouse(server, { config });
    const { key, account } = await house.issue({ plan: "enterprise", limits: { day: 100_000 } });
    await askTimed(house, key);
    const held = new Int32Array(new SharedArrayBuffer(4));
    const load = startLoad(house, [key], 300);
    for (let i = 0; i < 5; i++) {
      await sleep(20);
      Atomics.wait(held, 0, 0, 1.4 * timeoutMs);
    }
    const told = await load.stop();
    assert.deepEqual(
      told.filter(({ status }) => status !== 200),
      [],
    );
    assert.equal(await metric(house, LOCAL), 0);
    assert.deepEqual(changes(house), []);
    assert.equal(await dayUsed(house, account), told.length + 1);
    await house.law();
  });
});
