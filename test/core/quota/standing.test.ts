import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  type AccountState,
  decide,
  type QuotaDecision,
  type WindowUsage,
} from "../../../src/core/quota/decide.ts";
import {
  admittedRateLimit,
  crossedLimits,
  rateLimitRefusal,
  retryAfterSeconds,
  unusedWindows,
} from "../../../src/core/quota/rate-limit-info.ts";
import type { Limit, WindowName } from "../../../src/core/quota/windows.ts";
import { DEFAULT_BANS } from "../../support/gateway/default-bans.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const MINUTE_END = NOON + 60_000;
const DAY_END = Date.UTC(2026, 6, 16);

function verdict(
  windows: readonly (readonly [WindowName, used: number, limit: number, resetMs: number])[],
  ban?: QuotaDecision["ban"],
): QuotaDecision {
  return {
    nowMs: NOON,
    granted: 0,
    windows: windows.map(([window, used, limit, resetMs]) => ({ window, used, limit, resetMs })),
    ban,
    strikes: 0,
    strikeDueMs: NOON,
    repaired: false,
  };
}

describe("An admitted request is told", () => {
  const cases: readonly (readonly [string, Parameters<typeof verdict>[0], number, unknown])[] = [
    [
      "the window with the least remaining",
      [
        ["minute", 1, 60, MINUTE_END],
        ["day", 990, 1_000, DAY_END],
      ],
      0,
      { window: "day", limit: 1_000, remaining: 10, resetMs: DAY_END },
    ],
    [
      "the one that resets later on a tie, whatever their order",
      [
        ["day", 940, 1_000, DAY_END],
        ["minute", 0, 60, MINUTE_END],
      ],
      0,
      { window: "day", limit: 1_000, remaining: 60, resetMs: DAY_END },
    ],
    [
      "the later one of a tie in the usual order too",
      [
        ["minute", 0, 60, MINUTE_END],
        ["day", 940, 1_000, DAY_END],
      ],
      0,
      { window: "day", limit: 1_000, remaining: 60, resetMs: DAY_END },
    ],
    [
      "the first of those that are alike in both: nothing tells them apart",
      [
        ["minute", 55, 60, DAY_END],
        ["day", 995, 1_000, DAY_END],
      ],
      0,
      { window: "minute", limit: 60, remaining: 5, resetMs: DAY_END },
    ],
    [
      "what was left before those admitted after it",
      [
        ["minute", 60, 60, MINUTE_END],
        ["day", 60, 1_000, DAY_END],
      ],
      3,
      { window: "minute", limit: 60, remaining: 3, resetMs: MINUTE_END },
    ],
    [
      "never less than nothing",
      [["day", 12, 10, DAY_END]],
      0,
      { window: "day", limit: 10, remaining: 0, resetMs: DAY_END },
    ],
  ];
  for (const [claim, windows, requestsAfter, expected] of cases) {
    it(claim, () =>
      assert.deepEqual(admittedRateLimit(verdict(windows), { requestsAfter }), expected),
    );
  }

  it("nothing where there is no window: that is no plan", () => {
    assert.throws(() => admittedRateLimit({ windows: [] }), {
      name: "RangeError",
      message: /^Cannot tell a standing: /,
    });
  });
});

describe("Where nothing is known it is limit and limit", () => {
  it("of the window that refuses soonest, to its end", () => {
    const limits: readonly Limit[] = [
      { window: "minute", limit: 60 },
      { window: "day", limit: 1_000 },
    ];
    assert.deepEqual(admittedRateLimit({ windows: unusedWindows(limits, NOON + 1) }), {
      ...{ window: "minute", limit: 60 },
      ...{ remaining: 60, resetMs: MINUTE_END },
    });
  });
});

