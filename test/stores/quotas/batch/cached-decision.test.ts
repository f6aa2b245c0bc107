import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { account } from "../redis/redis-kit.ts";
import { BAN, called, DAY_END, EARNED, NOON, openBatch, quotaRequest, spent } from "./queue-kit.ts";

const accountRef = account("a1");
const total = { counter: "day", startMs: DAY_END - 86_400_000, used: 0 };

/** The cache since an answer at noon, with the clock of the store at `nowMs`. */
function answeredAtNoon(nowMs = NOON) {
  const cache = new DecisionCache(() => nowMs);
  const trip = { sentMs: 0, receivedMs: 0, nowMs: NOON };
  cache.put("production:a1", cacheDecision(quotaRequest, spent(), trip), cache.beginCall());
  return cache;
}

describe("a late charge that shows a lower count than the last answer", () => {
  for (const [what, change] of [
    ["nothing", () => {}],
    ["its account", (cache: DecisionCache) => cache.outdate(accountRef)],
    ["the configuration", (cache: DecisionCache) => cache.invalidate()],
  ] as const) {
    it(`shows a loss also where ${what} was changed between`, () => {
      const cache = answeredAtNoon();
      change(cache);
      const { window, used, was } = cache.lostOf(accountRef, total, NOON + 1) ?? {};
      assert.deepEqual([window, used, was], ["day", 0, 1]);
    });
  }
});

describe("news of the store that is older than the last answer", () => {
  it("changes no count, and is none by which time counts", () => {
    const cache = answeredAtNoon(NOON + 5);
    cache.learnCounts(accountRef, [total], NOON - 1);
    const known = cache.lastKnown(accountRef, quotaRequest.limits);
    assert.deepEqual([known?.windows[0]?.used, known?.nowMs], [1, NOON + 5]);
    assert.equal(cache.get("production:a1")?.trip.nowMs, NOON);
    cache.learnCounts(accountRef, [total], NOON + 1);
    assert.equal(cache.lastKnown(accountRef, quotaRequest.limits)?.windows[0]?.used, 0);
    assert.equal(cache.get("production:a1")?.trip.nowMs, NOON + 1);
  });

  it("is no ban", () => {
    const cache = answeredAtNoon();
    cache.learnBan(accountRef, BAN, NOON - 1);
    assert.equal(cache.lastKnown(accountRef)?.ban, undefined);
    cache.learnBan(accountRef, BAN, NOON);
    assert.deepEqual(cache.lastKnown(accountRef)?.ban, BAN);
  });
});

describe("an account whose ban changed", () => {
  it("is refused by none of the counts that stay known, until the store has answered", () => {
    const cache = answeredAtNoon();
    assert.notEqual(cache.get("production:a1"), undefined);
    cache.keepCounts(accountRef);
    assert.equal(cache.get("production:a1"), undefined);
    assert.equal(cache.lastKnown(accountRef, quotaRequest.limits)?.windows[0]?.used, 1);
  });

  it("tells the ban to the request that earned it, and to no other", async () => {
    using house = openBatch();
    const earning = Promise.resolve(house.batch.charge(accountRef, quotaRequest));
    await called(house, 1);
    house.calls[0]?.answer({ ...spent(), ban: BAN, newBan: EARNED });
    const next = await earning.then(() => house.batch.charge(accountRef, quotaRequest));
    const told = [await earning, next].map((answer) => "earned" in answer && answer.earned);
    assert.deepEqual(told, [EARNED, false]);
  });
});
