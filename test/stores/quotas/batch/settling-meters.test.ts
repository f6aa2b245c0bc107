import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const [DAY, MONTH] = [Date.UTC(2026, 6, 15), Date.UTC(2026, 6)];
const DAY_END = Date.UTC(2026, 6, 16);
const TRIP = { sentMs: 0, receivedMs: 0, nowMs: NOON };
const accountRef = { environment: "p", account: "a" };
const tokens = { id: "#tokens", name: "tokens" };

/** A full day of the plan, beside windows of a meter with room for one hold each. */
function openFull() {
  const limits: readonly Limit[] = [
    { window: "hour", limit: 10, hold: 5, part: tokens },
    { window: "day", limit: 10, hold: 5, part: tokens },
    { window: "day", limit: 3 },
    { window: "month", limit: 10, hold: 5, part: tokens },
  ];
  const ends = [NOON + 3_600_000, DAY_END, DAY_END, Date.UTC(2026, 7)];
  const windows = limits.map((limit, i) => {
    return { ...limit, used: limit.hold ?? 3, resetMs: ends[i] as number };
  });
  const quotaRequest = { limits, bans: undefined, requests: 1 };
  const told = { nowMs: NOON, granted: 0, windows, ban: undefined, strikes: 0 };
  const decision = { ...told, strikeDueMs: NOON, repaired: false };
  const cached = cacheDecision(quotaRequest, decision, TRIP);
  const cache = new DecisionCache(() => NOON);
  const begin = (counter: string, startMs: number, units: number) =>
    cache.settlingMeters.begin([{ accountRef, windows: [{ counter, startMs, units }] }]);
  return { begin, kind: () => cache.refusalKind("p:a", cached, quotaRequest) };
}

describe("a refusal while settlements are under way", () => {
  it("is asked for if they may fill a window that ends no sooner, and from memory else", () => {
    for (const [counter, startMs, kind] of [
      ["#tokens.hour", NOON, "surely"],
      ["#tokens.day", DAY, "unnoted"],
      ["#tokens.month", MONTH, "unnoted"],
      ["#tokens.month", Date.UTC(2026, 5), "surely"],
    ] as const) {
      const { begin, kind: kindNow } = openFull();
      const end = begin(counter, startMs, 1);
      assert.equal(kindNow(), kind, `${counter} since ${startMs}`);
      end();
      assert.equal(kindNow(), "surely");
    }
  });

  it("follows from the sum of those that have not ended", () => {
    const { begin, kind } = openFull();
    const ends = [begin("#tokens.month", MONTH, 1), begin("#tokens.month", MONTH, -1)];
    assert.equal(kind(), "surely");
    ends[1]?.();
    assert.equal(kind(), "unnoted");
    const endOther = begin("#tokens.hour", NOON, 0);
    ends[0]?.();
    assert.equal(kind(), "surely");
    endOther();
    assert.equal(kind(), "surely");
  });
});
