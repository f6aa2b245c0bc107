import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { negated } from "../../../../src/stores/quotas/outage/account-debt.ts";
import {
  LocalQuotas,
  type OutageContext,
  shareOf,
} from "../../../../src/stores/quotas/outage/local-quotas.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { account } from "../redis/redis-kit.ts";
import { accountRef, asking, DAY_START, MINUTE, NOON, terms, toldBy } from "./local-kit.ts";

const TODAY = DAY_START / 86_400_000;

/** How many of so many requests are admitted. */
function admitted(
  accounts: LocalQuotas,
  quotaRequest: QuotaRequest,
  given: OutageContext,
  requests = 1_000,
): number {
  let count = 0;
  for (let i = 0; i < requests; i++)
    count += accounts.decide(accountRef, quotaRequest, given).decision.granted;
  return count;
}

describe("the share of a gateway", () => {
  it("is what is left, divided by the gateways and rounded up, and never below 0", () => {
    const cases = [
      [60, 0, 1, 60],
      [60, 0, 60, 1],
      [60, 0, 61, 1],
      [60, 0, 59, 2],
      [60, 59, 2, 1],
      [60, 58, 2, 1],
      [60, 57, 2, 2],
      [60, 60, 2, 0],
      [60, 61, 2, 0],
      [1e12, 0, 3, 333_333_333_334],
    ] as const;
    for (const [limit, known, gateways, share] of cases) {
      assert.equal(shareOf(limit, known, gateways), share, `${limit} ${known} ${gateways}`);
    }
  });

  it("is of what was left in the window that was running, and of all in later ones", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "minute", limit: 60 });
    const last = toldBy(quotaRequest, 41, NOON + 1_000);
    const went = { gateways: 2, last };
    const lastMs = NOON + MINUTE - 1;
    assert.equal(admitted(accounts, quotaRequest, terms({ ...went, nowMs: lastMs })), 10);
    assert.equal(admitted(accounts, quotaRequest, terms({ ...went, nowMs: lastMs + 1 })), 30);
    assert.equal(
      admitted(accounts, quotaRequest, terms({ ...went, nowMs: NOON + 2 * MINUTE })),
      30,
    );
  });

  it("is told as a decision would tell it without being fixed by that", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "minute", limit: 60 });
    const told = (used: number) => {
      const given = terms({ gateways: 2, last: toldBy(quotaRequest, used, NOON) });
      const { windows } = accounts.peek(accountRef, quotaRequest.limits, given, "local");
      return [windows.map(({ limit, used: units }) => [limit, units]), given] as const;
    };
    assert.deepEqual(told(0)[0], [[30, 0]]);
    const [before, given] = told(20);
    assert.deepEqual(before, [[20, 0]]);
    assert.equal(admitted(accounts, quotaRequest, given, 5), 5);
    assert.deepEqual(told(20)[0], [[20, 5]]);
    assert.equal(admitted(accounts, quotaRequest, given), 15);
    assert.deepEqual(told(20)[0], [[20, 20]]);
  });

  it("is what refuses while the clock leaves open whether the window is over, never the limit", () => {
    const quotaRequest = asking({ window: "minute", limit: 60 });
    const endMs = NOON + MINUTE;
    const outcomeAt = (latestMs: number) => {
      const given = terms({ last: toldBy(quotaRequest, 60, NOON), nowMs: endMs - 200, latestMs });
      return new LocalQuotas(100).decide(accountRef, quotaRequest, given).outcome;
    };
    assert.equal(outcomeAt(endMs - 1), "exhausted");
    assert.equal(outcomeAt(endMs), "share");
  });

  it("counts 0 as known of a window that the last answer does not tell of", () => {
    const quotaRequest = asking({ window: "minute", limit: 60 });
    const before = toldBy(quotaRequest, 41, NOON - 1);
    assert.equal(admitted(new LocalQuotas(100), quotaRequest, terms({ last: before })), 60);
    const other = toldBy(asking({ window: "day", limit: 60 }), 41, NOON);
    assert.equal(admitted(new LocalQuotas(100), quotaRequest, terms({ last: other })), 60);
  });

  it("holds in every window, and is the limit that is told", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "minute", limit: 60 }, { window: "day", limit: 100 });
    const last = toldBy(quotaRequest, 20, NOON);
    const given = terms({ gateways: 4, last });
    const { decision } = accounts.decide(accountRef, quotaRequest, given);
    assert.deepEqual(
      decision.windows.map(({ limit, used, resetMs }) => [limit, used, resetMs]),
      [
        [10, 1, NOON + MINUTE],
        [20, 1, DAY_START + 86_400_000],
      ],
    );
    assert.equal(admitted(accounts, quotaRequest, given), 9);
    const later = { ...given, nowMs: NOON + MINUTE };
    assert.equal(admitted(accounts, quotaRequest, later), 10, "the day ends it: 20 in all");
  });

  it("follows a limit that a reload changes, and keeps the count", () => {
    const accounts = new LocalQuotas(100);
    const given = terms({ gateways: 2 });
    assert.equal(admitted(accounts, asking({ window: "day", limit: 20 }), given), 10);
    assert.equal(admitted(accounts, asking({ window: "day", limit: 30 }), given), 5);
    assert.equal(admitted(accounts, asking({ window: "day", limit: 10 }), given), 0);
  });

  it("is made anew from what is known then, when another absence begins", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "day", limit: 60 });
    assert.equal(admitted(accounts, quotaRequest, terms(), 5), 5);
    accounts.debts.take();
    accounts.endOutage();
    const last = toldBy(quotaRequest, 59, NOON);
    assert.equal(admitted(accounts, quotaRequest, terms({ last })), 1);
  });
});

