import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, it } from "vitest";
import { AgingMap } from "../../../../src/base/aging-map.ts";
import type { Ban } from "../../../../src/core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest } from "../../../../src/core/quota/decide.ts";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import {
  type CachedDecision,
  cacheDecision,
  withCounts,
} from "../../../../src/stores/quotas/batch/cached-decision.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import {
  couldCauseBan,
  decisionAfter,
  refusalKind,
} from "../../../../src/stores/quotas/batch/known-refusal.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const TRIP = { sentMs: 1_000, receivedMs: 1_004, nowMs: NOON };
const ASK: QuotaRequest = {
  limits: [
    { window: "minute", limit: 60 },
    { window: "day", limit: 1_000 },
  ],
  bans: DEFAULT_BANS,
  requests: 1,
};

function verdict(
  used: readonly [number, number],
  more: Partial<QuotaDecision> = {},
): QuotaDecision {
  return {
    nowMs: NOON,
    granted: 1,
    windows: [
      { window: "minute", limit: 60, used: used[0], resetMs: NOON + 60_000 },
      { window: "day", limit: 1_000, used: used[1], resetMs: NOON + 43_200_000 },
    ],
    ban: undefined,
    strikes: 0,
    strikeDueMs: NOON,
    repaired: false,
    ...more,
  };
}

const clockAt = (latestAt: () => number | undefined) => ({ latestAt, wasSetBack: () => false });

