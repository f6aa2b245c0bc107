import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
} from "../../../src/core/quota/decide.ts";
import { costIn, counterName } from "../../../src/core/quota/windows.ts";
import { costs, limitsUpTo } from "./asks.ts";
import { BANS, DAY, DAY_1, MINUTE, NOON, SECOND, timeline } from "./timeline.ts";

const usedIn = ({ windows }: QuotaDecision) => windows.map(({ used }) => used);

describe("decide() charges", () => {
  it("all windows or none, whichever is full", () => {
    for (const [limits, used] of [
      [
        [5, 2],
        [2, 2],
      ],
      [
        [2, 5],
        [2, 2],
      ],
    ] as const) {
      const [minute, day] = limits;
      const account = timeline([
        { window: "minute", limit: minute },
        { window: "day", limit: day },
      ]);
      const granted = [1, 2, 3, 4].map(() => account.at(NOON).granted);
      assert.deepEqual(granted, [1, 1, 0, 0]);
      assert.deepEqual(usedIn(account.at(NOON, 0)), used);
    }
  });

  it("the first units of an ask as far as there is room", () => {
    const account = timeline([{ window: "minute", limit: 10 }]);
    assert.deepEqual(
      [4, 4, 4, 4].map((units) => account.at(NOON, units).granted),
      [4, 4, 2, 0],
    );
  });

  it("nothing for a look, which leaves counts, strikes and bans as they are", () => {
    const account = timeline(DAY_1);
    for (const afterMs of [0, 0, 1_001]) account.at(NOON + afterMs);
    const before = account.account;
    const decision = account.at(NOON + 5 * SECOND, 0);
    assert.deepEqual(account.account, before);
    assert.deepEqual([decision.granted, decision.strikes], [0, 1]);
  });

  it("nothing below zero when a limit falls under what was used", () => {
    const account = timeline([{ window: "day", limit: 9 }]);
    account.at(NOON, 9);
    const decision = account.at(NOON, 1, { limits: [{ window: "day", limit: 4 }] });
    assert.deepEqual([decision.granted, usedIn(decision)], [0, [9]]);
    assert.equal(account.at(NOON, 1, { limits: [{ window: "day", limit: 10 }] }).granted, 1);
  });

  it("windows that a plan gains later from zero, and keeps those that it drops", () => {
    const account = timeline([{ window: "day", limit: 9 }]);
    account.at(NOON, 3);
    account.at(NOON, 2, { limits: [{ window: "hour", limit: 9 }] });
    assert.deepEqual(usedIn(account.at(NOON, 0)), [3]);
  });
});

describe("An account", () => {
  it("holds nothing when it is new", () => {
    assert.deepEqual(NEW_ACCOUNT_STATE, { usage: {}, strikesMs: [], ban: undefined });
  });

  it("keeps the very list of its strikes while none of them leaves it", () => {
    const strikesMs = [NOON];
    const account = timeline(DAY_1, BANS, { usage: {}, strikesMs, ban: undefined });
    account.at(NOON + MINUTE - 1);
    assert.equal(account.account.strikesMs, strikesMs);
    account.at(NOON + MINUTE, 0);
    assert.deepEqual(account.account.strikesMs, []);
    assert.deepEqual(strikesMs, [NOON]);
  });
});