describe("A refused request is told", () => {
  const full = ["minute", 60, 60, MINUTE_END] as const;
  const fullDay = ["day", 1_000, 1_000, DAY_END] as const;
  const roomy = ["day", 60, 1_000, DAY_END] as const;
  const banned = (untilMs: number, window: WindowName = "minute") => {
    return { untilMs, lengthMs: 60_000, window, offences: 1 };
  };

  it("nothing while there is room and no ban", () => {
    assert.equal(
      rateLimitRefusal(verdict([["minute", 59, 60, MINUTE_END], roomy]), NOON),
      undefined,
    );
  });

  it("of several exhausted windows the one that ends last", () => {
    for (const windows of [
      [full, fullDay],
      [fullDay, full],
    ]) {
      assert.deepEqual(rateLimitRefusal(verdict(windows), NOON), {
        code: "rate_limited",
        rateLimitInfo: { window: "day", limit: 1_000, remaining: 0, resetMs: DAY_END },
      });
    }
  });

  it("of several that end together the longer one", () => {
    const evening = ["minute", 60, 60, DAY_END] as const;
    assert.equal(rateLimitRefusal(verdict([evening, fullDay]), NOON)?.rateLimitInfo.limit, 1_000);
  });

  it("the ban where that ends last, with the limit of the window that struck", () => {
    const refusal = rateLimitRefusal(verdict([full, roomy], banned(MINUTE_END + 1)), NOON);
    assert.deepEqual(refusal, {
      code: "key_banned",
      rateLimitInfo: { window: "ban", limit: 60, remaining: 0, resetMs: MINUTE_END + 1 },
    });
    const byDay = rateLimitRefusal(verdict([full, roomy], banned(MINUTE_END + 1, "day")), NOON);
    assert.equal(byDay?.rateLimitInfo.limit, 1_000);
  });

  it("the exhausted window where that ends last, though the ban is the reason", () => {
    for (const untilMs of [DAY_END, DAY_END - 1]) {
      assert.deepEqual(rateLimitRefusal(verdict([full, fullDay], banned(untilMs)), NOON), {
        code: "key_banned",
        rateLimitInfo: { window: "day", limit: 1_000, remaining: 0, resetMs: DAY_END },
      });
    }
  });

  it("a limit of the plan where the window that struck is no longer in it", () => {
    const ban = banned(DAY_END + 1, "hour");
    assert.equal(rateLimitRefusal(verdict([full, roomy], ban), NOON)?.rateLimitInfo.limit, 60);
    const month = ["month", 0, 30_000, Date.UTC(2026, 7)] as const;
    const free = verdict([["minute", 0, 60, MINUTE_END], roomy, month], ban);
    assert.equal(rateLimitRefusal(free, NOON)?.rateLimitInfo.limit, 30_000);
    assert.equal(rateLimitRefusal(verdict([], ban), NOON)?.rateLimitInfo.limit, 0);
  });

  it("the limit of the operation that earned the ban, whose window it does not have", () => {
    const part = { id: "1z1", name: "createPet" };
    const ban = { ...banned(DAY_END + 1, "hour"), operation: part.id };
    const operations: readonly Limit[] = [
      { window: "hour", limit: 4, part: { id: "1z2", name: "listPets" } },
      { window: "day", limit: 6, part },
      { window: "hour", limit: 5, part },
    ];
    const limitTold = (all: readonly Limit[], by: typeof ban) => {
      return rateLimitRefusal(verdict([roomy], by), NOON, 1, all)?.rateLimitInfo.limit;
    };
    assert.equal(limitTold(operations, ban), 5);
    assert.equal(limitTold(operations.slice(0, 2), ban), 1_000, "the operation lost its window");
    assert.equal(limitTold(operations, { ...ban, operation: "1z2" }), 4);
  });

  it("no limit of a meter, a key or an observed window where the one that struck is gone", () => {
    const ban = banned(DAY_END + 1, "hour");
    const month = { window: "month", limit: 7, used: 0, resetMs: Date.UTC(2026, 7) } as const;
    const others: readonly WindowUsage[] = [
      { ...month, part: { id: "#tokens", name: "tokens" } },
      { ...month, part: { id: "@1", name: "key" } },
      { ...month, window: "hour", observed: true },
    ];
    const { windows } = verdict([roomy]);
    const refusal = rateLimitRefusal({ windows: [...windows, ...others], ban }, NOON);
    assert.equal(refusal?.rateLimitInfo.limit, 1_000);
  });

  it("nothing once all of it is over, and what is left before", () => {
    const both = verdict([full, roomy], banned(MINUTE_END + 5_000));
    assert.equal(rateLimitRefusal(both, MINUTE_END + 4_999)?.code, "key_banned");
    assert.equal(rateLimitRefusal(both, MINUTE_END + 5_000), undefined);
    assert.equal(rateLimitRefusal(verdict([full, roomy]), MINUTE_END - 1)?.code, "rate_limited");
    assert.equal(rateLimitRefusal(verdict([full, roomy]), MINUTE_END), undefined);
  });
});

