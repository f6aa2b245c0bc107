import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type AskedPeriod,
  isWindow,
  openPeriod,
  unknownBalances,
} from "../../../src/cli/logs/audit-periods.ts";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { DAY_MS, dayOf } from "../../../src/core/quota/days.ts";
import type { LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

const ACME = { environment: "production", account: "acme" };
const DAY = dayOf(Date.UTC(2026, 9, 21));
const NOON = (DAY + 0.5) * DAY_MS;

describe("a period of an audit", () => {
  it.for([
    ["day", true],
    ["createPet.day", true],
    ["2fa_verify.minute", true],
    ["2026-10-21.day", true],
    ["key.day of k_1", true],
    ["2026-10-21", false],
    ["2026-10-21 tokens", false],
  ] as const)("is a window that runs, or a day that is over: %s", ([period, runs]) => {
    assert.equal(isWindow(period), runs);
  });
});

describe("an account whose counts are not known", () => {
  const WHYS = new Map([["production:acme", "no answer"]]);
  const told = (asked: AskedPeriod, whys = WHYS) => {
    const ledger = new Ledger([], []);
    const range = [Date.UTC(2026, 9, 1), NOON, Date.UTC(2026, 9, 31), Date.UTC(2026, 10, 1)];
    for (const [i, atMs] of range.entries()) {
      const line = { msg: "request", env: ACME.environment, account: ACME.account, plan: "daily" };
      const decided = { time: atMs, decidedAt: atMs, charged: 10 ** i };
      ledger.request({ ...line, ...decided } as unknown as LoggedRequest);
    }
    return unknownBalances(ledger, whys, asked).map(({ window, charged, verdict, why }) => {
      return [window, charged, verdict, why];
    });
  };

  it("is told with the period that was asked for and its units in it, from the first day to the last", () => {
    const why = ["not compared", "its counts are not known: no answer"];
    assert.deepEqual(told({}), [["all periods", 1_111, ...why]]);
    assert.deepEqual(told({ month: "2026-10" }), [["2026-10", 111, ...why]]);
    assert.deepEqual(told({ day: DAY }), [["2026-10-21", 10, ...why]]);
  });

  it("is not told where it was charged nothing in the period, or where its counts are known", () => {
    assert.deepEqual(told({ day: DAY + 1 }), []);
    assert.deepEqual(told({}, new Map()), []);
  });
});

describe("a period that was asked for and is not over", () => {
  const whys = (asked: AskedPeriod) => openPeriod(asked, NOON).map((one) => Object.values(one));
  const runs = "it is not over, and no window of its length counts";

  it("is told by its name: that it runs until its last day is over, or has not begun", () => {
    assert.deepEqual(whys({ day: DAY }), [["2026-10-21", runs]]);
    assert.deepEqual(whys({ day: DAY + 1 }), [["2026-10-22", "it has not begun"]]);
    assert.deepEqual(whys({ month: "2026-10" }), [["2026-10", runs]]);
    assert.deepEqual(whys({ month: "2026-11" }), [["2026-11", "it has not begun"]]);
  });

  it("is none where it is over, nor where no period was asked for", () => {
    const over = [{ day: DAY - 1 }, { month: "2026-09" }, {}];
    assert.deepEqual(over.flatMap(whys), []);
  });
});
