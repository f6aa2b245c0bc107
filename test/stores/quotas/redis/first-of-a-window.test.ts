import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, open, spend } from "./redis-kit.ts";

const { server, redis } = await useRedis();

const SECOND_MS = 1_000;
const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 6, 15, 12);
/** A hash is kept this much longer than its windows last, and a call takes a moment. */
const SPARE_MS = 60_000;
const A_MOMENT_MS = 30_000;
const MINUTE: Limit = { window: "minute", limit: 10 };
const TWO_WINDOWS: readonly Limit[] = [{ window: "day", limit: 100 }, MINUTE];

/** Charges one request of an account at each instant; the counts of its windows behind each. */
async function chargeAt(name: string, limits: readonly Limit[], ...instants: readonly number[]) {
  let nowMs = 0;
  const { store, told } = await open(server.address, { now: () => nowMs });
  const counts: number[][] = [];
  for (nowMs of instants) {
    const { decision } = await spend(store, account(name), {
      limits,
      bans: undefined,
      requests: 1,
    });
    counts.push(decision.windows.map(({ used }) => used));
  }
  await store.close();
  return { counts, told: told.map(({ message }) => message) };
}

function keyOf(name: string): string {
  return accountKey("tg", account(name));
}

async function assertKeptFor(name: string, lengthMs: number): Promise<void> {
  const ttlMs = await redis.pttl(keyOf(name));
  const atMostMs = lengthMs + SPARE_MS;
  assert.ok(ttlMs > atMostMs - A_MOMENT_MS && ttlMs <= atMostMs, `${ttlMs} of ${atMostMs} ms`);
}

describe("the first request of a window", () => {
  it("reads no whole hash, of a new account, of a minute and of a day", async () => {
    const before = await server.calls("hgetall");
    const instants = [NOON, NOON + SECOND_MS, NOON + 60_000, NOON + DAY_MS];
    const { counts } = await chargeAt("cheap", TWO_WINDOWS, ...instants);
    assert.deepEqual(counts, [
      [1, 1],
      [2, 2],
      [3, 1],
      [1, 1],
    ]);
    const read = (await server.calls("hgetall")) - before;
    assert.ok(read <= 2, `${read}: a store reads the log of messages as it opens and subscribes`);
  });

  it("has the account kept to the end of its longest window, whichever that is", async () => {
    await chargeAt("both", TWO_WINDOWS, NOON);
    await assertKeptFor("both", DAY_MS / 2);
    await chargeAt("turned", TWO_WINDOWS.toReversed(), NOON);
    await assertKeptFor("turned", DAY_MS / 2);
  });

  it("has an account whose months begin on the 20th kept until then", async () => {
    const calendar = [{ day: 20, fromMs: Date.UTC(2026, 5, 20) }];
    await chargeAt("anchored", [{ window: "month", limit: 9, calendar }], NOON);
    await assertKeptFor("anchored", 4.5 * DAY_MS);
  });

  it("lengthens the life of an account where a longer window begins", async () => {
    await chargeAt("grows", [MINUTE], NOON);
    await assertKeptFor("grows", 60_000);
    const { counts } = await chargeAt("grows", TWO_WINDOWS, NOON);
    assert.deepEqual(counts, [[1, 2]]);
    await assertKeptFor("grows", DAY_MS / 2);
  });

  it("never shortens it", async () => {
    await chargeAt("longer", TWO_WINDOWS, NOON);
    await redis.pexpire(keyOf("longer"), 9 * DAY_MS);
    await chargeAt("longer", TWO_WINDOWS, NOON + 60_000);
    assert.ok((await redis.pttl(keyOf("longer"))) > 8 * DAY_MS);
  });

  it("tells text of the window before that is damaged, and begins at 0", async () => {
    for (const text of [`${NOON - 60_000} x 0`, `${NOON - 60_000} 99999999999999999 0`]) {
      await redis.hset(keyOf("damaged"), "m", text);
      const { counts, told } = await chargeAt("damaged", TWO_WINDOWS, NOON);
      assert.deepEqual(counts, [[1, 1]], text);
      assert.deepEqual(told, ["counter_repaired"], text);
      await redis.del(keyOf("damaged"));
    }
  });

  it("keeps the odd text of one account from those that are decided with it", async () => {
    const { store } = await open(server.address, { now: () => NOON });
    const quotaRequest = { limits: [MINUTE], bans: undefined, requests: 1 };
    await redis.hset(keyOf("odd"), "m", `00${NOON} 1 0`);
    await Promise.all(["odd", "sound"].map((name) => spend(store, account(name), quotaRequest)));
    await store.close();
    const texts = await Promise.all(["odd", "sound"].map((name) => redis.hget(keyOf(name), "m")));
    assert.deepEqual(texts, [`${NOON} 2 0`, `${NOON} 1 0`]);
  });

  it("forgets a window before that was full, with its first refusal", async () => {
    const limits: readonly Limit[] = [{ window: "minute", limit: 1 }];
    const { counts } = await chargeAt("full", limits, NOON, NOON + 1, NOON + 60_000);
    assert.deepEqual(counts, [[1], [1], [1]]);
    assert.equal(await redis.hget(keyOf("full"), "m"), `${NOON + 60_000} 1 0`);
  });
});
