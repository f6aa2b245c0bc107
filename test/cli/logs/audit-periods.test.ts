import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayBalances } from "../../../src/cli/logs/audit-days.ts";
import {
  type AskedPeriod,
  parseAskedPeriod,
  unknownBalances,
  whyNothing,
} from "../../../src/cli/logs/audit-periods.ts";
import { isWindow } from "../../../src/cli/logs/audit-windows.ts";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { Ledger, newSum } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import { DAY_MS, dayOf, formatDay } from "../../../src/core/quota/days.ts";
import type { LoggedEvent, LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

const ACME = { environment: "production", account: "acme" };
const DAY = dayOf(Date.UTC(2026, 9, 21));
const NOON = (DAY + 0.5) * DAY_MS;
type Options = Parameters<typeof parseAskedPeriod>[0];
const periodOf = (options: Options) => parseAskedPeriod(options) as AskedPeriod | undefined;

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
  const told = (asked: Options, whys = WHYS) => {
    const ledger = new Ledger([], []);
    const range = [Date.UTC(2026, 9, 1), NOON, Date.UTC(2026, 9, 31), Date.UTC(2026, 10, 1)];
    for (const [i, atMs] of range.entries()) {
      const line = { msg: "request", env: ACME.environment, account: ACME.account, plan: "daily" };
      const decided = { time: atMs, decidedAt: atMs, charged: 10 ** i };
      ledger.request({ ...line, ...decided } as unknown as LoggedRequest);
    }
    return unknownBalances(ledger, whys, periodOf(asked)).map(
      ({ window, charged, verdict, why }) => {
        return [window, charged, verdict, why];
      },
    );
  };

  it("is told with the period that was asked for and its units in it, from the first day to the last", () => {
    const why = ["not compared", "its counts are not known: no answer"];
    assert.deepEqual(told({}), [["all periods", 1_111, ...why]]);
    assert.deepEqual(told({ month: "2026-10" }), [["2026-10", 111, ...why]]);
    assert.deepEqual(told({ day: formatDay(DAY) }), [["2026-10-21", 10, ...why]]);
  });

  it("is not told where it was charged nothing in the period, or where its counts are known", () => {
    assert.deepEqual(told({ day: formatDay(DAY + 1) }), []);
    assert.deepEqual(told({}, new Map()), []);
  });
});

describe("a period that was asked for and is not over", () => {
  const whys = (asked: Options, charged = 0) => {
    return whyNothing(periodOf(asked), NOON, charged).map((one) => Object.values(one));
  };
  const runs = "it is not over, and no window of its length counts";

  it("is told by its name: that it runs until its last day is over, or has not begun", () => {
    assert.deepEqual(whys({ day: formatDay(DAY) }), [["2026-10-21", runs]]);
    assert.deepEqual(whys({ day: formatDay(DAY + 1) }), [["2026-10-22", "it has not begun"]]);
    assert.deepEqual(whys({ month: "2026-10" }), [["2026-10", runs]]);
    assert.deepEqual(whys({ month: "2026-11" }), [["2026-11", "it has not begun"]]);
  });

  it("is none where it is over", () => {
    const over = [{ day: formatDay(DAY - 1) }, { month: "2026-09" }];
    assert.deepEqual(
      over.flatMap((asked) => whys(asked)),
      [],
    );
  });
});

describe("an audit that was asked for no period and finds none", () => {
  it("says whether that is for want of charges or of periods", () => {
    const why = (charged: number) => whyNothing(undefined, NOON, charged);
    const [all, uncharged] = ["all periods", "no line of the logs charged an account"];
    assert.deepEqual(why(0), [{ window: all, why: uncharged }]);
    const past = "no window of these charges runs any more, and no day of theirs is over";
    assert.deepEqual(why(1), [{ window: all, why: past }]);
  });
});

describe("a tunnel that was open over midnight in a process that was killed", () => {
  const END = (DAY + 1) * DAY_MS;
  const HOUR_MS = 3_600_000;
  const EXPLAINED = ["explained", 0];
  const judged = (events: readonly object[], counted: number, created = 0, lineMs?: number) => {
    const incidents = new Incidents();
    for (const event of events) incidents.event(event as LoggedEvent);
    const span = new LogSpan();
    for (const ms of [NOON - DAY_MS, END + DAY_MS]) span.line(ms);
    const config = { plans: new Map(), planBounds: new Map(), historyMs: 400 * DAY_MS };
    const counts = [{ ...ACME, plan: "pro", created, at: END + DAY_MS, windows: [] }];
    const read = { config, incidents, span, ledger: new Ledger(counts, []), alive: 0 };
    const inputs = { ...read, hasDescriptions: true, openBefore: [], openAfter: [] };
    const [units, firstMs] = [1, lineMs ?? END];
    const configs = new Map(lineMs ? [["c", { units, firstMs, lastMs: firstMs }]] : []);
    const sum = { ...newSum(), charged: units, configs };
    const row = { ...ACME, day: DAY, counted, lost: 0, sum };
    const [judged] = dayBalances(inputs, [row], END + DAY_MS);
    return [judged?.verdict, judged?.drift];
  };
  const gateway = (firstMs: number, lastMs: number) => [
    { msg: "serving", time: firstMs },
    { msg: "keys", time: lastMs },
  ];
  const worker = (firstMs: number, lastMs: number) => {
    const named = { worker: 1, pid: 7 };
    return [
      { msg: "worker_serves", ...named, time: firstMs },
      { msg: "worker_serves", worker: 1, pid: 8, time: lastMs - 1 },
      { msg: "worker_lost", ...named, why: "it ended with SIGKILL", time: lastMs },
    ];
  };

  it.for([
    ["gateway", gateway],
    ["worker", worker],
  ] as const)("is no drift of the day before: %s", ([, lines]) => {
    const late = lines(NOON, END + 5 * HOUR_MS);
    assert.deepEqual(judged(late, 3), ["explained", 0]);
    assert.deepEqual(judged(late, 0), ["drift", -1], "it explains none that are missing");
    const after = lines(END + HOUR_MS, END + 5 * HOUR_MS);
    assert.deepEqual(judged(after, 3), ["drift", 2], "it served none of that day");
    const before = lines(NOON - DAY_MS, END - DAY_MS - HOUR_MS);
    assert.deepEqual(judged(before, 3), ["drift", 2], "it ended before that day");
  });

  it.for([
    ["gateway", gateway],
    ["worker", worker],
  ] as const)("explains no units of an account that was created after its end: %s", ([, lines]) => {
    const ended = lines(NOON - HOUR_MS, NOON);
    const of = (createdMs: number, lineMs?: number) => judged(ended, 3, createdMs, lineMs);
    assert.deepEqual([of(NOON + 65_000), of(NOON + 65_001)], [EXPLAINED, ["drift", 2]]);
    const aheadMs = [END, END + DAY_MS];
    assert.deepEqual(
      aheadMs.map((ms) => of(ms)),
      [EXPLAINED, EXPLAINED],
      "by a clock that is ahead",
    );
    assert.deepEqual(of(NOON + 65_001, NOON), EXPLAINED, "its first line is earlier");
  });
});
