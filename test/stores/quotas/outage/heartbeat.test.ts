import assert from "node:assert/strict";
import { describe, it, vi } from "vitest";
import { createHeartbeat } from "../../../../src/stores/quotas/outage/heartbeat.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import {
  createQuotaClient,
  type QuotaClient,
} from "../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { StoreClock } from "../../../../src/stores/redis/store-clock.ts";
import { inMotionFailure } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { openTcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { account, perDay, spend } from "../redis/redis-kit.ts";
import { type FallbackHouse, openFallback } from "./fallback-kit.ts";

const { server, redis } = await useRedis();

const GATEWAYS = "tg:{0}:gateways";
const quotaRequest = perDay(60, undefined);

/**
 * Waits for so many gateways in the store, and until each has beaten more than a beat later: the one
 * between has seen them all, and was answered.
 */
async function beaten(gateways: number): Promise<void> {
  await eventually(async () => assert.equal(await redis.zcard(GATEWAYS), gateways));
  const [seconds, micros] = await redis.time();
  const afterMs = Number(seconds) * 1_000 + Math.ceil(Number(micros) / 1_000) + 1_200;
  await eventually(async () => {
    const alive = await redis.zcount(GATEWAYS, afterMs, "+inf");
    return alive === gateways && (await redis.zcard(GATEWAYS)) === gateways;
  });
}

/** The share of 60 a day that a gateway works with when the way to Redis is cut. */
async function shareOf({ store }: { store: QuotaStore }, cut: () => Promise<void>, id: string) {
  await cut();
  await eventually(() => !store.health().ok);
  const { decision, by } = await spend(store, account(id), quotaRequest);
  assert.equal(by, "local");
  return decision.windows[0]?.limit;
}

describe("the gateways that share a limit", () => {
  it("are those with a heartbeat, or as many as are expected: the larger of both", async () => {
    await using proxy = await openTcpProxy(server);
    await using first = await openFallback(proxy);
    await using second = await openFallback(proxy, { policy: { expectedGateways: 2 } });
    await using third = await openFallback(proxy, { policy: { expectedGateways: 5 } });
    await beaten(3);
    const cut = () => proxy.refuse();
    assert.equal(await shareOf(first, cut, "a"), 20);
    assert.equal(await shareOf(second, cut, "a"), 20);
    assert.equal(await shareOf(third, cut, "a"), 12);
  });

  it("are fewer at once when one stops, and 5 s after one died", async (t) => {
    await using proxy = await openTcpProxy(server);
    await using dying = await openTcpProxy(server);
    await using last = await openFallback(proxy);
    const stopping: FallbackHouse = await openFallback(server);
    await using died = await openFallback(dying);
    await beaten(3);
    await stopping.store.close();
    assert.equal(await redis.zcard(GATEWAYS), 2);
    await dying.refuse();
    const diedMs = performance.now();
    await eventually(() => !died.store.health().ok);
    await eventually(async () => assert.equal(await redis.zcard(GATEWAYS), 1), { withinMs: 9_000 });
    const tookMs = performance.now() - diedMs;
    t.annotate(`a gateway that died was counted for ${Math.round(tookMs)} ms`);
    assert.ok(tookMs > 3_500 && tookMs < 8_000, `${tookMs} ms`);
    await beaten(1);
    assert.equal(await shareOf(last, () => proxy.refuse(), "b"), 60);
  });

  it("count as before while they have yet to come back to a store that forgot them", async () => {
    await using proxy = await openTcpProxy(server);
    await using first = await openFallback(proxy);
    const second = await openFallback(server);
    await beaten(2);
    await redis.flushall();
    await second.gate.close();
    await eventually(async () => assert.equal(await redis.zcard(GATEWAYS), 1));
    await beaten(1);
    assert.equal(await shareOf(first, () => proxy.refuse(), "c"), 30);
    await second.store.close();
  });
});

describe("gateways whose heartbeat is of the future", () => {
  it("are damage, and count no more after the next heartbeat", async () => {
    await using _house = await openFallback(server);
    await beaten(1);
    await redis.zadd(GATEWAYS, Date.now() + 3_600_000, "from the future");
    await eventually(async () => assert.equal(await redis.zcard(GATEWAYS), 1));
  });
});

describe("the store's now", () => {
  it("is told by the store, whatever the clock of this machine says", async () => {
    const real = Date.now.bind(Date);
    for (const offMs of [3_600_000, -3_600_000]) {
      const clock = vi.spyOn(Date, "now").mockImplementation(() => real() + offMs);
      await using proxy = await openTcpProxy(server);
      await using house = await openFallback(proxy);
      await beaten(1);
      await proxy.refuse();
      await eventually(() => !house.store.health().ok);
      const { decision } = await spend(house.store, account("clock"), quotaRequest);
      clock.mockRestore();
      const [seconds, micros] = await redis.time();
      const storeMs = Number(seconds) * 1000 + Number(micros) / 1000;
      // An answer may be read late on a busy machine; an hour it is not.
      assert.ok(Math.abs(decision.nowMs - storeMs) < 5_000, `${decision.nowMs - storeMs} ms off`);
      await redis.flushall();
    }
  });
});

describe("a heartbeat that lay in the socket of a store that stood still", () => {
  it("says up to when its gateway owed nothing, not that it owes nothing now", async () => {
    const link = connectRedis({ address: server.address });
    await link.tried;
    const quotaClient = createQuotaClient(link, "late");
    const [waiting, other] = [
      createHeartbeat(quotaClient, "late"),
      createHeartbeat(quotaClient, "late"),
    ];
    const [seconds] = await redis.time();
    const settledMs = Number(seconds) * 1_000;
    await other.beat(1_000, 0, settledMs);
    assert.deepEqual([...(await waiting.beat(1_000)).values()], [settledMs]);
    await other.beat(1_000, 0, 0);
    assert.deepEqual([...(await waiting.beat(1_000)).values()], [0]);
    assert.equal(waiting.peers()?.size, 1);
    await other.leave();
    assert.equal((await waiting.beat(1_000)).size, 0);
    assert.equal(waiting.peers()?.size, 0);
    await link.close();
  });
});

describe("a store that forgets the gateways twice within the time that they may take to come back", () => {
  it("leaves them counted, and known by name", async () => {
    const link = connectRedis({ address: server.address });
    await link.tried;
    const quotaClient = createQuotaClient(link, "twice");
    const [first, second] = [
      createHeartbeat(quotaClient, "twice"),
      createHeartbeat(quotaClient, "twice"),
    ];
    for (const each of [first, second, first]) await each.beat(1_000);
    assert.equal(first.gateways(), 2);
    const names = first.peers();
    assert.equal(names?.size, 1);
    for (let i = 0; i < 2; i++) {
      await redis.flushall();
      await first.beat(1_000);
      assert.deepEqual([first.gateways(), first.peers()], [2, names]);
    }
    await link.close();
  });
});

describe("a heartbeat that finds the slot moving when its time is over", () => {
  it("is late, and Node has nothing to warn of", async ({ onTestFinished }) => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => void warnings.push(warning);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    let sent = 0;
    const send = () => {
      sent += 1;
      if (sent > 1) return new Promise(() => {});
      const untilMs = performance.now() + 5;
      while (performance.now() < untilMs);
      return Promise.reject(inMotionFailure());
    };
    const link = { send } as unknown as QuotaClient["link"];
    const { beat } = createHeartbeat({ link, clockOf: () => new StoreClock() }, "tg");
    await assert.rejects(beat(1), /no answer/);
    assert.deepEqual([sent, warnings], [2, []]);
  });
});
