import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { refusalKind } from "../../../../src/stores/quotas/batch/known-refusal.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { account } from "../redis/redis-kit.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const TRIP = { sentMs: 1_000, receivedMs: 1_004, nowMs: NOON };
const ask: QuotaRequest = {
  limits: [{ window: "minute", limit: 60 }],
  bans: DEFAULT_BANS,
  requests: 1,
};
const windows = [{ window: "minute", limit: 60, used: 60, resetMs: NOON + 60_000 }] as const;
const full = {
  ...{ nowMs: NOON, granted: 0, windows, ban: undefined, strikes: 0 },
  ...{ strikeDueMs: NOON + 1_001, repaired: false },
};
const last = cacheDecision(ask, full, TRIP);
const id = "production:a";

describe("an answer of a call that left before its account was forgotten", () => {
  for (const [which, name] of [
    ["that account", account("a")],
    ["every account", undefined],
  ] as const) {
    it(`is old, where ${which} was forgotten`, () => {
      const answers = new DecisionCache(() => NOON);
      const forgotten = answers.beginCall();
      answers.invalidate(name);
      answers.put(id, last, forgotten);
      assert.equal(answers.get(id), undefined);
    });
  }

  it("counts on where every account was forgotten, and not where that account was", () => {
    for (const [name, used] of [
      [undefined, 60],
      [account("b"), 60],
      [account("a"), 0],
    ] as const) {
      const answers = new DecisionCache(() => NOON);
      const forgotten = answers.beginCall();
      answers.invalidate(name);
      answers.put(id, cacheDecision(ask, full, TRIP), forgotten);
      assert.equal(answers.countOf(account("a"), "minute", NOON), used);
      answers.invalidate(name);
      assert.equal(answers.countOf(account("a"), "minute", NOON), used);
      const isKnown = answers.lastKnown(account("a")) !== undefined;
      assert.equal(isKnown, name?.account === "b");
    }
  });

  it("is kept where another account was forgotten", () => {
    const answers = new DecisionCache(() => NOON);
    const forgotten = answers.beginCall();
    answers.invalidate(account("b"));
    answers.put(id, last, forgotten);
    assert.equal(answers.get(id), last);
  });

  it("is told of nothing that is forgotten once its call has ended", () => {
    const answers = new DecisionCache(() => NOON);
    const forgotten = answers.beginCall();
    answers.endCall(forgotten);
    answers.invalidate();
    assert.equal(forgotten.ids, undefined, "a call that is over gathers nothing more");
  });
});

describe("the windows of a refusal from memory", () => {
  const told = (answers: DecisionCache) => {
    const known = answers.get(id);
    assert.ok(known !== undefined);
    return answers.refused(known, ask).verdict.windows;
  };

  it("are the same list until an answer says something else of them", () => {
    const answers = new DecisionCache(() => NOON);
    const learn = (verdict: typeof full, limits = ask.limits) => {
      const answer = cacheDecision({ ...ask, limits }, verdict, TRIP, answers.get(id));
      answers.put(id, answer, answers.beginCall());
    };
    learn(full);
    const first = told(answers);
    assert.equal(told(answers), first);
    learn({ ...full, strikes: 1 });
    assert.equal(told(answers), first, "a strike changes none of them");
    for (const changed of [{ used: 61 }, { resetMs: NOON + 120_000 }, { used: 60 }] as const) {
      const before = told(answers);
      learn({ ...full, windows: [{ ...windows[0], ...changed }] as unknown as typeof windows });
      const after = told(answers);
      assert.notEqual(after, before);
      assert.deepEqual(after, [{ ...windows[0], ...changed }]);
    }
    const before = told(answers);
    learn(full, [{ window: "minute", limit: 60 }]);
    assert.notEqual(told(answers), before, "another list of limits");
  });
});

describe("a ban that was earned while no request waited", () => {
  const ban = { untilMs: NOON + 60_000, lengthMs: 60_000, window: "minute", offences: 1 } as const;
  const known = () => {
    const answers = new DecisionCache(() => NOON);
    answers.put(id, cacheDecision(ask, full, TRIP), answers.beginCall());
    return { answers, told: () => answers.get(id)?.refusal?.unreportedBan };
  };

  it("stays to be told where a later answer earned none", () => {
    const { answers, told } = known();
    answers.putUnreportedBan(id, { ...ban, strikesMs: [NOON] });
    answers.putUnreportedBan(id, undefined);
    assert.equal(told()?.offences, 1);
  });

  it("is told nobody where nothing is known of the account any more", () => {
    const { answers, told } = known();
    answers.invalidate();
    answers.putUnreportedBan(id, { ...ban, strikesMs: [NOON] });
    assert.equal(told(), undefined);
  });
});

describe("answers about client addresses", () => {
  it("take the place of no account, however many they are", () => {
    const answers = new DecisionCache(() => NOON);
    const call = answers.beginCall();
    answers.put(id, last, call);
    for (let i = 0; i < 250_000; i++) answers.put(`production:addr:${i}`, last, call);
    assert.equal(answers.get(id), last);
    assert.equal(answers.get("production:addr:249999"), last);
    assert.equal(answers.get("production:addr:0"), undefined, "they take each other's");
  });
});

describe("a ban policy that a reload changed", () => {
  it("leaves the next refusal to the store, which knows when a strike is due by it", () => {
    assert.equal(refusalKind(last, ask, NOON), "surely");
    const bans = { ...DEFAULT_BANS, graceMs: 0 };
    assert.equal(refusalKind(last, { ...ask, bans }, NOON), "no");
    assert.equal(
      refusalKind(last, { ...ask, bans: { ...DEFAULT_BANS, observe: true } }, NOON),
      "no",
    );
  });
});