describe("Retry-After", () => {
  it("is whole seconds, rounded up, and at least 1", () => {
    const told = [-5_000, 0, 1, 999, 1_000, 1_001, 86_400_000].map((inMs) => {
      return retryAfterSeconds(NOON + inMs, NOON);
    });
    assert.deepEqual(told, [1, 1, 1, 1, 1, 2, 86_400]);
  });

  /** Minute, day and ban, each over, in force or exhausted: all eight combinations, at any instant. */
  for (const minute of [false, true]) {
    for (const day of [false, true]) {
      for (const ban of [false, true]) {
        if (!minute && !day && !ban) continue;
        const named = [minute && "minute", day && "day", ban && "ban"]
          .filter(Boolean)
          .join(" and ");
        it(`is enough, and one second less is not, for ${named}`, () => {
          const offset = fc.integer({ min: 0, max: 86_399_999 });
          const lengths = fc.oneof(
            fc.integer({ min: 1, max: 90_000 }),
            fc.integer({ min: 1, max: 2 * 86_400_000 }),
          );
          fc.assert(
            fc.property(offset, lengths, (offsetMs, banMs) => {
              obeying({ minute, day, banMs: ban ? banMs : 0 }, Date.UTC(2026, 6, 15) + offsetMs);
            }),
            { numRuns: 300 },
          );
        });
      }
    }
  }
});

type Refusing = { readonly minute: boolean; readonly day: boolean; readonly banMs: number };

/** Refused at `nowMs`: the same ask after Retry-After passes; one second less is refused. */
function obeying({ minute, day, banMs }: Refusing, nowMs: number): void {
  const limits: readonly Limit[] = [
    { window: "minute", limit: 5 },
    { window: "day", limit: 9 },
  ];
  const dayStartMs = nowMs - (nowMs % 86_400_000);
  const account: AccountState = {
    usage: {
      minute: { startMs: nowMs - (nowMs % 60_000), count: minute ? 5 : 1, refusedMs: 0 },
      day: { startMs: dayStartMs, count: day ? 9 : 1, refusedMs: 0 },
    },
    strikesMs: [],
    ban:
      banMs === 0
        ? undefined
        : { untilMs: nowMs + banMs, lengthMs: banMs, window: "minute", offences: 1 },
  };
  const quotaRequest = { limits, bans: DEFAULT_BANS, requests: 1 };
  const refused = decide(account, quotaRequest, nowMs);
  assert.equal(refused.decision.granted, 0);
  const refusal = rateLimitRefusal(refused.decision, nowMs);
  assert.equal(refusal?.code, banMs === 0 ? "rate_limited" : "key_banned");
  const resetMs = refusal?.rateLimitInfo.resetMs ?? 0;
  const seconds = retryAfterSeconds(resetMs, nowMs);
  assert.equal(decide(refused.account, quotaRequest, nowMs + seconds * 1_000).decision.granted, 1);
  if (seconds > 1) {
    assert.equal(
      decide(refused.account, quotaRequest, nowMs + (seconds - 1) * 1_000).decision.granted,
      0,
    );
  }
  // The same instant in X-RateLimit-Reset, which is rounded up to whole seconds.
  assert.equal(
    decide(refused.account, quotaRequest, Math.ceil(resetMs / 1_000) * 1_000).decision.granted,
    1,
  );
}

describe("A request that is admitted over limits that only observe", () => {
  const observe: readonly Limit[] = [
    { window: "minute", limit: 10 },
    { window: "day", limit: 100 },
  ];
  const crossedBy = (minute: number, day: number, request = {}) => {
    const windows = [
      ["minute", minute, 1e9, MINUTE_END],
      ["day", day, 1e9, DAY_END],
    ] as const;
    return crossedLimits(verdict(windows), observe, request);
  };

  it("names those that it went over, and not one that it has just reached", () => {
    assert.deepEqual(crossedBy(10, 100), []);
    assert.deepEqual(crossedBy(11, 100), ["minute"]);
    assert.deepEqual(crossedBy(10, 101), ["day"]);
    assert.deepEqual(crossedBy(11, 101), ["minute", "day"]);
  });

  it("is judged by what was used up to it, without the requests of its call that come after", () => {
    assert.deepEqual(crossedBy(12, 0, { requestsAfter: 2 }), []);
    assert.deepEqual(crossedBy(13, 0, { requestsAfter: 2 }), ["minute"]);
    assert.deepEqual(crossedBy(16, 0, { cost: 3, requestsAfter: 2 }), []);
  });

  it("names none if it costs nothing, because it is admitted whatever the counts", () => {
    assert.deepEqual(crossedBy(11, 101, { cost: 0 }), []);
    assert.deepEqual(crossedBy(11, 101, { cost: 1 }), ["minute", "day"]);
  });

  it("names no window that is not counted, nor one of an operation in place of it", () => {
    const minute = { window: "minute", limit: 1e9, used: 50, resetMs: MINUTE_END } as const;
    const operation = { ...minute, part: { id: "1z1", name: "createPet" } };
    assert.deepEqual(crossedLimits({ windows: [] }, observe, {}), []);
    assert.deepEqual(crossedLimits({ windows: [operation] }, observe, {}), []);
  });
});
