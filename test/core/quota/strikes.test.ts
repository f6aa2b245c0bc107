import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { banLength } from "../../../src/core/quota/bans.ts";
import { decide, type QuotaDecision, type QuotaRequest } from "../../../src/core/quota/decide.ts";
import { BANS, DAY, DAY_1, HOUR, MINUTE, NOON, SECOND, timeline } from "./timeline.ts";

describe("decide() counts a strike", () => {
  it("only more than the grace after the window's first refusal", () => {
    for (const [afterMs, strikes] of [
      [0, 0],
      [999, 0],
      [1_000, 0],
      [1_001, 1],
    ] as const) {
      const account = timeline(DAY_1);
      account.at(NOON);
      account.at(NOON);
      assert.equal(account.at(NOON + afterMs).strikes, strikes, `${afterMs} ms`);
    }
  });

  it("only the grace or more after the last strike", () => {
    for (const [afterMs, strikes] of [
      [999, 1],
      [1_000, 2],
    ] as const) {
      const account = timeline(DAY_1);
      for (const eachMs of [0, 0, 1_001]) account.at(NOON + eachMs);
      assert.equal(account.at(NOON + 1_001 + afterMs).strikes, strikes, `${afterMs} ms`);
    }
  });

  it("against the window that resets last, whose own first refusal begins the grace", () => {
    const account = timeline([
      { window: "minute", limit: 1 },
      { window: "day", limit: 2 },
    ]);
    account.at(NOON);
    account.at(NOON);
    account.at(NOON + MINUTE);
    // The day is full too now, and was not refused before.
    assert.equal(account.at(NOON + MINUTE + 5 * SECOND).strikes, 0);
    assert.equal(account.at(NOON + MINUTE + 6 * SECOND).strikes, 0);
    assert.equal(account.at(NOON + MINUTE + 6 * SECOND + 1).strikes, 1);
  });

  it("with a new grace in each new window, and keeps those of the former", () => {
    const account = timeline([{ window: "minute", limit: 1 }]);
    const late = NOON + 57 * SECOND;
    for (const eachMs of [0, 0, 1_001]) account.at(late + eachMs);
    account.at(NOON + MINUTE);
    assert.equal(account.at(NOON + MINUTE + 1).strikes, 1);
    assert.equal(account.at(NOON + MINUTE + 1_001).strikes, 1);
    assert.equal(account.at(NOON + MINUTE + 1_002).strikes, 2);
  });

  it("for as long as it is within, and not at that very instant", () => {
    for (const [afterMs, strikes] of [
      [MINUTE - 1, 1],
      [MINUTE, 0],
    ] as const) {
      const account = timeline(DAY_1);
      for (const eachMs of [0, 0, 1_001]) account.at(NOON + eachMs);
      assert.equal(account.at(NOON + 1_001 + afterMs, 0).strikes, strikes);
    }
  });

  it("that is too old for a ban while its grace still keeps the next one off", () => {
    const account = timeline(DAY_1, { ...BANS, strikes: 2, withinMs: 5_000, graceMs: 10_000 });
    for (const eachMs of [0, 0, 10_001]) account.at(NOON + eachMs);
    assert.equal(account.at(NOON + 15_000, 0).strikes, 1);
    assert.equal(account.at(NOON + 15_001, 0).strikes, 0);
    assert.equal(account.at(NOON + 20_000).strikes, 0);
    const { strikes, ban } = account.at(NOON + 20_001);
    assert.deepEqual([strikes, ban], [1, undefined]);
  });

  it("for each refusal after the first instant where there is no grace", () => {
    const account = timeline(DAY_1, { ...BANS, graceMs: 0 });
    account.at(NOON, 5);
    assert.equal(account.at(NOON, 5).strikes, 0);
    assert.equal(account.at(NOON + 1, 2).strikes, 2);
    assert.equal(account.at(NOON + 1, 1).ban?.offences, 1);
  });

  it("never where bans are off, though the first refusal is remembered", () => {
    const account = timeline(DAY_1, "off");
    for (let i = 0; i < 9; i++) assert.equal(account.at(NOON + i * 2 * SECOND).strikes, 0);
    assert.equal(account.account.usage.day?.refusedMs, NOON + 2 * SECOND);
  });
});

describe("decide() says when a refusal could next be a strike", () => {
  it("at once before a refusal, then after the grace, then after the last strike's", () => {
    const account = timeline(DAY_1);
    assert.equal(account.at(NOON).strikeDueMs, NOON);
    assert.equal(account.at(NOON).strikeDueMs, NOON + 1_001);
    assert.equal(account.at(NOON + 1_001).strikeDueMs, NOON + 2_001);
    assert.equal(account.at(NOON + 30 * SECOND, 0).strikeDueMs, NOON + 30 * SECOND);
  });

  it("at once in a window without a refusal, whose first one begins the grace", () => {
    const account = timeline([{ window: "minute", limit: 1 }]);
    const late = NOON + MINUTE - 1_500;
    for (const eachMs of [0, 0, 1_001]) account.at(late + eachMs);
    assert.equal(account.at(NOON + MINUTE).strikeDueMs, NOON + MINUTE);
    assert.equal(account.at(NOON + MINUTE).strikeDueMs, NOON + MINUTE + 1_001);
  });

  it("so that a refusal a millisecond earlier changes nothing, and one then is a strike", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 2_500 }), { maxLength: 12 }), (gaps) => {
        const account = timeline(DAY_1, { ...BANS, strikes: 99 });
        account.at(NOON);
        let nowMs = NOON;
        let decision = account.at(nowMs);
        for (const gapMs of gaps) {
          nowMs += gapMs;
          const isDue = nowMs >= decision.strikeDueMs;
          const before = account.account;
          decision = account.at(nowMs);
          const struck = account.account.strikesMs.length - before.strikesMs.length;
          assert.equal(struck, isDue ? 1 : 0);
          if (!isDue) assert.deepEqual(account.account, before);
        }
      }),
    );
  });
});

