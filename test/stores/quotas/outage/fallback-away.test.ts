import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, it } from "vitest";
import { crossedLimits } from "../../../../src/core/quota/rate-limit-info.ts";
import { type Limit, mergeLimits } from "../../../../src/core/quota/windows.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import { useProxiedRedis } from "../../../support/redis/redis-of-file.ts";
import { account, perDay } from "../redis/redis-kit.ts";
import { admit, BOTH, counted, leave, openFallback, policyOf } from "./fallback-kit.ts";

afterEach(async () => {
  await redis.config("SET", "maxmemory", "0");
  await redis.call("ACL", "SETUSER", "default", "allkeys", "allcommands");
});
const { redis, proxy } = await useProxiedRedis();

const accountRef = account("a");
/** No minute of the real clock ends in the middle of a test. */
const DAY = perDay(1_000, undefined);

describe("the store that stays away", () => {
  it("is not waited for by requests that were waiting when that became known", async () => {
    await using house = await openFallback(proxy);
    await admit(house.store, 1);
    proxy.behave({ blackHole: true });
    const waits: { fromMs: number; ms: number }[] = [];
    let running = true;
    const load = Array.from({ length: 8 }, async (_, i) => {
      for (let n = 0; running; n++) {
        const fromMs = performance.now();
        await house.store.charge(account(`w${i}-${n}`), BOTH);
        waits.push({ fromMs, ms: performance.now() - fromMs });
        await sleep(3);
      }
    });
    await eventually(() => house.gate.isAway(0), { everyMs: 1 });
    const shutMs = performance.now();
    const { stalledMs } = await watchStalls(() => {
      return eventually(() => waits.filter(({ fromMs }) => fromMs > shutMs).length > 50);
    });
    running = false;
    await Promise.all(load);
    const later = waits.filter(({ fromMs }) => fromMs > shutMs).map(({ ms }) => ms);
    const [longest, longestLater] = [Math.max(...waits.map(({ ms }) => ms)), Math.max(...later)];
    const isAtOnce = longestLater < 30 + stalledMs;
    assert.ok(isAtOnce, `${longestLater} ms, ${stalledMs} stalled: nobody waits once it is known`);
    assert.ok(longest < 2_000, `${longest} ms`);
  });

  it("leaves of a limit what was counted before, though keys or plans have changed since", async () => {
    await using house = await openFallback(proxy, { policy: { storeTimeoutMs: 5_000 } });
    const few = perDay(30, undefined);
    const known = account("known");
    for (let i = 0; i < 20; i++) await house.store.charge(known, few);
    house.store.invalidate();
    house.gate.reconfigure(policyOf());
    proxy.behave({ blackHole: true });
    let admitted = 0;
    for (let i = 0; i < 40; i++) {
      const answer = await house.store.charge(known, few);
      if ("admitted" in answer && answer.admitted) admitted += 1;
    }
    proxy.behave({});
    assert.equal(admitted, 10);
  });

  it("by being slow is away until it is fast again, told once", async () => {
    await using house = await openFallback(proxy);
    await admit(house.store, 1);
    proxy.behave({ latencyMs: 60 });
    await eventually(async () => {
      await admit(house.store, 1);
      return house.gate.isAway(0);
    });
    await sleep(1_700);
    assert.ok(house.gate.isAway(0));
    assert.deepEqual(house.changes(), ["store_away"]);
    proxy.behave({});
    await eventually(() => house.gate.health().ok);
    assert.deepEqual(house.changes(), ["store_away", "store_back"]);
  });

  it("is noticed without any request, by two heartbeats that are missed", async () => {
    await using house = await openFallback(proxy);
    await redis.config("SET", "maxmemory", "1");
    await eventually(() => !house.store.health().ok);
    await redis.config("SET", "maxmemory", "0");
    await eventually(() => house.store.health().ok);
    assert.deepEqual(house.changes(), ["store_away", "store_back"]);
    assert.deepEqual(house.told[0]?.details, {
      code: "OOM",
      why: "Redis: it is out of memory: raise maxmemory",
      mode: "local",
    });
  });

  it("after one failed write, leaves the gateway ready once writes work again, without traffic", async () => {
    await using house = await openFallback(proxy);
    await redis.config("SET", "maxmemory", "1");
    await admit(house.store, 1);
    await redis.config("SET", "maxmemory", "0");
    await eventually(() => house.store.health().ok);
  });
});

describe("a store that is away for a moment, without any request", () => {
  const outages = [
    [
      "because it stands still",
      async () => proxy.behave({ blackHole: true }),
      async () => proxy.behave({}),
    ],
    ["because it takes no connection", () => proxy.refuse(), () => proxy.listen()],
  ] as const;
  it.each(outages)(
    "%s, is told to be away and to be back, each once, if the gateway was not ready",
    async (_, begin, end) => {
      await using house = await openFallback(proxy);
      await admit(house.store, 1);
      await begin();
      await eventually(() => !house.store.health().ok, { everyMs: 1 });
      await end();
      await eventually(() => house.store.health().ok);
      assert.deepEqual(house.changes(), ["store_away", "store_back"]);
    },
  );

  it("leaves the gateway ready, and is not told, if the connection is made again at once", async () => {
    await using house = await openFallback(proxy, { policy: { storeTimeoutMs: 5_000 } });
    await admit(house.store, 1);
    const accepted = proxy.accepted();
    let isWatched = true;
    let wasReady = true;
    const watching = (async () => {
      for (; isWatched; await sleep(0)) wasReady &&= house.store.health().ok;
    })();
    await redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await eventually(() => proxy.accepted() > accepted);
    await eventually(async () => {
      const answer = await house.store.charge(accountRef, DAY);
      assert.equal("by" in answer && answer.by, "store");
    });
    isWatched = false;
    await watching;
    // A machine that stalls for half a second in between may have it away, which is told then.
    assert.equal(wasReady, house.changes().length === 0);
  });
});

