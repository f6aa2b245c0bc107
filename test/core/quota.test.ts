import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import {
  type Account,
  type Ask,
  type BanPolicy,
  banLength,
  decide,
  NEW_ACCOUNT,
  type Verdict,
} from "../../src/core/quota.ts";
import type { Limit, WindowName } from "../../src/core/windows.ts";

const SECOND = 1_000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const NOON = Date.UTC(2026, 6, 15, 12);
const BANS: BanPolicy = {
  strikes: 3,
  withinMs: MINUTE,
  graceMs: SECOND,
  durationMs: MINUTE,
  factor: 4,
  maxMs: HOUR,
  forgetAfterMs: DAY,
};
const DAY_1: readonly Limit[] = [{ window: "day", limit: 1 }];

/** An account over time: each step asks at an instant and gives the verdict. */
function timeline(
  limits: readonly Limit[],
  policy: BanPolicy | "off" | undefined = BANS,
  from = NEW_ACCOUNT,
) {
  const bans = policy === "off" ? undefined : policy;
  let account = from;
  return {
    get account() {
      return account;
    },
    at(nowMs: number, units = 1, now: { limits?: readonly Limit[] } = {}): Verdict {
      const decision = decide(account, { limits: now.limits ?? limits, bans, units }, nowMs);
      account = decision.account;
      return decision.verdict;
    },
  };
}

const usedIn = ({ windows }: Verdict) => windows.map(({ used }) => used);

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
    const verdict = account.at(NOON + 5 * SECOND, 0);
    assert.deepEqual(account.account, before);
    assert.deepEqual([verdict.granted, verdict.strikes], [0, 1]);
  });

  it("nothing below zero when a limit falls under what was used", () => {
    const account = timeline([{ window: "day", limit: 9 }]);
    account.at(NOON, 9);
    const verdict = account.at(NOON, 1, { limits: [{ window: "day", limit: 4 }] });
    assert.deepEqual([verdict.granted, usedIn(verdict)], [0, [9]]);
    assert.equal(account.at(NOON, 1, { limits: [{ window: "day", limit: 10 }] }).granted, 1);
  });

  it("windows that a plan gains later from zero, and keeps those that it drops", () => {
    const account = timeline([{ window: "day", limit: 9 }]);
    account.at(NOON, 3);
    account.at(NOON, 2, { limits: [{ window: "hour", limit: 9 }] });
    assert.deepEqual(usedIn(account.at(NOON, 0)), [3]);
  });
});

describe("decide() and a clock that goes back", () => {
  it("stays in the window that began, and does not begin the former one anew", () => {
    const account = timeline([{ window: "minute", limit: 2 }]);
    account.at(NOON);
    const verdict = account.at(NOON - 1);
    assert.deepEqual([verdict.granted, verdict.windows[0]?.resetMs], [1, NOON + MINUTE]);
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
      const verdict = account.at(NOON - backMs);
      assert.equal(verdict.repaired, repaired);
      assert.deepEqual([usedIn(verdict), verdict.windows[0]?.resetMs], [[3], resetMs]);
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
      const verdict = timeline(DAY_1, BANS, { usage: {}, strikesMs: [], ban }).at(NOON);
      assert.equal(verdict.repaired, repaired);
      assert.equal(verdict.ban?.untilMs, repaired ? NOON + MINUTE : NOON + 2 * MINUTE);
      assert.equal(verdict.ban?.offences, 2);
    }
  });

  it("drops strikes that are further ahead than they could count", () => {
    const strikesMs = [NOON + MINUTE - 1, NOON + MINUTE];
    const verdict = timeline(DAY_1, BANS, { usage: {}, strikesMs, ban: undefined }).at(NOON);
    assert.equal(verdict.strikes, 1);
  });
});

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

  it("so that a refusal a millisecond earlier changes nothing, and one then is a strike", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 2_500 }), { maxLength: 12 }), (gaps) => {
        const account = timeline(DAY_1, { ...BANS, strikes: 99 });
        account.at(NOON);
        let nowMs = NOON;
        let verdict = account.at(nowMs);
        for (const gapMs of gaps) {
          nowMs += gapMs;
          const isDue = nowMs >= verdict.strikeDueMs;
          const before = account.account;
          verdict = account.at(nowMs);
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
  function strikeOut(account: ReturnType<typeof timeline>, fromMs: number): Verdict {
    for (let i = 0; i < 9; i++) {
      const verdict = account.at(fromMs + i * 1_001);
      if (verdict.ban !== undefined) return verdict;
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
    const ask: Ask = { limits: [{ window: "day", limit: 9 }], bans: undefined, units: 1 };
    const off = decide(account.account, ask, NOON + 5 * SECOND);
    assert.deepEqual([off.verdict.granted, off.verdict.ban], [1, undefined]);
    assert.equal(decide(off.account, { ...ask, bans: BANS }, NOON + 6 * SECOND).verdict.granted, 0);
  });

  it("last a whole number of milliseconds, however large the factor and the offences", () => {
    assert.equal(banLength({ ...BANS, factor: 1.1, durationMs: 1_001 }, 1), 1_101);
    assert.equal(banLength({ ...BANS, factor: 1e300 }, 1e9), HOUR);
    assert.equal(banLength({ ...BANS, factor: 1 }, 1e9), MINUTE);
  });
});

const limits = fc.uniqueArray(
  fc.record({
    window: fc.constantFrom<WindowName>("second", "minute", "hour", "day", "month"),
    limit: fc.integer({ min: 1, max: 8 }),
  }),
  { minLength: 1, maxLength: 4, selector: ({ window }) => window },
);
const steps = fc.array(
  fc.record({
    byMs: fc.integer({ min: -3_000, max: 30_000 }),
    units: fc.integer({ min: 0, max: 9 }),
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
  }),
  { nil: undefined },
);

describe("decide(), over any history,", () => {
  it("gives for n units at once what it gives for n times one at that instant", () => {
    fc.assert(
      fc.property(limits, policy, steps, (plan, bans, history) => {
        let merged: Account = NEW_ACCOUNT;
        let single: Account = NEW_ACCOUNT;
        let nowMs = NOON;
        for (const { byMs, units } of history) {
          nowMs += byMs;
          const all = decide(merged, { limits: plan, bans, units }, nowMs);
          merged = all.account;
          let granted = 0;
          let last = decide(single, { limits: plan, bans, units: 0 }, nowMs);
          for (let i = 0; i < units; i++) {
            last = decide(single, { limits: plan, bans, units: 1 }, nowMs);
            single = last.account;
            granted += last.verdict.granted;
          }
          if (units === 0) single = last.account;
          assert.equal(all.verdict.granted, granted);
          assert.deepEqual(merged, single);
          const { repaired: _, granted: __, ...told } = all.verdict;
          const { repaired: ___, granted: ____, ...toldLast } = last.verdict;
          assert.deepEqual(told, toldLast);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("never counts over a limit, and counts in every window what it granted there", () => {
    fc.assert(
      fc.property(limits, policy, steps, (plan, bans, history) => {
        const account = timeline(plan, bans ?? "off");
        const granted = new Map<string, number>();
        let nowMs = NOON;
        for (const { byMs, units } of history) {
          nowMs += Math.abs(byMs);
          const verdict = account.at(nowMs, units);
          for (const { window, limit, used, resetMs } of verdict.windows) {
            const id = `${window} ${resetMs}`;
            granted.set(id, (granted.get(id) ?? 0) + verdict.granted);
            assert.ok(used <= limit);
            assert.equal(used, granted.get(id));
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