describe("decide() bans", () => {
  /** Exhausts the day at `fromMs` and strikes each 1001 ms until there is a ban. */
  function strikeOut(account: ReturnType<typeof timeline>, fromMs: number): QuotaDecision {
    for (let i = 0; i < 9; i++) {
      const decision = account.at(fromMs + i * 1_001);
      if (decision.ban !== undefined) return decision;
    }
    return assert.fail("no ban");
  }

  it("with the strike that is enough, which clears the strikes", () => {
    const account = timeline(DAY_1);
    account.at(NOON);
    const { nowMs, ban, strikes } = strikeOut(account, NOON);
    assert.equal(nowMs, NOON + 3 * 1_001);
    assert.deepEqual(ban, {
      untilMs: nowMs + MINUTE,
      lengthMs: MINUTE,
      window: "day",
      offences: 1,
    });
    assert.deepEqual([strikes, account.account.strikesMs], [0, []]);
  });

  it("for the window that resets last, the longer one where two end together", () => {
    const minute = { window: "minute", limit: 1 } as const;
    for (const [limits, atMs] of [
      [[minute, ...DAY_1], NOON],
      [[...DAY_1, minute], NOON],
      [[minute, ...DAY_1], NOON + 12 * HOUR - 30 * SECOND],
    ] as const) {
      const account = timeline(limits, { ...BANS, strikes: 1 });
      account.at(atMs);
      assert.equal(strikeOut(account, atMs).ban?.window, "day");
    }
  });

  it("until its very end: a millisecond before it is refused, then it is not", () => {
    const account = timeline([{ window: "minute", limit: 1 }]);
    const { ban } = strikeOut(account, NOON);
    const untilMs = ban?.untilMs ?? 0;
    const last = account.at(untilMs - 1);
    assert.deepEqual([last.granted, last.ban], [0, ban]);
    const first = account.at(untilMs);
    assert.deepEqual([first.granted, first.ban], [1, undefined]);
  });

  it("so that asks during it change nothing at all but the passing windows", () => {
    const account = timeline(DAY_1);
    strikeOut(account, NOON);
    const before = account.account;
    for (let i = 0; i < 50; i++) account.at(NOON + 5 * SECOND + i * SECOND, 3);
    assert.deepEqual(account.account, before);
  });

  it("longer by the factor each time, and for the longest at most", () => {
    const account = timeline(DAY_1);
    const lengths: (number | undefined)[] = [];
    let fromMs = NOON;
    for (let i = 0; i < 5; i++) {
      const { ban } = strikeOut(account, fromMs);
      lengths.push(ban?.lengthMs);
      fromMs = ban?.untilMs ?? 0;
    }
    assert.deepEqual(lengths, [MINUTE, 4 * MINUTE, 16 * MINUTE, HOUR, HOUR]);
  });

  it("anew from the first length once offences are forgotten, and not a millisecond before", () => {
    for (const [offMs, offences] of [
      [-1, 2],
      [0, 1],
    ] as const) {
      const quick = { ...BANS, strikes: 1, graceMs: 0 };
      const account = timeline([{ window: "second", limit: 1 }], quick);
      account.at(NOON, 2);
      const untilMs = account.at(NOON + 500).ban?.untilMs ?? 0;
      const atMs = untilMs + DAY + offMs;
      account.at(atMs - 2, 2);
      assert.equal(account.at(atMs, 2).ban?.offences, offences);
    }
  });

  it("are not in force while bans are off, and are again when they are on", () => {
    const account = timeline(DAY_1);
    strikeOut(account, NOON);
    const quotaRequest: QuotaRequest = {
      limits: [{ window: "day", limit: 9 }],
      bans: undefined,
      requests: 1,
    };
    const off = decide(account.account, quotaRequest, NOON + 5 * SECOND);
    assert.deepEqual([off.decision.granted, off.decision.ban], [1, undefined]);
    assert.equal(
      decide(off.account, { ...quotaRequest, bans: BANS }, NOON + 6 * SECOND).decision.granted,
      0,
    );
  });

  it("last a whole number of milliseconds, however large the factor and the offences", () => {
    assert.equal(banLength({ ...BANS, factor: 1.1, durationMs: 1_001 }, 1), 1_101);
    assert.equal(banLength({ ...BANS, factor: 1e300 }, 1e9), HOUR);
    assert.equal(banLength({ ...BANS, factor: 1 }, 1e9), MINUTE);
  });
});
