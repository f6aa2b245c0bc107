import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { DayDebt, WindowDebt } from "../../../../src/stores/quotas/outage/account-debt.ts";
import { chargeLate } from "../../../../src/stores/quotas/outage/late-charge.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { readDayHistory } from "../../../../src/stores/quotas/redis/store/day-history.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account } from "../redis/redis-kit.ts";

const { server, redis } = await useRedis();
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const accountRef = account("late");
const key = accountKey("tg", accountRef);
const startMs = () => Math.floor(Date.now() / HOUR_MS) * HOUR_MS;

async function charge(
  units: number,
  giveUpMs = performance.now() + 2_000,
  historyMs?: number,
  clock?: () => number,
  further: readonly WindowDebt[] = [],
) {
  const link = connectRedis({ address: server.address });
  await link.tried;
  const quotaClient = createQuotaClient(link, "tg", { historyMs, clock });
  await quotaClient.ensureClock(0, 2_000);
  try {
    const day = { day: Math.floor(Date.now() / 86_400_000), requests: Math.ceil(units / 2), units };
    const windows = [{ counter: "hour", startMs: startMs(), units }, ...further];
    const owed = { accountRef, plan: undefined, windows, days: [day], meters: [] };
    const { accounts } = await chargeLate(quotaClient, [owed], giveUpMs);
    return accounts.map((account) => account.windows.map((window) => window?.used));
  } finally {
    await link.close();
  }
}

/** Charges one account for a day, at an instant of the store's clock. */
async function chargeDay(debt: DayDebt, nowMs: number): Promise<void> {
  const link = connectRedis({ address: server.address });
  await link.tried;
  const quotaClient = createQuotaClient(link, "tg", { historyMs: 30 * DAY_MS, clock: () => nowMs });
  const owed = { accountRef, plan: debt.plan, windows: [], days: [debt], meters: [] };
  await chargeLate(quotaClient, [owed], performance.now() + 2_000).finally(() => link.close());
}

/** The plans of the days of history from this one on. */
async function plansBy(from: number): Promise<(string | undefined)[]> {
  const link = connectRedis({ address: server.address });
  await link.tried;
  const quotaClient = createQuotaClient(link, "tg");
  const span = { from, to: from + 9 };
  const [days = []] = await readDayHistory(quotaClient, [accountRef], span).finally(() =>
    link.close(),
  );
  return days.map(({ plan }) => plan);
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

  it("goes where the count of its window went, if that was moved as the clock went back, and takes none of that away", async () => {
    const ahead = startMs();
    for (const [afterMs, stored, told] of [
      [-3 * HOUR_MS, `${ahead - 3 * HOUR_MS} 60 7`, [`${ahead - 3 * HOUR_MS} 65 7`, undefined]],
      [-HOUR_MS, `${ahead - HOUR_MS} 60 7`, [`${ahead} 5 0`, 5]],
      [-3 * HOUR_MS, `${ahead} 60 7`, [`${ahead} 65 7`, 65]],
      [-3 * HOUR_MS, `${ahead - 4 * HOUR_MS} 60 7`, [`${ahead} 5 0`, 5]],
    ] as const) {
      await redis.del(key);
      await redis.hset(key, "h", stored);
      const [[used] = []] = await charge(5, undefined, undefined, () => ahead + afterMs);
      assert.deepEqual([await redis.hget(key, "h"), used], told);
    }
    const present = { counter: "hour", startMs: ahead - 3 * HOUR_MS, units: 4 };
    await redis.hset(key, "h", `${present.startMs} 60 7`);
    await charge(5, undefined, undefined, () => present.startMs, [present]);
    assert.equal(await redis.hget(key, "h"), `${present.startMs} 69 7`, "those of both windows");
    await redis.hset(key, "h", `${present.startMs} 60 7`);
    const given = { counter: "hour", startMs: ahead, units: -5, chargedMs: ahead };
    await charge(0, undefined, undefined, () => present.startMs, [given]);
    assert.equal(await redis.hget(key, "h"), `${present.startMs} 60 7`, "nothing is given back");
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

  it("keeps the plan of its day: of one that has none, of today, and of one that is over", async () => {
    const day = Math.floor(Date.UTC(2026, 6, 15) / DAY_MS);
    const late = (plan: string | undefined, of: number, at: number) => {
      const debt = { day: of, requests: 1, units: 1, ...(plan !== undefined && { plan }) };
      return chargeDay(debt, at * DAY_MS + 60_000);
    };
    await late("free", day, day);
    assert.deepEqual(await plansBy(day), ["free"]);
    await late("pro", day, day + 1);
    assert.deepEqual(await plansBy(day), ["pro"], "the last request of the day had it");
    await late("max", day + 1, day + 1);
    assert.deepEqual(await plansBy(day), ["pro", "max"]);
    await late("pro", day + 1, day + 2);
    await late("free", day + 2, day + 2);
    await late(undefined, day + 2, day + 2);
    assert.deepEqual(await plansBy(day), ["pro", "pro", "free"], "of each day by itself");
    await late("max", day + 1, day + 2);
    assert.deepEqual(await plansBy(day), ["pro", "max", "free"]);
    await late("team", day, day + 3);
    assert.deepEqual(await plansBy(day), ["pro", "max", "free", "team"], "a closed day stays");
  });

  it("charges nothing once its time is over, and says so", async () => {
    await redis.del(key);
    await assert.rejects(charge(4, performance.now() - 5_000), { code: "LATE", executed: "no" });
    assert.equal(await redis.exists(key), 0);
  });
});