describe("what is known of an account", () => {
  it("is its verdict, as time goes by: a window that ended is empty, the other is kept", () => {
    const cached = cacheDecision(ASK, verdict([7, 40]), TRIP);
    assert.deepEqual(decisionAfter(cached, 0), verdict([7, 40], { granted: 0 }));
    assert.deepEqual(
      decisionAfter(cached, 59_999).windows.map(({ used }) => used),
      [7, 40],
    );
    const later = decisionAfter(cached, 60_000);
    assert.deepEqual(
      later.windows.map(({ used, resetMs }) => [used, resetMs - NOON]),
      [
        [0, 120_000],
        [40, 43_200_000],
      ],
    );
    assert.equal(later.nowMs, NOON + 60_000);
  });

  it("tells a refused account the same list until a window of it ends, to each list of limits its own", () => {
    const cached = cacheDecision(ASK, verdict([60, 60]), TRIP);
    const { limits } = ASK;
    const first = decisionAfter(cached, 1, limits);
    assert.equal(decisionAfter(cached, 59_999, limits).windows, first.windows);
    assert.equal(decisionAfter(cached, 59_999, limits).nowMs, NOON + 59_999);
    const [minute] = limits;
    const alone = decisionAfter(cached, 2, [minute as Limit]);
    assert.deepEqual(
      alone.windows.map(({ used }) => used),
      [60],
    );
    assert.deepEqual(decisionAfter(cached, 59_999, limits).windows, first.windows);
    const later = decisionAfter(cached, 60_000, limits).windows;
    assert.deepEqual(
      later.map(({ used, resetMs }) => [used, resetMs - NOON]),
      [
        [0, 120_000],
        [60, 43_200_000],
      ],
    );
    // A test clock may go back.
    assert.deepEqual(decisionAfter(cached, 0, limits).windows, first.windows);
    const counts = [{ counter: "day", startMs: NOON - 43_200_000, used: 7 }];
    const lowered = withCounts(cached, counts, { nowMs: NOON + 2, ageMs: 0 });
    assert.deepEqual(
      decisionAfter(lowered, 0, limits).windows.map(({ used }) => used),
      [60, 7],
    );
  });

  it("foretells a refusal until the window ends, and not at its end", () => {
    const off = { ...ASK, bans: undefined };
    const filled = cacheDecision(off, verdict([60, 60]), TRIP);
    assert.equal(refusalKind(filled, off, NOON + 59_999), "unnoted");
    const cached = cacheDecision(off, verdict([60, 60], { granted: 0 }), TRIP, filled);
    assert.equal(refusalKind(cached, off, NOON + 59_999), "surely");
    assert.equal(refusalKind(cached, off, NOON + 60_000), "no");
    assert.equal(refusalKind(cacheDecision(ASK, verdict([59, 60]), TRIP), ASK, NOON), "no");
  });

  it("leaves to the store what could be a strike, from the instant that it could be", () => {
    const told = { granted: 0, strikeDueMs: NOON + 1_001 };
    const cached = cacheDecision(ASK, verdict([60, 60], told), TRIP);
    assert.equal(refusalKind(cached, ASK, NOON + 1_000), "surely");
    assert.equal(refusalKind(cached, ASK, NOON + 1_001), "strike");
    const filled = cacheDecision(ASK, verdict([60, 60]), TRIP);
    assert.equal(refusalKind(filled, ASK, NOON), "first", "it begins the grace");
  });

  it("foretells nothing by a ban policy that was changed since, but for a ban in force", () => {
    const changed = { ...ASK, bans: { ...DEFAULT_BANS, graceMs: 5_000 } };
    const cached = cacheDecision(ASK, verdict([60, 60], { strikeDueMs: NOON + 1_001 }), TRIP);
    for (const atMs of [NOON + 1_000, NOON + 1_001])
      assert.equal(refusalKind(cached, changed, atMs), "no");
    assert.equal(
      refusalKind(cached, { ...ASK, bans: { ...DEFAULT_BANS } }, NOON),
      "surely",
      "the same",
    );
    const ban: Ban = { untilMs: NOON + 9, lengthMs: 9, window: "day", offences: 1 };
    const banned = cacheDecision(ASK, verdict([60, 60], { ban }), TRIP);
    assert.equal(refusalKind(banned, changed, NOON + 8), "surely");
    assert.equal(refusalKind(banned, changed, NOON + 9), "no");
  });

  it("knows which strike could ban: by its number, and by one a grace from other gateways", () => {
    const at = (strikes: number, laterMs: number, bans = DEFAULT_BANS) => {
      const cached = cacheDecision({ ...ASK, bans }, verdict([60, 60], { strikes }), TRIP);
      return couldCauseBan(cached, bans, NOON + laterMs);
    };
    assert.deepEqual([at(18, 999), at(19, 0)], [false, true], "the twentieth bans");
    assert.deepEqual([at(18, 1_000), at(17, 1_999), at(17, 2_000)], [true, false, true]);
    assert.equal(at(0, 0, { ...DEFAULT_BANS, graceMs: 0 }), true, "many may come at once");
    assert.equal(
      couldCauseBan(cacheDecision(ASK, verdict([60, 60]), TRIP), undefined, NOON),
      false,
    );
    assert.equal(
      couldCauseBan(cacheDecision(ASK, verdict([1, 1]), TRIP), DEFAULT_BANS, NOON),
      false,
    );
  });

  it("counts the strikes of the last answer as long as each is within the time of the policy", () => {
    const struck = (strikes: number, atMs: number, before?: CachedDecision) => {
      const nowMs = NOON + atMs;
      const trip = { ...TRIP, nowMs };
      return cacheDecision(ASK, verdict([60, 60], { nowMs, strikes, granted: 0 }), trip, before);
    };
    const strikesAt = (cached: CachedDecision, atMs: number) => {
      return decisionAfter(cached, NOON + atMs - cached.trip.nowMs).strikes;
    };
    const first = struck(1, 0);
    const second = struck(2, 20_000, first);
    assert.deepEqual([strikesAt(second, 20_001), strikesAt(second, 59_999)], [2, 2]);
    assert.deepEqual([strikesAt(second, 60_000), strikesAt(second, 80_000)], [1, 0]);
    const third = struck(2, 70_000, second);
    assert.deepEqual([strikesAt(third, 79_999), strikesAt(third, 80_000)], [2, 1]);
    const cleared = struck(0, 75_000, third);
    assert.equal(strikesAt(cleared, 75_001), 0);
    assert.equal(strikesAt(struck(1, 76_000, cleared), 76_001), 1);
  });

  it("refuses the cost that was refused, and asks the store for one that fits", () => {
    const dear = { ...ASK, cost: 5 };
    const refused = verdict([57, 60], { granted: 0, strikeDueMs: NOON + 1_001 });
    const cached = cacheDecision(dear, refused, TRIP);
    assert.equal(refusalKind(cached, dear, NOON + 1_000), "surely");
    assert.equal(refusalKind(cached, { ...ASK, cost: 4 }, NOON), "surely", "more than is left");
    assert.equal(refusalKind(cached, { ...ASK, cost: 3 }, NOON), "no");
    assert.equal(refusalKind(cached, ASK, NOON), "no");
    assert.equal(refusalKind(cached, { ...ASK, cost: 0 }, NOON), "no");
    const after = cacheDecision(ASK, verdict([58, 61]), { ...TRIP, nowMs: NOON + 1 }, cached);
    assert.equal(refusalKind(after, { ...ASK, cost: 3 }, NOON + 1_000), "surely", "still known");
  });

  it("is by window: an operation's refusal leaves the others alone", () => {
    const create = { id: "a", name: "createPet" };
    const own = { window: "minute", limit: 2, part: create } as const;
    const asked = { ...ASK, limits: [own, ...ASK.limits] };
    const resetMs = NOON + 60_000;
    const windows = [{ ...own, used: 2, resetMs }, ...verdict([7, 40]).windows];
    const full = verdict([7, 40], { granted: 0, windows, strikeDueMs: NOON + 1_001 });
    const cached = cacheDecision(asked, full, TRIP, cacheDecision(ASK, verdict([6, 39]), TRIP));
    assert.equal(refusalKind(cached, asked, NOON + 1_000), "surely");
    assert.equal(refusalKind(cached, ASK, NOON + 1_000), "no");
    const after = cacheDecision(ASK, verdict([8, 41]), { ...TRIP, nowMs: NOON + 1 }, cached);
    assert.equal(
      refusalKind(after, asked, NOON + 1_000),
      "surely",
      "known on, beside other answers",
    );
    assert.equal(refusalKind(after, asked, NOON + 1_001), "strike");
    assert.equal(refusalKind(after, asked, NOON + 60_000), "no");
    const told = decisionAfter(after, 0, asked.limits).windows.map(({ used }) => used);
    assert.deepEqual(told, [2, 8, 41]);
  });

  it("refuses no operation whose own window, of which nothing is known, ends later", () => {
    const daily = { window: "day", limit: 2, part: { id: "a", name: "createPet" } } as const;
    const off = { ...ASK, bans: undefined };
    const cached = cacheDecision(off, verdict([60, 60]), TRIP);
    assert.equal(refusalKind(cached, { ...off, limits: [...ASK.limits, daily] }, NOON), "no");
  });

  it("asks for a count that is older than the refusal, if its window ends later, once for each", () => {
    const part = { id: "a", name: "createPet" };
    const minute: Limit = { window: "minute", limit: 9, part };
    const day: Limit = { window: "day", limit: 9, part };
    const cap: Limit = { window: "day", limit: 9, part: { id: "@1", name: "key" } };
    const of = (...more: Limit[]) => ({ ...ASK, limits: [...ASK.limits, ...more] });
    let cached: CachedDecision | undefined;
    const learn = (used: number, laterMs: number, ...more: Limit[]) => {
      const nowMs = NOON + laterMs;
      const told = verdict([used, used], { nowMs, granted: 0, strikeDueMs: NOON + 50_000 });
      const own = more.map((limit) => {
        return { ...limit, used: 1, resetMs: NOON + (limit === minute ? 60_000 : 43_200_000) };
      });
      const windows = [...told.windows, ...own];
      cached = cacheDecision(of(...more), { ...told, windows }, { ...TRIP, nowMs }, cached);
      return cached;
    };
    for (const more of [minute, day, cap]) learn(59, 1, more);
    const kinds = (known: CachedDecision) => {
      return [minute, day, cap].map((more) => refusalKind(known, of(more), NOON + 1_000));
    };
    const told = (known: CachedDecision) => {
      const { windows } = decisionAfter(known, 0, of(minute, day).limits, 1);
      return windows.map(({ used, isUnknown }) => isUnknown ?? used);
    };
    const full = learn(60, 2);
    assert.deepEqual(kinds(full), ["surely", "incomplete", "incomplete"]);
    assert.deepEqual(told(full), [60, 60, 1, true]);
    const observed = of({ ...day, observed: true });
    assert.equal(refusalKind(full, observed, NOON + 1_000), "surely", "it refuses nothing");
    const asked = learn(60, 3, day);
    assert.deepEqual(kinds(asked), ["surely", "surely", "incomplete"]);
    assert.deepEqual(told(asked), [60, 60, 1, 1]);
    assert.deepEqual(kinds(learn(61, 4, cap)), ["surely", "surely", "surely"], "once for each");
  });

  it("of a key at its cap is no strike, and beside a window of the account not before that one's", () => {
    const cap = { window: "week", limit: 5, part: { id: "@1", name: "key" } } as const;
    const quotaRequest = { ...ASK, limits: [...ASK.limits, cap] };
    const told = (used: number, strikeDueMs: number) => {
      const { windows, ...rest } = verdict([used, 0], { granted: 0, strikeDueMs });
      const full = { ...cap, used: 5, resetMs: NOON + 5 * 86_400_000 };
      return cacheDecision(quotaRequest, { ...rest, windows: [...windows, full] }, TRIP);
    };
    for (const laterMs of [0, 5_000, 59_999, 4 * 86_400_000]) {
      assert.equal(refusalKind(told(0, NOON), quotaRequest, NOON + laterMs), "surely");
    }
    const both = told(60, NOON + 1_001);
    assert.equal(refusalKind(both, quotaRequest, NOON + 1_000), "surely");
    assert.equal(refusalKind(both, quotaRequest, NOON + 1_001), "strike");
  });

  it("is decided by the store during a settlement if meters alone refuse, and by a ban or a window of the plan if it may fill a meter that ends later", () => {
    const meter = { window: "year", limit: 5, hold: 5, part: { id: "#tokens", name: "tokens" } };
    const quotaRequest = { ...ASK, limits: [...ASK.limits, meter as Limit] };
    const told = (used: number, metered: number, ban?: Ban) => {
      const more = { granted: 0, strikeDueMs: NOON + 1, ban };
      const { windows, ...rest } = verdict([used, 0], more);
      const year = { ...(meter as Limit), used: metered, resetMs: Date.UTC(2027, 0) };
      return cacheDecision(quotaRequest, { ...rest, windows: [...windows, year] }, TRIP);
    };
    const kindsOf = (cached: CachedDecision) =>
      [[], [0], [1], [-1, 1], [-1, 2]].map((settled) => {
        const year = { counter: "#tokens.year", startMs: Date.UTC(2026, 0) };
        const cache = new DecisionCache(() => NOON);
        const accountRef = { environment: "p", account: "a" };
        for (const units of settled)
          cache.settlingMeters.begin([{ accountRef, windows: [{ ...year, units }] }]);
        return cache.refusalKind("p:a", cached, quotaRequest);
      });
    const ban: Ban = { untilMs: NOON + 5_000, lengthMs: 5_000, window: "minute", offences: 1 };
    const [surely, unnoted] = ["surely", "unnoted"];
    assert.deepEqual(kindsOf(told(0, 5)), [surely, unnoted, unnoted, unnoted, unnoted]);
    for (const cached of [told(60, 5), told(0, 5, ban)])
      assert.deepEqual(kindsOf(cached), Array(5).fill(surely), "it is full already");
    for (const cached of [told(60, 0), told(0, 0, ban)])
      assert.deepEqual(kindsOf(cached), [surely, surely, unnoted, surely, unnoted]);
  });

  it("is decided by the store until the last of the settlements of its account that are under way has ended", () => {
    const meter = { window: "year", limit: 5, hold: 5, part: { id: "#tokens", name: "tokens" } };
    const quotaRequest = { ...ASK, limits: [meter as Limit] };
    const full = { ...(meter as Limit), used: 5, resetMs: NOON + 5 * 86_400_000 };
    const cached = cacheDecision(
      quotaRequest,
      verdict([0, 0], { granted: 0, windows: [full] }),
      TRIP,
    );
    const cache = new DecisionCache(() => NOON);
    const kinds = () => ["a", "b"].map((id) => cache.refusalKind(`p:${id}`, cached, quotaRequest));
    const begin = (...names: string[]) =>
      cache.settlingMeters.begin(
        names.map((account) => ({ accountRef: { environment: "p", account }, windows: [] })),
      );
    const endBoth = begin("a", "b");
    const endOne = begin("a");
    assert.deepEqual(kinds(), ["unnoted", "unnoted"]);
    endBoth();
    assert.deepEqual(kinds(), ["unnoted", "surely"]);
    endOne();
    assert.deepEqual(kinds(), ["surely", "surely"]);
  });

  it("is as old as the late answer that told it, though the clock of the store is forgotten since", () => {
    const second: Limit = { window: "second", limit: 5 };
    let latestMs: number | undefined = NOON + 1_500;
    const cache = new DecisionCache(undefined, () => clockAt(() => latestMs));
    const accountRef = { environment: "production", account: "a" };
    cache.learnCounts(accountRef, [{ counter: "second", startMs: NOON, used: 1 }], NOON);
    latestMs = undefined;
    const [known] = cache.lastKnown(accountRef, [second])?.windows ?? [];
    assert.deepEqual([known?.used, known?.resetMs], [0, NOON + 2_000]);
  });

  it("ends with its window by the clock of the store that told it, though that was set ahead since", () => {
    let latestMs = NOON;
    const accountRef = { environment: "production", account: "a" };
    // Each node of a Cluster has a clock of its own.
    const cache = new DecisionCache(undefined, (bucket) => {
      return clockAt(() => (bucket === bucketOf(accountRef) ? latestMs : NOON));
    });
    cache.learnCounts(accountRef, [{ counter: "second", startMs: NOON, used: 1 }], NOON);
    const used = () =>
      cache.lastKnown(accountRef, [{ window: "second", limit: 5 }])?.windows[0]?.used;
    assert.equal(used(), 1);
    latestMs = NOON + 1_500;
    assert.equal(used(), 0);
  });

  it("has a ban that another gateway told no longer than that one, without the clock of the store", () => {
    const ban: Ban = { untilMs: NOON + 60_000, lengthMs: 60_000, window: "minute", offences: 1 };
    const isBanned = (toldMsAgo: number) => {
      const cache = new DecisionCache();
      const accountRef = { environment: "production", account: "a" };
      cache.learnBan(accountRef, ban, NOON, toldMsAgo);
      return cache.lastKnown(accountRef)?.ban !== undefined;
    };
    assert.deepEqual([isBanned(30_000), isBanned(60_000)], [true, false]);
  });

  it("holds a ban to its end, and then the exhausted window", () => {
    const ban: Ban = { untilMs: NOON + 5_000, lengthMs: 5_000, window: "minute", offences: 1 };
    const cached = cacheDecision(ASK, verdict([60, 60], { ban }), TRIP);
    assert.equal(refusalKind(cached, ASK, NOON + 4_999), "surely");
    assert.equal(refusalKind(cached, ASK, NOON + 5_000), "first");
    assert.equal(refusalKind(cached, ASK, NOON + 60_000), "no");
    assert.deepEqual(decisionAfter(cached, 4_999).ban, ban);
    assert.equal(decisionAfter(cached, 5_000).ban, undefined);
  });
});

describe("the memory of accounts", () => {
  it("takes at most 30 MB for 100,000 accounts", (t) => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const memory = new AgingMap<CachedDecision>();
    gc();
    const before = process.memoryUsage().heapUsed;
    let trip = TRIP;
    for (let i = 0; i < 100_000; i++) {
      if (i % 32 === 0) trip = { sentMs: i + 0.5, receivedMs: i + 1.5, nowMs: NOON + i };
      memory.set(`production:acct_${i}`, cacheDecision(ASK, verdict([i % 60, i % 1000]), trip));
    }
    gc();
    const megabytes = (process.memoryUsage().heapUsed - before) / 1e6;
    assert.equal(memory.size, 100_000);
    assert.ok(megabytes > 1 && megabytes <= 30, `${megabytes} MB`);
    t.annotate(`100,000 accounts: ${megabytes.toFixed(1)} MB`);
  });
});
