import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  type AccountState,
  decide,
  dropEndedWindows,
  NEW_ACCOUNT_STATE,
  type QuotaRequest,
} from "../../../../src/core/quota/decide.ts";
import { chargeInPlace } from "../../../../src/stores/quotas/memory/charge-in-place.ts";
import { costs, limitsUpTo } from "../../../core/quota/asks.ts";

const START = Date.UTC(2026, 11, 31, 23, 59, 30);
const BANS = {
  strikes: 2,
  withinMs: 60_000,
  graceMs: 1_000,
  durationMs: 5_000,
  factor: 2,
  maxMs: 60_000,
  forgetAfterMs: 60_000,
};
const limits = limitsUpTo(6);
const step = fc.record({
  byMs: fc.oneof(fc.constant(0), fc.integer({ min: -2_000, max: 40_000 })),
  units: fc.oneof({ weight: 8, arbitrary: fc.constant(1) }, fc.integer({ min: 0, max: 3 })),
  limits: fc.option(limits, { nil: undefined, freq: 6 }),
  bans: fc.boolean(),
  cost: costs,
});

describe("chargeInPlace, at the end of a window,", () => {
  it("leaves it to decide(), at the very millisecond too", () => {
    const usage = { minute: { startMs: START, count: 1, refusedMs: 0 } };
    const account: AccountState = { ...NEW_ACCOUNT_STATE, usage };
    const quotaRequest: QuotaRequest = {
      limits: [{ window: "minute", limit: 9 }],
      bans: undefined,
      requests: 1,
    };
    assert.equal(chargeInPlace(account, quotaRequest, START + 60_000), undefined);
    assert.equal(chargeInPlace(account, quotaRequest, START + 59_999)?.granted, 1);
    assert.equal(chargeInPlace(account, quotaRequest, START - 1), undefined);
  });
});

describe("chargeInPlace", () => {
  it("answers, and leaves the account, as decide() does, or changes nothing", () => {
    let charged = 0;
    const check = fc.property(limits, fc.array(step, { maxLength: 60 }), (first, steps) => {
      let account: AccountState = NEW_ACCOUNT_STATE;
      let terms = first;
      let nowMs = START;
      for (const { byMs, units, limits: next, bans, cost } of steps) {
        nowMs += byMs;
        terms = next ?? terms;
        const quotaRequest: QuotaRequest = {
          limits: terms,
          bans: bans ? BANS : undefined,
          requests: units,
          cost,
        };
        const expected = decide(structuredClone(account), quotaRequest, nowMs);
        const before = structuredClone(account);
        const decision = chargeInPlace(account, quotaRequest, nowMs);
        if (decision === undefined) {
          assert.deepEqual(account, before);
          account = expected.account;
          continue;
        }
        charged += 1;
        assert.deepEqual(decision, expected.decision);
        // Windows that are over leave with the next decision that is not in place.
        assert.deepEqual(
          dropEndedWindows(account, nowMs),
          dropEndedWindows(expected.account, nowMs),
        );
      }
    });
    fc.assert(check, { numRuns: 3_000 });
    assert.ok(charged > 300, `only ${charged} were charged in place`);
  });
});
