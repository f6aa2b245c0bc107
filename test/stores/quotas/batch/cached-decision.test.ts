import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { account } from "../redis/redis-kit.ts";
import { BAN, DAY_END, NOON, quotaRequest, spent } from "./queue-kit.ts";

const accountRef = account("a1");
const total = { counter: "day", startMs: DAY_END - 86_400_000, used: 0 };

/** The cache since an answer at noon, with the clock of the store at `nowMs`. */
function answeredAtNoon(nowMs = NOON) {
  const cache = new DecisionCache(() => nowMs);
  const trip = { sentMs: 0, receivedMs: 0, nowMs: NOON };
  cache.put("production:a1", cacheDecision(quotaRequest, spent(), trip), cache.beginCall());
  return cache;
}

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
