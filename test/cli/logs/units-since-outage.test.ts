import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { windowBalances } from "../../../src/cli/logs/audit-windows.ts";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import type { LoggedEvent, LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

const ACME = { environment: "production", account: "acme" };
const MIDNIGHT = Date.UTC(2026, 10, 2);
const NOON = MIDNIGHT + 43_200_000;
/** The first instant at which a line may be of the outage, as clocks differ. */
const FIRST = NOON - 10_000;
const PLANS = new Map<string, unknown>([
  ["daily", [{ window: "day", limit: 100 }]],
  ["hourly", [{ window: "hour", limit: 100 }]],
]);
const AWAY = { msg: "event", kind: "store_away", gateway: "g", time: NOON };

type Charge = readonly [atMs: number, charged: number, more?: object];
type Case = {
  readonly events?: readonly object[];
  readonly window?: string;
  /** Whether the ledger is read without knowing of the outage. */
  readonly blind?: boolean;
};

/** Verdict, drift and reason of the window of today of which the store has so many units. */
function judged(used: number, charges: readonly Charge[], one: Case = {}) {
  const { events = [], window = "day", blind = false } = one;
  const incidents = new Incidents();
  const said = [AWAY, ...events] as LoggedEvent[];
  for (const event of said) incidents.event(event);
  const windows = [{ window, used, from: MIDNIGHT, to: MIDNIGHT + 86_400_000 }];
  const counts = [{ ...ACME, plan: "daily", created: 0, at: NOON + 60_000, windows }];
  const known = (...of: [typeof ACME, { fromMs: number; toMs: number }]) => {
    return blind ? [] : incidents.awayIn(...of, 1);
  };
  const ledger = new Ledger(counts, [], known);
  const span = new LogSpan();
  for (const atMs of [MIDNIGHT - 60_000, NOON + 60_000]) span.line(atMs);
  for (const [time, charged, more] of charges) {
    const { environment: env, account } = ACME;
    const line = { msg: "request", time, decidedAt: time, durationMs: 0, plan: "daily", charged };
    ledger.request({ env, account, ...line, ...more } as unknown as LoggedRequest);
  }
  for (const event of said) ledger.event(event);
  const [balance] = windowBalances(
    {
      config: { plans: PLANS as never, planBounds: new Map(), historyMs: 0 },
      ...{ ledger, incidents, span, alive: 1, hasDescriptions: true },
      ...{ openBefore: [], openAfter: [] },
    },
    undefined,
  );
  return [balance?.verdict, balance?.drift, balance?.why];
}

const AWAY_WHY = "a gateway is away from the store";
const fewer = (units: number, why = AWAY_WHY) => ["explained", 0, `${units} units fewer: ${why}`];

describe("an outage that goes on", () => {
  const charges: Charge[] = [
    [FIRST - 1, 5],
    [FIRST, 3],
    [NOON + 1, 2],
  ];

  it("explains what lines since it began charged, to the unit, and nothing of before", () => {
    assert.deepEqual(judged(5, charges), fewer(5));
    assert.deepEqual(judged(4, charges), ["drift", -6, undefined]);
    assert.deepEqual(judged(0, charges), ["drift", -10, undefined]);
    assert.deepEqual(
      judged(0, charges, { blind: true }),
      fewer(10),
      "where the lines since are not known",
    );
  });

  it("goes on since its first line, though another one tells of it again", () => {
    const again = { ...AWAY, time: NOON + 30_000 };
    assert.deepEqual(judged(5, charges, { events: [again] }), fewer(5));
    assert.deepEqual(judged(4, charges, { events: [{ ...again, gateway: "h" }] })[0], "drift");
  });

  it("explains it beside what another line tells as lost, and a plan without the window", () => {
    const lost = { msg: "charges_lost", time: NOON, units: 2, accounts: "production:acme 2" };
    const told = "2 units fewer: gateways told lost charges, 5 units fewer: ";
    const both = ["explained", 0, `${told}${AWAY_WHY}`];
    assert.deepEqual(judged(3, charges, { events: [lost] }), both);
    assert.deepEqual(judged(2, charges, { events: [lost] })[0], "drift");
    const hourly: Charge[] = [[FIRST - 2, 4, { plan: "hourly" }], ...charges];
    const plan = "the plan was changed, and hourly does not have the window";
    assert.deepEqual(judged(10, hourly), fewer(4, plan));
    assert.deepEqual(judged(5, hourly), fewer(9, `${plan}, and ${AWAY_WHY}`));
    assert.deepEqual(judged(4, hourly)[0], "drift");
  });

  it("explains what a meter lacks of an answer that ended in it, and of none that ended before", () => {
    const of = (endMs: number) => {
      const meters = { tokens: { hold: 20, used: 50 } };
      const line = { decidedAt: FIRST - 60_000, meters, durationMs: endMs - FIRST + 60_000 };
      return judged(20, [[endMs, 1, line]], { window: "tokens.day" });
    };
    assert.deepEqual([of(FIRST), of(FIRST - 1)], [fewer(30), ["drift", -30, undefined]]);
  });

  it("explains what a meter lacks beside settlements that were lost, and those that a reset left out", () => {
    const meter = (endMs: number, hold: number, used: number): Charge => {
      const meters = { tokens: { hold, used } };
      return [endMs, 1, { decidedAt: FIRST - 60_000, meters, durationMs: endMs - FIRST + 60_000 }];
    };
    const answers = [meter(FIRST - 1, 45, 50), meter(FIRST, 5, 5)];
    const of = (used: number, event: object) =>
      judged(used, answers, { window: "tokens.day", events: [{ ...ACME, ...event }] })[0];
    const lost = { msg: "settlement_lost", meter: "tokens", units: -10, day: "2026-11-02" };
    assert.deepEqual([of(40, lost), of(39, lost)], ["explained", "drift"]);
    const windows = [{ window: "tokens.day", units: 20 }];
    const reset = { msg: "account_reset", env: ACME.environment, windows, time: FIRST - 30_000 };
    assert.deepEqual([of(25, reset), of(24, reset)], ["explained", "drift"]);
  });
});
