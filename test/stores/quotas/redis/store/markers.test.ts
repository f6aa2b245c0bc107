import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, type TestContext } from "vitest";
import { eventually } from "../../../../support/poll.ts";
import { useRedis } from "../../../../support/redis/redis-of-file.ts";
import { open } from "../redis-kit.ts";

const { redis, server } = await useRedis();

const LIFE_MS = 3_600_000;

/** Two gateways, as what asks for the marker of a change that each saw some ms ago. */
async function twoGateways(t: TestContext) {
  const stores = [await open(server.address), await open(server.address)];
  t.onTestFinished(async () => {
    for (const { store } of stores) await store.close();
  });
  return stores.map(({ store }) => (marker: string, ageMs: number) => {
    return store.markFirst(marker, LIFE_MS, { ageMs, sameMs: 15_000 });
  }) as [Mark, Mark];
}
type Mark = (marker: string, ageMs: number) => Promise<boolean>;

async function storeNowMs(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

describe("the marker of a change that may come again", () => {
  it("is not set by a second gateway that asks minutes later, but by one that saw a later change", async (t) => {
    const [a, b] = await twoGateways(t);
    assert.equal(await a("late", 213_000), true);
    assert.equal(await b("late", 213_000), false);
    assert.equal(await b("late", 200_000), false, "it saw it 13 s later");
    assert.equal(await a("late", 213_000), true, "its answer was lost, so it asks again");
    assert.equal(await b("late", 190_000), true, "the account has changed to and fro");
    assert.equal(await a("late", 190_000), false);
    assert.equal(await a("late", 213_000), false, "the change before");
  });

  it("without a change is of the first gateway for all its life, whenever another asks", async (t) => {
    const stores = await Promise.all([open(server.address), open(server.address)]);
    t.onTestFinished(async () => {
      for (const { store } of stores) await store.close();
    });
    const [a, b] = stores.map(({ store }) => (lifeMs: number) => {
      return store.markFirst("sunset in 30 days", lifeMs);
    });
    assert.deepEqual(
      [await a?.(LIFE_MS), await b?.(LIFE_MS), await a?.(LIFE_MS)],
      [true, false, true],
    );
    const [key = ""] = await redis.keys("tg:{*}:told.*");
    const [nowMs, seenMs] = [await storeNowMs(), Number(await redis.hget(key, "seen"))];
    assert.ok(seenMs > nowMs - 5_000 && seenMs <= nowMs, `${seenMs} of ${nowMs}`);
    const leftMs = await redis.pttl(key);
    assert.ok(leftMs > LIFE_MS - 5_000 && leftMs <= LIFE_MS, `${leftMs}`);
    // A marker that lives up to an instant lives shorter for who asks later.
    await sleep(5);
    assert.equal(await b?.(1), false);
    assert.equal(await a?.(1), true);
    await eventually(async () => assert.equal(await b?.(LIFE_MS), true));
  });
});