describe("a store that is away when the gateway starts", () => {
  it("is told with its reason, in words that come once, and found when it comes", async () => {
    await proxy.refuse();
    await using house = await openFallback(proxy);
    await eventually(() => assert.deepEqual(house.changes(), ["store_away"]));
    const why = String(house.told[0]?.details?.why);
    assert.match(why, /^Redis cannot be reached: /);
    assert.equal(why.split("Redis").length - 1, 1, why);
    assert.equal(house.gate.health().why, why);
    await proxy.listen();
    await eventually(() => assert.deepEqual(house.changes(), ["store_away", "store_back"]));
    assert.deepEqual(house.gate.health(), { ok: true });
  });
});

describe("a store that ends its connections and takes no new one", () => {
  it("is told with what keeps it from connecting, not with the connection that is gone", async () => {
    // A stall of the machine is no reason of the store's.
    await using house = await openFallback(proxy, { policy: { storeTimeoutMs: 500 } });
    await admit(house.store, 1);
    await redis.config("SET", "requirepass", "other");
    await redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    try {
      await eventually(async () => {
        await admit(house.store, 1);
        assert.deepEqual(house.changes(), ["store_away"]);
      });
      const away = house.told.find(({ message }) => message === "store_away");
      assert.equal(away?.details?.code, "NOAUTH", String(away?.details?.why));
    } finally {
      await redis.config("SET", "requirepass", "");
    }
    await eventually(() => assert.deepEqual(house.changes(), ["store_away", "store_back"]));
  });
});

describe("what a gateway does meanwhile", () => {
  it("is to admit from shares under `local` alone", async () => {
    await using house = await openFallback(proxy);
    const modes = ["local", "allow", "deny"] as const;
    const shares = modes.map((onStoreFailure) => {
      house.gate.reconfigure(policyOf({ onStoreFailure }));
      return house.gate.admitsShares;
    });
    assert.deepEqual(shares, [true, false, false]);
  });

  it("deny: gives no answer, and charges nothing later", async () => {
    await using house = await openFallback(proxy, {
      policy: { onStoreFailure: "deny", storeTimeoutMs: 500 },
    });
    await admit(house.store, 1, DAY);
    await leave(proxy, house.store);
    for (let i = 0; i < 10; i++) {
      assert.deepEqual(await house.store.charge(accountRef, DAY), { unavailable: true });
    }
    await proxy.listen();
    await eventually(() => house.gate.health().ok);
    assert.deepEqual(await counted(redis), { d: 1 });
  });

  it("allow: admits all, counts it, and charges it later", async () => {
    await using house = await openFallback(proxy, { policy: { onStoreFailure: "allow" } });
    const quotaRequest = perDay(5, undefined);
    await admit(house.store, 2, quotaRequest);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 20, quotaRequest), 20);
    await proxy.listen();
    await eventually(() => house.gate.health().ok);
    await eventually(async () => assert.deepEqual(await counted(redis), { d: 22 }));
    assert.equal(await admit(house.store, 1, quotaRequest), 0);
  });

  it.each(["local", "allow"] as const)(
    "%s: observes limits from what was counted before, in a window of the plan and in one it lacks",
    async (onStoreFailure) => {
      await using house = await openFallback(proxy, {
        policy: { onStoreFailure, expectedGateways: 2 },
      });
      const observe: readonly Limit[] = [
        { window: "day", limit: 3 },
        { window: "week", limit: 4 },
      ];
      const limits = mergeLimits([{ window: "day", limit: 40 }], { observe });
      const crossed = async () => {
        const answer = await house.store.charge(accountRef, {
          limits,
          bans: undefined,
          requests: 1,
        });
        assert.ok("decision" in answer && answer.admitted);
        return crossedLimits(answer.decision, observe, answer);
      };
      for (const _ of [1, 2]) assert.deepEqual(await crossed(), []);
      await leave(proxy, house.store);
      assert.deepEqual([await crossed(), await crossed()], [[], ["day"]]);
      assert.deepEqual([await crossed(), await crossed()], Array(2).fill(["day", "week"]));
      await proxy.listen();
      await eventually(() => house.gate.health().ok);
    },
  );

  it("follows a reload of the mode", async () => {
    await using house = await openFallback(proxy, { policy: { onStoreFailure: "deny" } });
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 1), 0);
    house.store.reconfigure?.({ ...policyOf(), historyMs: undefined, bans: undefined });
    assert.equal(await admit(house.store, 1), 1);
  });
});
