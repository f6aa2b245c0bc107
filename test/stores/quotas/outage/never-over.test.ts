import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import type { FailurePolicy } from "../../../../src/stores/quotas/quota-store.ts";
import { eventually } from "../../../support/poll.ts";
import { startRedis, type TestRedis } from "../../../support/redis/redis.ts";
import { startCluster, startSentinel } from "../../../support/redis/redis-engines.ts";
import { openTcpProxy, type TcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { account, perDay } from "../redis/redis-kit.ts";
import { type FallbackHouse, openFallback, policyOf } from "./fallback-kit.ts";

const LIMIT = 300;
const quotaRequest = perDay(LIMIT, undefined);
const accountRef = account("over");

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type Opening = Parameters<typeof openFallback>[0];

async function gateway(to: Opening, policy: Partial<FailurePolicy> = {}): Promise<FallbackHouse> {
  const house = await openFallback(to, { policy });
  closing.push(() => house.store.close());
  return house;
}

/** Sends so many requests at once; gives how many of them are admitted. */
async function burst(
  { store }: FallbackHouse,
  requests: number,
  by: QuotaRequest = quotaRequest,
): Promise<number> {
  const answers = await Promise.all(
    Array.from({ length: requests }, async () => store.charge(accountRef, by)),
  );
  return answers.filter((answer) => "admitted" in answer && answer.admitted).length;
}

/** Every gateway owes the store nothing, and then has an answer of it: all know the count. */
async function known(houses: readonly FallbackHouse[]): Promise<void> {
  for (let turn = 0; turn < 2; turn++) {
    for (const house of houses) {
      await eventually(() => house.gate.health().ok, { withinMs: 60_000 });
      await eventually(async () => {
        const answer = await house.store.charge(accountRef, { ...quotaRequest, cost: 0 });
        return "by" in answer && answer.by === "store";
      });
    }
  }
}

/**
 * Stops the servers for 300 ms while each gateway has 300 requests under way. Of several gateways
 * each has lost the store: one whose calls ran before the stop has not, and the shares of the others
 * are then beside the limit (docs/reference/store.md#shares).
 */
async function stall(servers: readonly TestRedis[], houses: readonly FallbackHouse[]) {
  const stop = () => {
    for (const server of servers) server.stop();
  };
  if (houses.length > 1) stop();
  const bursts = houses.map(async (house) => {
    let sum = 0;
    for (let i = 0; i < 30; i++) {
      sum += await burst(house, 10);
      await sleep(5);
    }
    return sum;
  });
  const all = Promise.all([...bursts, ...houses.map((house) => burst(house, 300))]);
  await new Promise(setImmediate);
  stop();
  await sleep(300);
  for (const server of servers) server.cont();
  return (await all).reduce((sum, admitted) => sum + admitted, 0);
}

describe("a store that stands still for 300 ms, three times over, with 300 requests under way", () => {
  const modes = ["one gateway", "three gateways"] as const;
  for (const mode of modes) {
    const count = mode === "one gateway" ? 1 : 3;
    it(`lets ${mode} admit no more than the limit and G - 1`, async () => {
      const redis = await startRedis();
      closing.push(() => redis.close());
      // A gateway that is starved of CPU alone loses the store alone: then its share is beside the limit.
      const policy = { expectedGateways: count, storeTimeoutMs: count === 1 ? 50 : 150 };
      const houses = [];
      for (let i = 0; i < count; i++) houses.push(await gateway(redis, policy));
      let admitted = 0;
      await eventually(async () => {
        const client = await redis.client();
        return (await client.zcard("tg:{0}:gateways")) === count;
      });
      await sleep(1_100);
      for (const house of houses) admitted += await burst(house, 1);
      await known(houses);
      for (let round = 0; round < 3; round++) {
        admitted += await stall([redis], houses);
        await known(houses);
      }
      for (const house of houses) admitted += await burst(house, LIMIT);
      assert.ok(admitted <= LIMIT + count - 1, `${admitted} of ${LIMIT} admitted`);
      assert.ok(admitted >= LIMIT - count * 20, `${admitted} admitted: hardly any are lost`);
    });
  }

  it("under deny charges what it admitted, and nothing that it refused", async () => {
    const redis = await startRedis();
    closing.push(() => redis.close());
    const house = await gateway(redis, { onStoreFailure: "deny" });
    let admitted = await burst(house, 1);
    for (let round = 0; round < 3; round++) {
      admitted += await stall([redis], [house]);
      await known([house]);
    }
    assert.ok(admitted <= LIMIT);
    // The store gives back what late answers charged a moment after it answers again.
    await eventually(async () => {
      const used = (await house.store.peek(accountRef, quotaRequest)).windows[0]?.used ?? 0;
      const uncertain = house.store.charges().uncertainUnits ?? 0;
      assert.ok(used >= admitted && used <= admitted + uncertain, `${used} of ${admitted}`);
    });
  });

  for (const mode of ["local", "deny", "allow"] as const) {
    it(`under ${mode} runs no call that was sent while it stood still: none is uncertain`, async () => {
      const redis = await startRedis();
      closing.push(() => redis.close());
      const house = await gateway(redis, { onStoreFailure: mode });
      let admitted = 0;
      // On a busy machine the first call may be late, and is refused then under deny.
      while (admitted === 0) admitted += await burst(house, 1);
      await known([house]);
      redis.stop();
      admitted += await burst(house, 20);
      // Longer than a heartbeat of a busy machine takes, as exactly as the store's clock is known.
      await sleep(1_000);
      redis.cont();
      await known([house]);
      await eventually(async () => {
        assert.equal((await house.store.peek(accountRef, quotaRequest)).windows[0]?.used, admitted);
      });
      assert.equal(admitted, mode === "deny" ? 1 : 21);
      const { uncertainUnits, lostUnits } = house.store.charges();
      assert.deepEqual([uncertainUnits, lostUnits], [0, 0]);
    });
  }

  it("under allow charges what it admitted, once", async () => {
    const redis = await startRedis();
    closing.push(() => redis.close());
    const house = await gateway(redis, { onStoreFailure: "allow" });
    const wide = perDay(1e9, undefined);
    let admitted = await burst(house, 1, wide);
    await known([house]);
    for (let round = 0; round < 3; round++) {
      const sent = burst(house, 300, wide);
      await new Promise(setImmediate);
      redis.stop();
      await sleep(300);
      redis.cont();
      admitted += await sent;
      await known([house]);
    }
    await eventually(async () => {
      const used = (await house.store.peek(accountRef, wide)).windows[0]?.used ?? 0;
      const uncertain = house.store.charges().uncertainUnits ?? 0;
      assert.ok(used >= admitted && used <= admitted + uncertain, `${used} of ${admitted}`);
    });
    assert.equal(admitted, 901);
  });

  it("on Sentinel and on a Cluster just the same", async () => {
    const sentinel = await startSentinel();
    closing.push(() => sentinel.close());
    const cluster = await startCluster(3);
    closing.push(() => cluster.close());
    for (const [engine, servers] of [
      [sentinel, [sentinel.master]],
      [cluster, cluster.nodes],
    ] as const) {
      const house = await gateway({ address: engine.address });
      let admitted = await burst(house, 1);
      await known([house]);
      for (let round = 0; round < 3; round++) {
        admitted += await stall(servers, [house]);
        await known([house]);
      }
      admitted += await burst(house, LIMIT);
      assert.ok(admitted <= LIMIT, `${admitted} admitted by ${engine.address.kind}`);
    }
  });
});

describe("a connection that is cut with calls under way, again and again", () => {
  const damages = {
    "before they ran": (proxy: TcpProxy) => proxy.behave({ blackHole: true }),
    "after they ran": (proxy: TcpProxy) => proxy.behave({ swallowReplies: true }),
  };
  for (const [when, damage] of Object.entries(damages)) {
    it(`${when} admits no more than the limit`, async () => {
      const redis = await startRedis();
      const proxy = await openTcpProxy({ port: redis.port });
      closing.push(
        () => redis.close(),
        () => proxy.close(),
      );
      const house = await gateway(proxy);
      let admitted = await burst(house, 1);
      await known([house]);
      for (let round = 0; round < 4; round++) {
        const sent = burst(house, 40);
        damage(proxy);
        await sleep(20 * round);
        proxy.reset();
        proxy.behave({});
        admitted += await sent;
        await known([house]);
      }
      for (let i = 0; i < 4; i++) admitted += await burst(house, LIMIT);
      assert.ok(admitted <= LIMIT, `${admitted} admitted`);
      const uncertain = house.store.charges().uncertainUnits ?? 0;
      assert.ok(admitted + uncertain >= LIMIT, `${admitted}, and ${uncertain} told as uncertain`);
      const used = (await house.store.peek(accountRef, quotaRequest)).windows[0]?.used ?? 0;
      assert.ok(used >= admitted && used <= admitted + uncertain, `${used} of ${admitted}`);
    });
  }
});

describe("a Redis that keeps each write, killed and started again", () => {
  it("three times under load admits no more than the limit", async () => {
    const redis = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
    closing.push(() => redis.close());
    const house = await gateway(redis);
    let admitted = await burst(house, 1);
    await known([house]);
    for (let round = 0; round < 3; round++) {
      const sent = burst(house, 60);
      await new Promise(setImmediate);
      await redis.kill();
      admitted += (await sent) + (await burst(house, 20));
      await redis.restart();
      await known([house]);
    }
    for (let i = 0; i < 4; i++) admitted += await burst(house, LIMIT);
    assert.ok(admitted <= LIMIT, `${admitted} admitted`);
  });
});

describe("two gateways that lost the store, of which one is back before the other", () => {
  /** Each gateway is behind a proxy of its own. */
  async function openWays() {
    const redis = await startRedis();
    const proxies = [await openTcpProxy(redis), await openTcpProxy(redis)] as const;
    closing.push(() => redis.close(), ...proxies.map((proxy) => () => proxy.close()));
    return proxies;
  }
  // A Redis that refuses is away at once: no call of a busy machine is to be late before that.
  const policy = { storeTimeoutMs: 5_000 };
  const isAway = ({ gate }: FallbackHouse) => !gate.health().ok;

  /**
   * Spends the shares, then lets the first gateway back, and the second after it. Gives what both
   * admitted.
   */
  async function comeBack(
    ways: readonly [TcpProxy, TcpProxy],
    houses: readonly [FallbackHouse, FallbackHouse],
    before: number,
  ): Promise<number> {
    let admitted = before;
    for (const house of houses) admitted += await burst(house, LIMIT);
    assert.equal(admitted, 300, "each its share");
    await ways[0].listen();
    await eventually(() => houses[0].gate.health().ok);
    admitted += await burst(houses[0], LIMIT);
    assert.equal(admitted, 300, "the share of the other is not for this one");
    await ways[1].listen();
    await known(houses);
    for (const house of houses) admitted += await burst(house, LIMIT);
    return admitted;
  }

  it("leave the share of the other one alone until it has charged what it admitted", async () => {
    const ways = await openWays();
    const houses = [await gateway(ways[0], policy), await gateway(ways[1], policy)] as const;
    await sleep(1_200);
    const before = (await burst(houses[0], 5)) + (await burst(houses[1], 5));
    await known(houses);
    await Promise.all(ways.map((proxy) => proxy.refuse()));
    await eventually(() => isAway(houses[0]) && isAway(houses[1]));
    const admitted = await comeBack(ways, houses, before);
    assert.ok(admitted <= LIMIT + 1, `${admitted} admitted`);
  });

  it("do so too where the other one was expected and started after the store was lost", async () => {
    const ways = await openWays();
    const expecting = { ...policy, expectedGateways: 2 };
    const first = await gateway(ways[0], expecting);
    await known([first]);
    await Promise.all(ways.map((proxy) => proxy.refuse()));
    await eventually(() => isAway(first));
    const second = await gateway(ways[1], expecting);
    const admitted = await comeBack(ways, [first, second], 0);
    assert.ok(admitted <= LIMIT + 1, `${admitted} admitted`);
  });

  it("do so too where only a reload during the outage had them serve from shares", async () => {
    const ways = await openWays();
    const expecting = { ...policy, expectedGateways: 2 };
    const denying = { ...expecting, onStoreFailure: "deny" } as const;
    const houses = [await gateway(ways[0], denying), await gateway(ways[1], denying)] as const;
    await known(houses);
    await Promise.all(ways.map((proxy) => proxy.refuse()));
    await eventually(() => isAway(houses[0]) && isAway(houses[1]));
    assert.equal(await burst(houses[0], 1), 0, "denied");
    for (const { gate } of houses) gate.reconfigure(policyOf(expecting));
    const admitted = await comeBack(ways, houses, 0);
    assert.ok(admitted <= LIMIT + 1, `${admitted} admitted`);
  });

  it("keep no room for shares that under deny no gateway has granted", async () => {
    const ways = await openWays();
    const house = await gateway(ways[0], {
      ...policy,
      expectedGateways: 2,
      onStoreFailure: "deny",
    });
    await known([house]);
    await ways[0].refuse();
    await eventually(() => isAway(house));
    await ways[0].listen();
    await eventually(() => house.gate.health().ok);
    assert.equal(await burst(house, LIMIT), LIMIT);
  });
});
