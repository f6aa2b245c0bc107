import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Ban } from "../../../../src/core/quota/bans.ts";
import type { QuotaRequest, WindowUsage } from "../../../../src/core/quota/decide.ts";
import { currentEnd, type Limit } from "../../../../src/core/quota/windows.ts";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { decisionAfter, refusalKind } from "../../../../src/stores/quotas/batch/known-refusal.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { eventually } from "../../../support/poll.ts";
import { account } from "../redis/redis-kit.ts";
import {
  called,
  DAY_END,
  exhaust,
  openBatch,
  spent,
  quotaRequest as spentDay,
} from "./queue-kit.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const minute: Limit = { window: "minute", limit: 10 };
const hour: Limit = { window: "hour", limit: 12 };
const own: Limit = { window: "minute", limit: 14, part: { id: "a", name: "createPet" } };

/** A request of that cost, and what is known by its refusal with these counts. */
function refused(limits: readonly Limit[], used: readonly number[], cost: number, ban?: Ban) {
  const quotaRequest: QuotaRequest = { limits, bans: DEFAULT_BANS, requests: 1, cost };
  const windows = limits.map((limit, i): WindowUsage => {
    return { ...limit, used: used[i] as number, resetMs: currentEnd(limit, NOON) };
  });
  const strikes = { strikes: 0, strikeDueMs: NOON + 60_000 };
  const decision = { nowMs: NOON, granted: 0, windows, ban, ...strikes, repaired: false };
  const trip = { sentMs: 0, receivedMs: 0, nowMs: NOON };
  return { cached: cacheDecision(quotaRequest, decision, trip), quotaRequest };
}

function toldAfter({ cached, quotaRequest }: ReturnType<typeof refused>, afterMs: number) {
  const { windows } = decisionAfter(cached, afterMs, quotaRequest.limits, quotaRequest.cost);
  return [
    refusalKind(cached, quotaRequest, NOON + afterMs),
    ...windows.map(({ used, isUnknown }) => (isUnknown ? "unknown" : used)),
  ];
}

describe("a longer window of the plan beside a refusal from memory", () => {
  it("is asked for again while other gateways can charge the account", () => {
    for (const known of [refused([minute, hour], [8, 8], 4), refused([own, hour], [14, 10], 2)]) {
      const counts = known.cached.refusal?.windows.map(({ used }) => used) ?? [];
      assert.deepEqual(toldAfter(known, 0), ["surely", ...counts]);
      assert.deepEqual(toldAfter(known, 1_499), ["surely", ...counts]);
      assert.deepEqual(toldAfter(known, 1_500), ["incomplete", counts[0], "unknown"]);
    }
  });

  it("stays known to the end of a full window of the plan or of a ban, because nothing is charged", () => {
    assert.deepEqual(toldAfter(refused([minute, hour], [10, 10], 4), 59_999), ["surely", 10, 10]);
    const both = refused([minute, own, hour], [10, 14, 10], 2);
    assert.deepEqual(toldAfter(both, 59_999), ["surely", 10, 14, 10]);
    const ban: Ban = { untilMs: NOON + 5_000, lengthMs: 5_000, window: "hour", offences: 1 };
    const banned = refused([minute, hour], [8, 8], 4, ban);
    assert.deepEqual(toldAfter(banned, 4_999), ["surely", 8, 8]);
    assert.deepEqual(toldAfter(banned, 5_000), ["incomplete", 8, "unknown"]);
  });

  it("is asked for if it began since, and ends after the month of an operation", () => {
    const known = refused(
      [
        { window: "week", limit: 9 },
        { ...own, window: "month" },
      ],
      [8, 14],
      1,
    );
    const lateMs = Date.UTC(2026, 6, 28) - NOON;
    assert.deepEqual(toldAfter(known, lateMs), ["incomplete", "unknown", 14]);
    assert.deepEqual(toldAfter(known, lateMs - 7 * 86_400_000), ["strike", 0, 14]);
  });

  it("is not asked for if it refuses too, or ends no later", () => {
    assert.deepEqual(toldAfter(refused([minute, hour], [8, 9], 4), 59_999), ["surely", 8, 9]);
    assert.deepEqual(toldAfter(refused([minute, own], [9, 14], 1), 59_999), ["surely", 9, 14]);
  });
});

describe("an ask for a window whose turn does not come in the time of a call", () => {
  it("is waited for by no other request, and told once the store answers", async () => {
    using house = openBatch();
    for (const name of ["a1", "b1"]) await exhaust(house, name);
    const hourly: Limit = { window: "hour", limit: 3, part: { id: "op", name: "op" } };
    const asked = { ...spentDay, limits: [hourly, ...spentDay.limits] };
    const full = { ...hourly, used: 3, resetMs: DAY_END - 11 * 3_600_000 };
    const told = () => {
      const answer = house.batch.charge(account("b1"), asked);
      assert.ok("decision" in answer, "it waits");
      return answer.decision.windows.map(({ used, isUnknown }) => isUnknown ?? used);
    };
    void house.batch.charge(account("a1"), asked);
    await called(house, 3);
    house.gate.timeoutMs = 20;
    await house.batch.charge(account("b1"), asked);
    assert.deepEqual(told(), [true, 1]);
    await called(house, 4);
    assert.deepEqual(house.calls[3]?.names, ["b1"]);
    assert.equal(house.calls[3]?.requests[0]?.quotaRequest.strikesOnly, true);
    const windows = [full, ...spent().windows];
    house.calls[3]?.answer({ ...spent(), windows, strikeDueMs: DAY_END });
    await eventually(() => assert.deepEqual(told(), [3, 1]));
  });
});
