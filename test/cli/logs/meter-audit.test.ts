import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayBalances } from "../../../src/cli/logs/audit-days.ts";
import { windowBalances } from "../../../src/cli/logs/audit-windows.ts";
import { DayBalances } from "../../../src/cli/logs/day-balances.ts";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import type { LoggedMeter } from "../../../src/core/meters/meter-charge.ts";
import { DAY_MS, dayOf, formatDay } from "../../../src/core/quota/days.ts";
import { bucketOf } from "../../../src/stores/quotas/account-ref.ts";
import type { OpenCharge } from "../../../src/telemetry/history/diagnostics.ts";
import type { LoggedEvent, LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

const ACME = { environment: "production", account: "acme" };
const DAY = dayOf(Date.UTC(2026, 9, 21));
const NOON = (DAY + 0.5) * DAY_MS;
/** Their requests have the window that the meter of one of them alone has. */
const OF_REQUESTS = [{ window: "day", limit: 9000 }];
const PLANS = new Map<string, unknown>(
  ["pro", "monthly", "bare"].map((plan) => [plan, OF_REQUESTS]),
);
const BOUNDS = new Map<string, unknown>([
  ["pro", { meters: [{ name: "tokens", limits: [{ window: "day", limit: 9000 }] }] }],
  ["monthly", { meters: [{ name: "tokens", limits: [{ window: "month", limit: 9000 }] }] }],
  ["bare", { meters: [] }],
]);

type Line = {
  readonly atMs?: number;
  readonly endMs?: number;
  /** How far the clock of the gateway, which stamps the line, is ahead of that of the store. */
  readonly aheadMs?: number;
  readonly charged?: number;
  readonly tokens?: LoggedMeter;
  readonly plan?: string;
};

function lineOf({
  atMs = NOON,
  endMs = atMs,
  aheadMs = 0,
  charged = 1,
  tokens,
  plan = "pro",
}: Line): LoggedRequest {
  const { environment: env, account } = ACME;
  return {
    ...{ msg: "request", time: endMs + aheadMs, id: "r", env, account, plan, config: "c" },
    ...{ method: "POST", route: "/v1/chat", charged, decidedAt: atMs, cost: charged },
    durationMs: endMs - atMs,
    ...(tokens && { meters: { tokens } }),
  } as unknown as LoggedRequest;
}

const lost = (units: number, day = DAY): LoggedEvent => ({
  ...{ msg: "settlement_lost", ...ACME, id: "r", meter: "tokens", units, day: formatDay(day) },
});

type Case = {
  readonly lines: readonly Line[];
  readonly events?: readonly LoggedEvent[];
  readonly open?: readonly OpenCharge[];
};

function inputsOf(
  { lines, events = [], open = [] }: Case,
  counts: ConstructorParameters<typeof Ledger>[0],
) {
  const ledger = new Ledger(counts, []);
  const span = new LogSpan();
  span.line(NOON - 40 * DAY_MS);
  span.line(NOON + 2 * DAY_MS);
  for (const line of lines) ledger.request(lineOf(line));
  const incidents = new Incidents();
  for (const event of events) {
    ledger.event(event);
    incidents.event(event);
  }
  return {
    config: { plans: PLANS as never, planBounds: BOUNDS as never, historyMs: 400 * DAY_MS },
    ...{ ledger, span, incidents, alive: 1 },
    ...{ openBefore: open, openAfter: open, hasDescriptions: true },
  };
}

/** The verdict of a day by its meter, where the history has so many units. */
function judgeDay(tokens: number | undefined, one: Case, day = DAY) {
  const inputs = inputsOf(one, []);
  const days = new DayBalances(inputs.ledger);
  const units = one.lines.reduce((sum, { charged = 1 }) => sum + charged, 0);
  const meters = tokens === undefined ? {} : { meters: { tokens } };
  days.add([{ ...ACME, day: formatDay(day), units: day === DAY ? units : 0, ...meters }]);
  const nowMs = NOON + 2 * DAY_MS;
  const found = dayBalances(inputs, days.rows, nowMs);
  const { window, verdict, drift, why } = found.find((each) => each.window.includes(" ")) ?? {};
  return [window ?? `${days.matched} matched`, verdict, drift, why];
}

const TOKENS_DAY = `${formatDay(DAY)} tokens`;

describe("the audit of a meter's day", () => {
  it("adds up what was used, else what it was charged instead, else the hold", () => {
    const lines = [
      { tokens: { hold: 2000, used: 137 } },
      { tokens: { hold: 2000, used: 99_000, charged: 16_000 } },
      { tokens: { hold: 2000 } },
      { tokens: { hold: 2000, charged: 0 } },
      { tokens: { hold: 0, used: 5 }, charged: 0 },
      {},
    ];
    const all = 137 + 16_000 + 2000 + 5;
    assert.deepEqual(judgeDay(all, { lines }), ["2 matched", undefined, undefined, undefined]);
    assert.deepEqual(judgeDay(all + 1, { lines }), [TOKENS_DAY, "drift", 1, undefined]);
    assert.deepEqual(judgeDay(all - 1, { lines }), [TOKENS_DAY, "drift", -1, undefined]);
    assert.deepEqual(judgeDay(undefined, { lines }).slice(0, 3), [TOKENS_DAY, "drift", -all]);
  });

  it("explains what lines of settlement_lost name, to the unit, either way", () => {
    const lines = [{ tokens: { hold: 2000, used: 500 } }, { tokens: { hold: 2000, used: 2600 } }];
    const fewer = judgeDay(4600, { lines, events: [lost(-1500)] });
    assert.deepEqual(fewer, [
      TOKENS_DAY,
      "explained",
      0,
      "1500 units more: told as settlement_lost",
    ]);
    const more = judgeDay(2500, { lines, events: [lost(600)] });
    assert.deepEqual(more, [
      TOKENS_DAY,
      "explained",
      0,
      "600 units fewer: told as settlement_lost",
    ]);
    assert.equal(judgeDay(2499, { lines, events: [lost(600)] })[1], "drift");
    assert.equal(judgeDay(2500, { lines, events: [lost(600, DAY + 1)] })[1], "drift");
  });

  it("has a raise that was settled after the day closed on the day of its settlement", () => {
    const closesMs = (DAY + 1) * DAY_MS + 15 * 60_000;
    const tokens = { hold: 2000, used: 9000 };
    const late = { lines: [{ tokens, endMs: closesMs }] };
    assert.equal(judgeDay(2000, late)[0], "2 matched");
    assert.deepEqual(judgeDay(7000, late, DAY + 1), ["1 matched", undefined, undefined, undefined]);
    assert.equal(judgeDay(9000, { lines: [{ tokens, endMs: closesMs - 1 }] })[0], "2 matched");
  });

  it("closes by the clock of the store, whatever that of the gateway is", () => {
    const atMs = (DAY + 1) * DAY_MS - 10_000;
    const tokens = { hold: 10, used: 15 };
    const dayLater = { atMs, endMs: (DAY + 1) * DAY_MS + 15 * 60_000, tokens };
    for (const aheadMs of [-DAY_MS, 0, 20 * 60_000]) {
      assert.equal(judgeDay(15, { lines: [{ atMs, aheadMs, tokens }] })[0], "2 matched");
      const late = { lines: [{ ...dayLater, aheadMs }] };
      assert.equal(judgeDay(10, late)[0], "2 matched");
      assert.equal(judgeDay(5, late, DAY + 1)[0], "1 matched");
    }
  });

  it("has a lowering that was dropped as the day had closed on its own day, and finds what was not dropped", () => {
    const closesMs = (DAY + 1) * DAY_MS + 15 * 60_000;
    const lines = [{ tokens: { hold: 2000, used: 500 }, endMs: closesMs }];
    const late = { lines, events: [lost(-1500)] };
    assert.deepEqual(judgeDay(2000, late).slice(0, 3), [TOKENS_DAY, "explained", 0]);
    assert.deepEqual(judgeDay(500, late).slice(0, 3), [TOKENS_DAY, "drift", -1500]);
  });

  it("of which the history has no row is found as well", () => {
    const { ledger } = inputsOf({ lines: [{ tokens: { hold: 5 } }] }, []);
    const days = new DayBalances(ledger);
    for (let i = 0; i < 2; i++) days.addLogged({ ...ACME, day: DAY });
    assert.deepEqual(
      days.rows.map(({ meter, counted, sum }) => [meter, counted, sum.charged]),
      [
        [undefined, 0, 1],
        ["tokens", 0, 5],
      ],
    );
  });

  it("is explained by units of this meter that are told as uncertain, not by those of requests", () => {
    const lines = [{ tokens: { hold: 2000, used: 500 } }];
    const of = (name: string) => {
      const accounts = `production:${name} 3`;
      return judgeDay(503, { lines, events: [{ msg: "charges_uncertain", time: NOON, accounts }] });
    };
    const why = "3 units were told as uncertain";
    assert.deepEqual(of("acme#tokens"), [TOKENS_DAY, "explained", 0, why]);
    assert.deepEqual(of("acme"), [TOKENS_DAY, "drift", 3, undefined]);
  });

  it("counts the holds of streams that are still under way", () => {
    const plain = { ...ACME, units: 1, decidedAt: NOON };
    const open = [{ ...plain, meters: { tokens: 2000 } }, plain];
    const one = { lines: [{ tokens: { hold: 2000, used: 10 } }], open };
    assert.deepEqual(judgeDay(2010, one), [TOKENS_DAY, "explained", 0, "2000 units are under way"]);
    assert.equal(judgeDay(2011, one)[1], "drift");
  });
});

/** The verdict of `tokens.day`, which runs, where the store has so many units. */
function judgeWindow(used: number, one: Case, plan = "pro") {
  const [from, to] = [DAY * DAY_MS, (DAY + 1) * DAY_MS];
  const windows = [{ window: "tokens.day", used, from, to }];
  const counts = [{ ...ACME, plan, created: 0, at: NOON + 1000, windows }];
  const inputs = inputsOf(one, counts);
  const [found] = windowBalances(inputs, undefined);
  return [found?.verdict, found?.drift, found?.why];
}

describe("the audit of a meter's window", () => {
  const lines = [
    { tokens: { hold: 2000, used: 500 } },
    { tokens: { hold: 2000, used: 4000 } },
    { charged: 3 },
  ];

  it("adds up the lines that took from the meter, and holds under way", () => {
    assert.deepEqual(judgeWindow(4500, { lines }), ["matched", 0, undefined]);
    assert.deepEqual(judgeWindow(4501, { lines }), ["drift", 1, undefined]);
    assert.deepEqual(judgeWindow(4499, { lines }), ["drift", -1, undefined]);
    const open = [{ ...ACME, units: 1, decidedAt: NOON, meters: { tokens: 2000 } }];
    assert.equal(judgeWindow(6500, { lines, open })[0], "explained");
    assert.equal(judgeWindow(6501, { lines, open })[0], "drift");
    assert.equal(judgeWindow(2000, { lines: [], open })[0], "explained", "no line has the meter");
    assert.equal(judgeWindow(2001, { lines: [], open })[0], "drift");
  });

  it("is explained by units of this meter that are told as uncertain, not by those of requests", () => {
    const of = (name: string) => {
      const accounts = `production:${name} 3`;
      const events = [{ msg: "charges_uncertain", time: NOON, accounts }];
      return judgeWindow(4503, { lines, events });
    };
    assert.deepEqual(of("acme#tokens"), ["explained", 0, "3 units were told as uncertain"]);
    assert.equal(of("acme")[0], "drift");
  });

  it("is explained by a changed account whose plan lacks the window, as its own limit may have brought it", () => {
    const event = { msg: "event", kind: "account_changed", env: "production", account: "acme" };
    const events = [{ ...event, time: NOON }];
    const of = (plan: string) => lines.map((line) => ({ ...line, plan }));
    const asked = (plan: string, more: Partial<Case>) =>
      judgeWindow(4000, { lines: of(plan), ...more }, plan);
    const why = "500 units fewer: the account was changed, which may have added the window";
    for (const plan of ["monthly", "bare"]) {
      assert.deepEqual(asked(plan, { events }), ["explained", 0, why], plan);
      assert.deepEqual(asked(plan, {}), ["drift", -500, undefined], plan);
    }
    assert.deepEqual(asked("pro", { events }), ["drift", -500, undefined]);
  });

  it("is explained by a plan that lacks the window, to the unit", () => {
    const of = (used: number, plan = "monthly") =>
      judgeWindow(used, { lines: lines.map((line) => ({ ...line, plan })) });
    const why = "4500 units fewer: the plan was changed, and monthly does not have the window";
    assert.deepEqual(of(0), ["explained", 0, why]);
    assert.deepEqual(of(1), ["drift", -4499, undefined]);
    assert.deepEqual(of(0, "pro"), ["drift", -4500, undefined]);
  });

  it("expects no hold under way of a plan that lacks the window, nor of a configuration before, but each of those in force", () => {
    const event = { msg: "event", kind: "config_reloaded", hash: "8a6bf653777373d8" };
    const events = [{ ...event, gateway: "a", time: NOON + 1 }];
    const of = (terms: Pick<OpenCharge, "plan" | "config">, more: Partial<Case> = {}) => {
      const open = [{ ...ACME, units: 1, decidedAt: NOON, meters: { tokens: 2000 }, ...terms }];
      return [4500, 6500, 6501].map((used) => judgeWindow(used, { lines, open, ...more })[0]);
    };
    const expected = ["drift", "explained", "drift"];
    const possible = ["matched", "explained", "drift"];
    assert.deepEqual(of({ plan: "monthly" }), possible);
    assert.deepEqual(of({ plan: "pro" }), expected);
    assert.deepEqual(of({ config: "1" }, { events }), possible);
    assert.deepEqual(of({ config: "8a6bf653" }, { events }), expected);
    assert.deepEqual(of({}), expected, "of an older gateway");
  });

  it("excuses all that it lacks where charges were lost, as their lines tell no units of meters", () => {
    const events = [{ msg: "charges_lost", units: 1, time: NOON }];
    assert.equal(judgeWindow(1, { lines, events })[0], "explained");
    assert.equal(judgeWindow(4501, { lines, events })[0], "drift");
  });

  it("explains a reset while answers were under way, and settlements that were lost", () => {
    const windows = [{ window: "tokens.day", units: 4000 }];
    const event = { msg: "account_reset", env: "production", account: "acme", windows, time: NOON };
    // Two holds were reset, and what they used beyond or below them is in no window.
    assert.deepEqual(judgeWindow(0, { lines, events: [event] }), [
      ...["explained", 0],
      "a difference of 500 units: the window was reset while answers were under way",
    ]);
    const more = { ...event, windows: [{ window: "tokens.day", units: 9000 }] };
    assert.equal(judgeWindow(0, { lines, events: [more] })[0], "drift");
    assert.equal(judgeWindow(6000, { lines, events: [lost(-1500)] })[0], "explained");
    assert.equal(judgeWindow(6001, { lines, events: [lost(-1500)] })[0], "drift");
    for (const day of [DAY - 1, DAY + 1]) {
      assert.equal(judgeWindow(6000, { lines, events: [lost(-1500, day)] })[0], "drift");
    }
    const both = { lines, events: [event, lost(-1500)] };
    assert.deepEqual(
      [judgeWindow(5500, both)[0], judgeWindow(5501, both)[0]],
      ["explained", "drift"],
    );
  });

  const resetOf = (units: number, time = NOON): LoggedEvent => ({
    ...{ msg: "account_reset", env: "production", account: "acme", time },
    windows: [{ window: "tokens.day", units }],
  });

  it("explains by a reset what answers used that were under way at its instant, not what was settled or decided by then", () => {
    const of = (atMs: number, endMs: number, outage: readonly LoggedEvent[] = []) => {
      const one = [{ atMs, endMs, tokens: { hold: 20, used: 50 } }];
      return judgeWindow(0, { lines: one, events: [...outage, resetOf(20, NOON - 2_000)] });
    };
    const why = "a difference of 30 units: the window was reset while answers were under way";
    assert.deepEqual(of(NOON - 60_000, NOON + 60_000), ["explained", 0, why]);
    assert.deepEqual(of(NOON - 60_000, NOON - 12_000), ["drift", -30, undefined]);
    assert.deepEqual(of(NOON - 1_000, NOON + 60_000), ["drift", -30, undefined]);
    const settledIn = [NOON - 7_000, NOON - 7_001].map((endMs) => of(NOON - 60_000, endMs)[0]);
    assert.deepEqual(settledIn, ["explained", "drift"], "a settlement takes five seconds at most");
    const backwards = of(NOON - 7_000, NOON - 9_000);
    assert.deepEqual(backwards, ["explained", 0, why], "no answer ends before its decision");
    const line = (kind: string, time: number, buckets?: string) => {
      return { msg: "event", kind, gateway: "a", time, buckets };
    };
    const away = line("store_away", NOON - 15_000);
    const back = (time: number) =>
      of(NOON - 60_000, NOON - 20_000, [away, line("store_back", time)]);
    assert.deepEqual(back(NOON + 5_000), ["explained", 0, why], "its gateway settled nothing yet");
    assert.deepEqual(back(NOON - 13_000), ["drift", -30, undefined]);
    const still = of(NOON - 60_000, NOON - 20_000, [away]);
    assert.deepEqual(still, ["explained", 0, why], "the outage has no end");
    const own = bucketOf(ACME);
    const others = [...Array(16).keys()].filter((bucket) => bucket !== own).join();
    const inBuckets = (buckets: string, ...back: string[]) => {
      const kinds = [
        ["store_away", NOON - 15_000] as const,
        ...back.map((kind) => [kind, NOON] as const),
      ];
      return of(
        NOON - 60_000,
        NOON - 20_000,
        kinds.map(([kind, time]) => line(kind, time, buckets)),
      )[0];
    };
    for (const back of [[], ["store_back"]]) {
      const found = [`${own}`, others].map((buckets) => inBuckets(buckets, ...back));
      assert.deepEqual(
        found,
        ["explained", "drift"],
        "an outage of other buckets explains nothing",
      );
    }
    const ended = [away, line("store_back", NOON + 5_000)];
    const settled = (endMs: number) => of(NOON - 60_000, endMs, ended)[0];
    assert.deepEqual([NOON - 30_000, NOON - 31_000].map(settled), ["explained", "drift"]);
  });

  it("takes what lines name off a difference before a reset explains the rest", () => {
    const uncertain = {
      msg: "charges_uncertain",
      time: NOON,
      accounts: "production:acme#tokens 30",
    };
    const more = judgeWindow(530, { lines, events: [resetOf(4000), uncertain] });
    assert.deepEqual(more, ["explained", 0, "30 units were told as uncertain"]);
    const both = judgeWindow(540, { lines, events: [resetOf(4000), uncertain] });
    assert.deepEqual(both, [
      ...["explained", 0],
      "30 units were told as uncertain, a difference of 10 units: the window was reset while answers were under way",
    ]);
    const lowered = judgeWindow(400, { lines, events: [resetOf(4000), lost(100)] });
    assert.deepEqual(lowered.slice(2), ["a difference of 100 units: told as settlement_lost"]);
  });
});
