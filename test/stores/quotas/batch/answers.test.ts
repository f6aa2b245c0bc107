import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Ban } from "../../../../src/core/quota/bans.ts";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { refusalKind } from "../../../../src/stores/quotas/batch/known-refusal.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { account } from "../redis/redis-kit.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const TRIP = { sentMs: 1_000, receivedMs: 1_004, nowMs: NOON };
const quotaRequest: QuotaRequest = {
  limits: [{ window: "minute", limit: 60 }],
  bans: DEFAULT_BANS,
  requests: 1,
};
const windows = [{ window: "minute", limit: 60, used: 60, resetMs: NOON + 60_000 }] as const;
const full = {
  ...{ nowMs: NOON, granted: 0, windows, ban: undefined, strikes: 0 },
  ...{ strikeDueMs: NOON + 1_001, repaired: false },
};
const last = cacheDecision(quotaRequest, full, TRIP);
const id = "production:a";

describe("an answer of a call that left before its account was forgotten", () => {
  for (const [which, accountRef] of [
    ["that account", account("a")],
    ["every account", undefined],
  ] as const) {
    it(`is old, where ${which} was forgotten`, () => {
      const decisionCache = new DecisionCache(() => NOON);
      const invalidated = decisionCache.beginCall();
      decisionCache.invalidate(accountRef);
      decisionCache.put(id, last, invalidated);
      assert.equal(decisionCache.get(id), undefined);
    });
  }

  it("counts on where every account was forgotten, and not where that account was", () => {
    for (const [accountRef, used] of [
      [undefined, 60],
      [account("b"), 60],
      [account("a"), 0],
    ] as const) {
      const decisionCache = new DecisionCache(() => NOON);
      const invalidated = decisionCache.beginCall();
      decisionCache.invalidate(accountRef);
      decisionCache.put(id, cacheDecision(quotaRequest, full, TRIP), invalidated);
      assert.equal(decisionCache.countOf(account("a"), "minute", NOON), used);
      decisionCache.invalidate(accountRef);
      assert.equal(decisionCache.countOf(account("a"), "minute", NOON), used);
      const isKnown = decisionCache.lastKnown(account("a")) !== undefined;
      assert.equal(isKnown, accountRef?.account === "b");
    }
  });

  it("leaves the counts, and a ban that was read since, where only that ban had changed", () => {
    const ban = { ...{ untilMs: NOON + 60_000, lengthMs: 60_000 }, window: "day", offences: 1 };
    const decisionCache = new DecisionCache(() => NOON);
    const answer = () => cacheDecision(quotaRequest, full, TRIP, decisionCache.get(id));
    decisionCache.put(id, answer(), decisionCache.beginCall());
    const invalidated = decisionCache.beginCall();
    decisionCache.keepCounts(account("a"));
    decisionCache.learnBan(account("a"), ban as Ban, NOON);
    decisionCache.put(id, answer(), invalidated);
    assert.deepEqual(decisionCache.lastKnown(account("a"))?.ban, ban);
    assert.equal(decisionCache.countOf(account("a"), "minute", NOON), 60);
  });

  it("is dropped with the later one that it changed in place", () => {
    const decisionCache = new DecisionCache(() => NOON);
    const room = { ...full, windows: [{ ...windows[0], used: 1 }], strikeDueMs: NOON };
    const answer = () => cacheDecision(quotaRequest, room, TRIP, decisionCache.get(id));
    const invalidated = decisionCache.beginCall();
    decisionCache.invalidate(account("a"));
    decisionCache.put(id, answer(), decisionCache.beginCall());
    decisionCache.put(id, answer(), invalidated);
    assert.equal(decisionCache.get(id), undefined);
  });

  it("is kept where another account was forgotten", () => {
    const decisionCache = new DecisionCache(() => NOON);
    const invalidated = decisionCache.beginCall();
    decisionCache.invalidate(account("b"));
    decisionCache.put(id, last, invalidated);
    assert.equal(decisionCache.get(id), last);
  });

  it("is told of nothing that is forgotten once its call has ended", () => {
    const decisionCache = new DecisionCache(() => NOON);
    const invalidated = decisionCache.beginCall();
    decisionCache.endCall(invalidated);
    decisionCache.invalidate();
    assert.equal(invalidated.ids, undefined, "a call that is over gathers nothing more");
  });
});