describe("a second outage while other gateways may owe their shares of the first", () => {
  const quotaRequest = asking({ window: "day", limit: 60 });

  it("leaves their shares alone, as large as they were at first", () => {
    const accounts = new LocalQuotas(100);
    assert.equal(admitted(accounts, quotaRequest, terms({ gateways: 3 })), 20);
    accounts.debts.take();
    accounts.beginOutage();
    const last = toldBy(quotaRequest, 25, NOON);
    const again = terms({ gateways: 3, last, pendingBefore: 1 });
    assert.equal(
      admitted(accounts, quotaRequest, again),
      12,
      "a third of 35, which is less than 60 - 25 - 20",
    );
    accounts.debts.take();
    accounts.beginOutage();
    const both = terms({ gateways: 3, last, pendingBefore: 2 });
    assert.equal(admitted(accounts, quotaRequest, both), 0, "two shares of 20 leave nothing of 35");
    assert.equal(
      accounts.decide(accountRef, quotaRequest, both).outcome,
      "share",
      "and that is no rate limit",
    );
  });

  it("keeps for them in the store what they may owe, and nothing of an observed limit", () => {
    const accounts = new LocalQuotas(100);
    const observed = { window: "month", limit: 1e12, observed: true } as const;
    const limits = [...quotaRequest.limits, observed];
    const last = toldBy(quotaRequest, 30, NOON);
    const given = terms({ gateways: 3, last });
    assert.deepEqual(accounts.reservedFor(accountRef, limits, 2, given), [20, 0]);
    assert.deepEqual(
      accounts.reservedFor(accountRef, limits, 9, given),
      [60, 0],
      "never more than all",
    );
  });
});

describe("a refusal without the store", () => {
  const quotaRequest = { ...asking({ window: "day", limit: 10 }), bans: DEFAULT_BANS };

  it("is for the sake of the share while the limit has room, and is no strike", () => {
    const accounts = new LocalQuotas(100);
    const given = terms({ gateways: 2, last: toldBy(quotaRequest, 4, NOON) });
    assert.equal(admitted(accounts, quotaRequest, given, 3), 3);
    for (let i = 0; i < 50; i++) {
      const { decision, outcome } = accounts.decide(accountRef, quotaRequest, {
        ...given,
        nowMs: NOON + i * 2_000,
      });
      const [day] = decision.windows;
      assert.deepEqual([outcome, day?.limit, day?.used, decision.strikes], ["share", 3, 3, 0]);
    }
  });

  it("is a rate limit, told by the plan's own, once what was counted and is owed leaves no room", () => {
    const accounts = new LocalQuotas(100);
    const given = terms({ gateways: 1, last: toldBy(quotaRequest, 4, NOON) });
    assert.equal(admitted(accounts, quotaRequest, given, 6), 6);
    const { decision, outcome } = accounts.decide(accountRef, quotaRequest, given);
    const [day] = decision.windows;
    assert.deepEqual([outcome, day?.limit, day?.used], ["exhausted", 10, 10]);
  });
});

