import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { QuotaDecision, QuotaRequest } from "../../../../src/core/quota/decide.ts";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { cacheDecision } from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { findLostCount } from "../../../../src/stores/quotas/batch/lost-count.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const DAY_MS = 86_400_000;
const LIMITS: readonly Limit[] = [
  { window: "minute", limit: 60 },
  { window: "day", limit: 1_000 },
];
const ask = (limits = LIMITS): QuotaRequest => ({ limits, bans: undefined, requests: 1 });

/** An answer of the store that counts so much in the minute and the day of `nowMs`. */
function verdict(
  nowMs: number,
  used: readonly [number, number],
  more: Partial<QuotaDecision> = {},
) {
  const minuteEndMs = NOON + 60_000 * (Math.floor((nowMs - NOON) / 60_000) + 1);
  const dayEndMs = NOON + DAY_MS / 2 + (nowMs >= NOON + DAY_MS / 2 ? DAY_MS : 0);
  const windows = [
    { window: "minute", limit: 60, used: used[0], resetMs: minuteEndMs },
    { window: "day", limit: 1_000, used: used[1], resetMs: dayEndMs },
  ] as const;
  const rest = { granted: 1, ban: undefined, strikes: 0, strikeDueMs: nowMs, repaired: false };
  return { nowMs, windows, ...rest, ...more };
}

/** An account known since noon: 7 in the minute and 40 in the day, unless said otherwise. */
function knownOf(more: Partial<QuotaDecision> = {}) {
  const trip = { sentMs: 1, receivedMs: 2, nowMs: NOON };
  return cacheDecision(ask(), verdict(NOON, [7, 40], more), trip);
}

const lostOf = (later: QuotaDecision, cached = knownOf(), asked = ask()) => {
  const lost = findLostCount(cached, asked, later);
  return lost && { window: lost.window, used: lost.used, was: lost.was };
};
const copied = LIMITS.map((limit) => ({ ...limit }));
/** With strikes it is known as a whole, not by its counts alone. */
const whole = knownOf({ strikes: 1 });
const WAYS = [
  ["by its counts", knownOf(), ask()],
  ["by its counts, and asked with limits that were read anew", knownOf(), ask(copied)],
  ["as a whole", whole, ask()],
] as const;

describe("counts that the store has lost", () => {
  for (const [way, cached, asked] of WAYS) {
    it(`are those of a window that runs on and counts less, of an account known ${way}`, () => {
      const lost = (ms: number, used: readonly [number, number]) => {
        return lostOf(verdict(NOON + ms, used), cached, asked);
      };
      assert.deepEqual(lost(1, [6, 40]), { window: "minute", used: 6, was: 7 });
      assert.deepEqual(lost(1, [8, 1]), { window: "day", used: 1, was: 40 });
      assert.equal(lost(1, [7, 40]), undefined);
      assert.equal(lost(1, [9, 41]), undefined);
      assert.equal(lost(60_000, [1, 41]), undefined, "the next minute");
      assert.deepEqual(lost(60_000, [1, 2]), { window: "day", used: 2, was: 40 });
      assert.equal(lost(DAY_MS / 2, [0, 0]), undefined, "the next day");
    });
  }

  it("are none where units were taken back, in that window alone", () => {
    const lowered = (index: number) => {
      const { windows, ...rest } = verdict(NOON + 1, [6, 39]);
      const marked = windows.map((one, i) => (i === index ? { ...one, loweredFrom: 40 } : one));
      return { ...rest, windows: marked };
    };
    for (const [, cached, asked] of WAYS) {
      assert.deepEqual(lostOf(lowered(0), cached, asked), { window: "day", used: 39, was: 40 });
      assert.deepEqual(lostOf(lowered(1), cached, asked), { window: "minute", used: 6, was: 7 });
    }
  });

  it("are none where nothing was known, or of a window that was not", () => {
    assert.equal(findLostCount(undefined, ask(), verdict(NOON + 1, [0, 0])), undefined);
    const month: Limit = { window: "month", limit: 9 };
    const resetMs = Date.UTC(2026, 7, 1);
    const later = verdict(NOON + 1, [7, 40], { windows: [{ ...month, used: 0, resetMs }] });
    assert.equal(lostOf(later, knownOf(), ask([month])), undefined);
  });

  it("have the name that X-RateLimit-Window has: of a cap, a meter and an operation too", () => {
    const parts = [
      { id: "@1", name: "key" },
      { id: "#tokens", name: "tokens" },
      { id: "7", name: "createPet" },
    ];
    const names = parts.map((part) => {
      const limit: Limit = { window: "day", limit: 9, part };
      const of = (nowMs: number, used: number) => {
        return verdict(nowMs, [7, 40], { windows: [{ ...limit, used, resetMs: NOON + DAY_MS }] });
      };
      const trip = { sentMs: 1, receivedMs: 2, nowMs: NOON };
      return lostOf(of(NOON + 1, 4), cacheDecision(ask([limit]), of(NOON, 5), trip), ask([limit]));
    });
    assert.deepEqual(
      names.map((lost) => lost?.window),
      ["key.day", "tokens.day", "createPet.day"],
    );
  });

  it("are told of no counter that was repaired, nor by an answer that is older, or as old", () => {
    assert.equal(lostOf(verdict(NOON + 1, [0, 0], { repaired: true })), undefined);
    assert.equal(lostOf(verdict(NOON, [0, 0])), undefined);
    assert.equal(lostOf(verdict(NOON - 1, [0, 0])), undefined);
  });
});