describe("the windows of a refusal from memory", () => {
  const told = (decisionCache: DecisionCache) => {
    const cached = decisionCache.get(id);
    assert.ok(cached !== undefined);
    return decisionCache.refused(cached, quotaRequest).decision.windows;
  };

  it("are the same list until an answer says something else of them", () => {
    const decisionCache = new DecisionCache(() => NOON);
    const learn = (decision: typeof full, limits = quotaRequest.limits) => {
      const answer = cacheDecision(
        { ...quotaRequest, limits },
        decision,
        TRIP,
        decisionCache.get(id),
      );
      decisionCache.put(id, answer, decisionCache.beginCall());
    };
    learn(full);
    const first = told(decisionCache);
    assert.equal(told(decisionCache), first);
    learn({ ...full, strikes: 1 });
    assert.equal(told(decisionCache), first, "a strike changes none of them");
    for (const changed of [{ used: 61 }, { resetMs: NOON + 120_000 }, { used: 60 }] as const) {
      const before = told(decisionCache);
      learn({ ...full, windows: [{ ...windows[0], ...changed }] as unknown as typeof windows });
      const after = told(decisionCache);
      assert.notEqual(after, before);
      assert.deepEqual(after, [{ ...windows[0], ...changed }]);
    }
    const before = told(decisionCache);
    learn(full, [{ window: "minute", limit: 60 }]);
    assert.notEqual(told(decisionCache), before, "another list of limits");
  });
});

describe("a ban that was earned while no request waited", () => {
  const ban = { untilMs: NOON + 60_000, lengthMs: 60_000, window: "minute", offences: 1 } as const;
  const known = () => {
    const decisionCache = new DecisionCache(() => NOON);
    decisionCache.put(id, cacheDecision(quotaRequest, full, TRIP), decisionCache.beginCall());
    return { decisionCache, told: () => decisionCache.get(id)?.refusal?.unreportedBan };
  };

  it("stays to be told where a later answer earned none", () => {
    const { decisionCache, told } = known();
    decisionCache.putUnreportedBan(id, { ...ban, strikesMs: [NOON] });
    decisionCache.putUnreportedBan(id, undefined);
    assert.equal(told()?.offences, 1);
  });

  it("is told nobody where nothing is known of the account any more", () => {
    const { decisionCache, told } = known();
    decisionCache.invalidate();
    decisionCache.putUnreportedBan(id, { ...ban, strikesMs: [NOON] });
    assert.equal(told(), undefined);
  });
});

describe("answers about client addresses", () => {
  it("take the place of no account, however many they are", () => {
    const decisionCache = new DecisionCache(() => NOON);
    const call = decisionCache.beginCall();
    decisionCache.put(id, last, call);
    for (let i = 0; i < 250_000; i++) decisionCache.put(`production:addr:${i}`, last, call);
    assert.equal(decisionCache.get(id), last);
    assert.equal(decisionCache.get("production:addr:249999"), last);
    assert.equal(decisionCache.get("production:addr:0"), undefined, "they take each other's");
  });
});

describe("a ban policy that a reload changed", () => {
  it("leaves the next refusal to the store, which knows when a strike is due by it", () => {
    assert.equal(refusalKind(last, quotaRequest, NOON), "surely");
    const bans = { ...DEFAULT_BANS, graceMs: 0 };
    assert.equal(refusalKind(last, { ...quotaRequest, bans }, NOON), "no");
    assert.equal(
      refusalKind(last, { ...quotaRequest, bans: { ...DEFAULT_BANS, observe: true } }, NOON),
      "no",
    );
  });
});
