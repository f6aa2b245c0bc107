import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { each } from "../support/each.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { useProxiedRedis } from "../support/redis/redis-of-file.ts";
import { askTimed, dayUsed, isReady, openRedisHouse, readyWithin } from "./redis-house.ts";

const LIMIT = 60;
const GATEWAYS = 3;

const { server, redis, proxy } = await useProxiedRedis();

/** Gateways of one store and one account, each of which knows by heartbeat that there are three. */
async function openThree() {
  const houses: TestGateway[] = [];
  for (let i = 0; i < GATEWAYS; i++) {
    houses.push(await openRedisHouse(proxy, { keys: { [KEY]: { id: "shared" } } }));
  }
  const there = () => redis.zcard("tg:{0}:gateways");
  await eventually(async () => assert.equal(await there(), GATEWAYS));
  // More than a beat later, each has seen the others and was answered.
  const [seconds, micros] = await redis.time();
  const beatenMs = Number(seconds) * 1_000 + Math.ceil(Number(micros) / 1_000) + 1_200;
  const beaten = () => redis.zcount("tg:{0}:gateways", beatenMs, "+inf");
  await eventually(async () => assert.equal(await beaten(), GATEWAYS));
  return {
    houses,
    cut: async () => {
      await proxy.refuse();
      for (const house of houses) {
        await eventually(async () => assert.equal((await isReady(house)).status, 503));
      }
    },
    heal: async () => {
      await proxy.listen();
      for (const house of houses) await readyWithin(house, 3_000);
    },
    [Symbol.asyncDispose]: async () => {
      for (const house of houses) await house[Symbol.asyncDispose]();
    },
  };
}

const LIMITED = [429, "rate_limited"];
/** The limit has room, as far as this gateway knows. */
const NO_SHARE = [503, "store_unavailable"];

/** How many of more than all are admitted, and what the first answer said of the limit. */
async function drain(house: TestGateway, refusal: readonly unknown[] = LIMITED) {
  let [admitted, limit] = [0, 0];
  for (let i = 0; i <= LIMIT; i++) {
    const told = await askTimed(house, KEY);
    if (told.status === 200) admitted += 1;
    else assert.deepEqual([told.status, told.code], refusal);
    if (i === 0) limit = told.limit;
  }
  return { admitted, limit };
}

describe("2.1 Comes back: three gateways while Redis is away", () => {
  it("that knew the count admit at most the limit + 2, by their shares, and it is all charged", async (t) => {
    await using three = await openThree();
    const { houses } = three;
    const known = [0, 0, 0];
    for (let i = 0; i < 30; i++) {
      const told = await askTimed(houses[i % GATEWAYS] as TestGateway, KEY);
      known[i % GATEWAYS] = LIMIT - told.remaining;
    }
    await three.cut();
    const told = await Promise.all(houses.map((house) => drain(house, NO_SHARE)));
    const shares = known.map((used) => Math.ceil((LIMIT - used) / GATEWAYS));
    assert.deepEqual(
      told.map(({ admitted }) => admitted),
      shares,
    );
    assert.deepEqual(
      told.map(({ limit }) => limit),
      shares,
    );
    const all = 30 + shares.reduce((sum, share) => sum + share, 0);
    t.annotate(`${all} admitted of ${LIMIT}, bound ${LIMIT + GATEWAYS - 1}`);
    assert.ok(all >= LIMIT && all <= LIMIT + GATEWAYS - 1, `${all}`);
    await three.heal();
    const [first] = houses;
    await eventually(async () => assert.equal(await dayUsed(first as TestGateway, "shared"), all));
    for (const house of houses) assert.equal((await drain(house)).admitted, 0);
  });

  it("that knew nothing admit at most the limit + (the limit + 2)", async (t) => {
    await using three = await openThree();
    const other = await openRedisHouse(server, { keys: { [KEY]: { id: "shared" } } });
    assert.equal((await drain(other)).admitted, LIMIT);
    await other[Symbol.asyncDispose]();
    await three.cut();
    const told = await Promise.all(three.houses.map((house) => drain(house, NO_SHARE)));
    assert.ok(each(told).every(({ admitted, limit }) => admitted === limit));
    const all = LIMIT + told.reduce((sum, { admitted }) => sum + admitted, 0);
    t.annotate(`${all} admitted of ${LIMIT}, bound ${2 * LIMIT + GATEWAYS - 1}`);
    assert.ok(all <= 2 * LIMIT + GATEWAYS - 1, `${all}`);
    await three.heal();
    const [first] = three.houses;
    await eventually(async () => assert.equal(await dayUsed(first as TestGateway, "shared"), all));
  });
});