describe("decide() and a clock that goes back", () => {
  it("stays in the window that began, and does not begin the former one anew", () => {
    const account = timeline([{ window: "minute", limit: 2 }]);
    account.at(NOON);
    const decision = account.at(NOON - 1);
    assert.deepEqual([decision.granted, decision.windows[0]?.resetMs], [1, NOON + MINUTE]);
    assert.equal(account.at(NOON - 30 * SECOND).granted, 0);
    assert.equal(account.at(NOON + MINUTE - 1).granted, 0);
    assert.equal(account.at(NOON + MINUTE).granted, 1);
  });

  it("takes a window one length ahead as it is, and one further ahead as damage", () => {
    for (const [backMs, repaired, resetMs] of [
      [MINUTE, false, NOON + MINUTE],
      [MINUTE + 1, true, NOON - MINUTE],
    ] as const) {
      const account = timeline([{ window: "minute", limit: 5 }]);
      account.at(NOON, 2);
      const decision = account.at(NOON - backMs);
      assert.equal(decision.repaired, repaired);
      assert.deepEqual([usedIn(decision), decision.windows[0]?.resetMs], [[3], resetMs]);
    }
  });

  it("moves a ban that would begin further ahead than it is long to the present", () => {
    for (const [aheadMs, repaired] of [
      [0, false],
      [1, true],
    ] as const) {
      const ban = {
        untilMs: NOON + 2 * MINUTE + aheadMs,
        lengthMs: MINUTE,
        window: "day",
        offences: 2,
      } as const;
      const decision = timeline(DAY_1, BANS, { usage: {}, strikesMs: [], ban }).at(NOON);
      assert.equal(decision.repaired, repaired);
      assert.equal(decision.ban?.untilMs, repaired ? NOON + MINUTE : NOON + 2 * MINUTE);
      assert.equal(decision.ban?.offences, 2);
    }
  });

  it("drops strikes that are further ahead than they could count", () => {
    const strikesMs = [NOON + MINUTE - 1, NOON + MINUTE];
    const decision = timeline(DAY_1, BANS, { usage: {}, strikesMs, ban: undefined }).at(NOON);
    assert.equal(decision.strikes, 1);
  });
});

const limits = limitsUpTo(8);
const steps = fc.array(
  fc.record({
    byMs: fc.integer({ min: -3_000, max: 30_000 }),
    units: fc.integer({ min: 0, max: 9 }),
    cost: costs,
  }),
  { maxLength: 40 },
);
const policy = fc.option(
  fc.record({
    strikes: fc.integer({ min: 1, max: 4 }),
    withinMs: fc.constantFrom(500, 5_000, MINUTE),
    graceMs: fc.constantFrom(0, 1, SECOND),
    durationMs: fc.constantFrom(1, SECOND, MINUTE),
    factor: fc.constantFrom(1, 1.5, 4),
    maxMs: fc.constantFrom(SECOND, DAY),
    forgetAfterMs: fc.constantFrom(0, SECOND, DAY),
    observe: fc.boolean(),
  }),
  { nil: undefined },
);

/** The parts of a verdict that are of the account, whatever this very ask did. */
function lasting(verdict: QuotaDecision) {
  const { repaired: _, moved: __, granted: ___, newBan: ____, ...told } = verdict;
  return told;
}

describe("decide(), over any history,", () => {
  it("gives for n units at once what it gives for n times one at that instant", () => {
    fc.assert(
      fc.property(limits, policy, steps, (plan, bans, history) => {
        let merged: AccountState = NEW_ACCOUNT_STATE;
        let single: AccountState = NEW_ACCOUNT_STATE;
        let nowMs = NOON;
        for (const { byMs, units, cost } of history) {
          nowMs += byMs;
          const all = decide(merged, { limits: plan, bans, requests: units, cost }, nowMs);
          merged = all.account;
          let granted = 0;
          let last = decide(single, { limits: plan, bans, requests: 0, cost }, nowMs);
          for (let i = 0; i < units; i++) {
            last = decide(single, { limits: plan, bans, requests: 1, cost }, nowMs);
            single = last.account;
            granted += last.decision.granted;
          }
          if (units === 0) single = last.account;
          assert.equal(all.decision.granted, granted);
          assert.deepEqual(merged, single);
          assert.deepEqual(lasting(all.decision), lasting(last.decision));
        }
      }),
      { numRuns: 500 },
    );
  });

  it("never counts over a limit, and counts in every window what it granted there", () => {
    fc.assert(
      fc.property(limits, policy, steps, (plan, bans, history) => {
        let account = NEW_ACCOUNT_STATE;
        const charged = new Map<string, number>();
        let nowMs = NOON;
        for (const { byMs, units, cost } of history) {
          nowMs += Math.abs(byMs);
          const decision = decide(account, { limits: plan, bans, requests: units, cost }, nowMs);
          account = decision.account;
          for (const usage of decision.decision.windows) {
            const { limit, used, resetMs } = usage;
            const id = `${counterName(usage)} ${resetMs}`;
            charged.set(
              id,
              (charged.get(id) ?? 0) + decision.decision.granted * costIn(usage, cost),
            );
            assert.ok(used <= limit);
            assert.equal(used, charged.get(id));
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