describe("what is owed still when another absence begins", () => {
  it("counts as used, as no answer tells of it", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "day", limit: 60 });
    const given = terms({ last: toldBy(quotaRequest, 10, NOON) });
    assert.equal(admitted(accounts, quotaRequest, given, 30), 30);
    accounts.endOutage();
    assert.equal(admitted(accounts, quotaRequest, given), 20);
  });

  it("counts as used too where the store charged it and the answer came too late", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "day", limit: 60 });
    const given = terms({ last: toldBy(quotaRequest, 10, NOON) });
    assert.equal(admitted(accounts, quotaRequest, given, 30), 30);
    const last = toldBy(quotaRequest, 35, NOON);
    const charge = (units: number) => {
      accounts.debts.subtract(accountRef, quotaRequest, { ...last, granted: units });
      return accounts.debts.unitsIn(accountRef, { counter: "day", startMs: DAY_START });
    };
    assert.equal(charge(25), 5, "of 30 owed, 25 are charged");
    const [left] = accounts.debts.take();
    assert.equal(left?.windows[0]?.units, 5);
    const kept = { day: TODAY, requests: 5, units: 5, plan: undefined };
    assert.deepEqual(left?.days, [kept], "for the history too");
    accounts.endOutage();
    assert.equal(admitted(accounts, quotaRequest, terms({ last })), 25);
    assert.equal(charge(40), -15, "nothing was owed for these: they are taken back");
  });

  it("is refused where the cost of one request is more than a whole share", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = { ...asking({ window: "day", limit: 60 }), cost: 31 };
    assert.equal(
      accounts.decide(accountRef, quotaRequest, terms({ gateways: 2 })).outcome,
      "share",
    );
    const fits = accounts.decide(accountRef, { ...quotaRequest, cost: 30 }, terms({ gateways: 2 }));
    assert.equal(fits.outcome, "admitted");
    assert.equal(accounts.debts.take()[0]?.windows[0]?.units, 30);
  });
});

