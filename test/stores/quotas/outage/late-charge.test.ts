import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { chargeLate } from "../../../../src/stores/quotas/outage/settlement.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../src/stores/redis/single-link.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account } from "../redis/redis-kit.ts";

const { server, redis } = await useRedis();
const HOUR_MS = 3_600_000;
const name = account("late");
const key = accountKey("tg", name);
const startMs = () => Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

async function charge(
  units: number,
  giveUpMs = performance.now() + 2_000,
  historyMs?: number,
  clock?: () => number,
) {
  const link = connectRedis({ address: server.address });
  await link.tried;
  const shared = createQuotaClient(link, "tg", { historyMs, clock });
  await shared.ensureClock(0, 2_000);
  try {
    const day = { day: Math.floor(Date.now() / 86_400_000), requests: Math.ceil(units / 2), units };
    const windows = [{ counter: "hour", startMs: startMs(), units }];
    const owed = { name, limits: [], plan: undefined, windows, days: [day] };
    const { accounts } = await chargeLate(shared, [owed], giveUpMs);
    return accounts.map((account) => account.windows.map((window) => window?.used));
  } finally {
    await link.close();
  }
}

describe("a late charge", () => {
  it("gives a new hash the life of its window, and never shortens one", async () => {
    await redis.del(key);
    assert.deepEqual(await charge(3), [[3]]);
    const life = await redis.pttl(key);
    assert.ok(life > 0 && life <= HOUR_MS + 60_000, `${life}`);
    await redis.pexpire(key, 40 * 24 * HOUR_MS);
    assert.deepEqual(await charge(2), [[5]]);
    assert.ok((await redis.pttl(key)) > 39 * 24 * HOUR_MS, "its life is only ever lengthened");
    await redis.pexpire(key, 1_000);
    await charge(1);
    assert.ok((await redis.pttl(key)) > 1_000);
  });

  it("counts to the last millisecond of its window, and no more from its end on", async () => {
    await redis.del(key);
    const start = startMs();
    for (const [atMs, count] of [
      [start + HOUR_MS - 1, 7],
      [start + HOUR_MS, undefined],
    ] as const) {
      assert.deepEqual(await charge(7, undefined, undefined, () => atMs), [[count]]);
      assert.equal(await redis.hget(key, "h"), `${start} 7 0`);
    }
    const later = `${start + HOUR_MS} 1 0`;
    await redis.hset(key, "h", later);
    assert.deepEqual(await charge(7, undefined, undefined, () => start + 5), [[undefined]]);
    assert.equal(await redis.hget(key, "h"), later, "a later window has its place");
  });

  it("takes the place of a key of another type", async () => {
    await redis.del(key);
    await redis.lpush(key, "damage");
    assert.deepEqual(await charge(4), [[4]]);
    assert.equal(await redis.type(key), "hash");
  });

  it("goes to the day of the charge, whole, where days are kept", async () => {
    await charge(3);
    assert.deepEqual(await redis.keys("*:h{*"), [], "nothing where they are not");
    await charge(4, undefined, 30 * 24 * HOUR_MS);
    await charge(3, undefined, 30 * 24 * HOUR_MS);
    const [hash = ""] = await redis.keys("*:h{*");
    assert.deepEqual(Object.values(await redis.hgetall(hash)), ["4", "3"], "requests, and beyond");
    assert.ok((await redis.pttl(hash)) > 30 * 24 * HOUR_MS);
  });

  it("charges nothing once its time is over, and says so", async () => {
    await redis.del(key);
    await assert.rejects(charge(4, performance.now() - 5_000), { code: "LATE", executed: "no" });
    assert.equal(await redis.exists(key), 0);
  });
});