describe("what is owed", () => {
  const quotaRequest = asking({ window: "minute", limit: 9 }, { window: "day", limit: 100 });

  it("is each unit in its own windows", () => {
    const accounts = new LocalQuotas(100);
    admitted(accounts, quotaRequest, terms({ nowMs: NOON + MINUTE - 1 }), 3);
    admitted(accounts, quotaRequest, terms({ nowMs: NOON + MINUTE }), 2);
    const [minute, day] = quotaRequest.limits;
    const plain = { endMs: undefined, chargedMs: undefined, untold: undefined };
    assert.deepEqual(accounts.debts.take(), [
      {
        ...{ accountRef, plan: undefined },
        windows: [
          { counter: "minute", startMs: NOON, units: 3, limit: minute, ...plain },
          { counter: "day", startMs: DAY_START, units: 5, limit: day, ...plain },
          { counter: "minute", startMs: NOON + MINUTE, units: 2, limit: minute, ...plain },
        ],
        days: [{ day: TODAY, requests: 5, units: 5, plan: undefined }],
        meters: [],
      },
    ]);
    assert.deepEqual([accounts.debts.hasAny, accounts.debts.take()], [false, []]);
  });

  it("is nothing for what was refused", () => {
    const accounts = new LocalQuotas(100);
    admitted(accounts, quotaRequest, terms(), 50);
    assert.equal(accounts.debts.take()[0]?.windows[0]?.units, 9);
  });

  it("is put back beside what was admitted since", () => {
    const accounts = new LocalQuotas(100);
    admitted(accounts, quotaRequest, terms(), 3);
    const taken = accounts.debts.take();
    admitted(accounts, quotaRequest, terms(), 2);
    accounts.debts.restore(taken);
    const [debt] = accounts.debts.take();
    assert.ok(debt);
    assert.deepEqual(
      debt.windows.map(({ units }) => units),
      [5, 5],
    );
    const last = toldBy(quotaRequest, 8, NOON);
    accounts.endOutage();
    assert.equal(admitted(accounts, quotaRequest, terms({ last })), 1);
    const next = terms({ nowMs: NOON + MINUTE, last });
    accounts.endOutage();
    assert.equal(admitted(accounts, quotaRequest, next), 9, "of a later minute nothing is known");
  });

  it("keeps its limit, by which events are told, when a part of it turns out to be charged", () => {
    const accounts = new LocalQuotas(100);
    admitted(accounts, quotaRequest, terms(), 3);
    const taken = accounts.debts.take();
    accounts.debts.restore(taken);
    admitted(accounts, quotaRequest, terms(), 2);
    accounts.debts.restore(negated(taken));
    const [debt] = accounts.debts.take();
    assert.deepEqual(
      debt?.windows.map(({ units, limit }) => [units, limit]),
      quotaRequest.limits.map((limit) => [2, limit]),
    );
  });

  it("is not subtracted twice from a known count, where the store will take units back", () => {
    const { debts } = new LocalQuotas(100);
    const quotaRequest = asking({ window: "day", limit: 10 });
    const late = { ...toldBy(quotaRequest, 3, NOON), granted: 2 };
    debts.subtract(accountRef, quotaRequest, late);
    const [known] = debts.totalsOf(accountRef, late.windows);
    assert.equal(known?.used, 1);
    const counted = debts.countIn(accountRef, toldBy(quotaRequest, 1, NOON));
    assert.equal(counted.windows[0]?.used, 1);
    debts.add(accountRef, quotaRequest, late.windows, NOON);
    debts.add(accountRef, quotaRequest, late.windows, NOON);
    debts.add(accountRef, quotaRequest, late.windows, NOON);
    assert.equal(debts.countIn(accountRef, toldBy(quotaRequest, 3, NOON)).windows[0]?.used, 4);
  });

  it("is never of more than two windows of a kind: those long over count for nothing", () => {
    const accounts = new LocalQuotas(100);
    const perSecond = asking({ window: "second", limit: 5 }, { window: "month", limit: 1e6 });
    for (let i = 0; i < 10_000; i++) {
      accounts.decide(accountRef, perSecond, terms({ nowMs: NOON + i * 1_000 }));
    }
    const [debt] = accounts.debts.take();
    assert.deepEqual(
      debt?.windows.map(({ counter, startMs, units }) => [counter, startMs - NOON, units]),
      [
        ["month", Date.UTC(2026, 6, 1) - NOON, 10_000],
        ["second", 9_998_000, 1],
        ["second", 9_999_000, 1],
      ],
    );
  });
});

describe("admitting whatever the windows say", () => {
  it("counts on from what is known, owes every unit, and never tells more than the limit", () => {
    const accounts = new LocalQuotas(100);
    const quotaRequest = asking({ window: "day", limit: 5 });
    const given = terms({ last: toldBy(quotaRequest, 3, NOON) });
    const used = Array.from({ length: 4 }, () => accounts.admit(accountRef, quotaRequest, given));
    assert.deepEqual(
      used.map(({ granted, windows }) => [granted, windows[0]?.limit, windows[0]?.used]),
      [
        [1, 5, 4],
        [1, 5, 5],
        [1, 5, 5],
        [1, 5, 5],
      ],
    );
    assert.equal(accounts.debts.take()[0]?.windows[0]?.units, 4);
  });
});

describe("memory", () => {
  it("holds at most so many accounts; the oldest go, with what they owe", () => {
    const accounts = new LocalQuotas(3);
    const quotaRequest = asking({ window: "day", limit: 1 });
    for (let i = 0; i < 5; i++) accounts.decide(account(`n${i}`), quotaRequest, terms());
    assert.equal(accounts.decide(account("n4"), quotaRequest, terms()).decision.granted, 0);
    assert.equal(accounts.decide(account("n0"), quotaRequest, terms()).decision.granted, 1);
    const owing = accounts.debts.take().map(({ accountRef: { account: id } }) => id);
    assert.deepEqual(owing, ["n3", "n4", "n0"]);
    assert.equal(accounts.debts.lostUnits, 3, "of n0, n1 and n2");
  });
});
