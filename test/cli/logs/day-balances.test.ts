import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayBalances } from "../../../src/cli/logs/audit-days.ts";
import { DayBalances, type DayRow, lateUnits } from "../../../src/cli/logs/day-balances.ts";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { Ledger, newSum } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import { closesMs, DAY_MS, formatDay, lastClosedDay } from "../../../src/core/quota/days.ts";

const NOON = Date.UTC(2026, 10, 2, 12);
const ACME = { environment: "production", account: "acme" };

describe("days that are over", () => {
  const DAY = Math.floor(NOON / DAY_MS);
  const rowsOf = (units: Readonly<Record<number, readonly [counted: number, charged: number]>>) => {
    const charged = (day: number) => ({ ...newSum(), charged: units[day]?.[1] ?? 2 });
    const logged = new Map([...Array(10).keys()].map((i) => [DAY + i, charged(i)]));
    const days = new DayBalances({ of: () => ({ days: logged, meters: new Map() }) });
    for (const [offset, [counted]] of Object.entries(units)) {
      days.add([{ ...ACME, day: formatDay(DAY + Number(offset)), units: counted }]);
    }
    return days;
  };

  it("close 15 minutes after their end", () => {
    const atMs = (DAY + 1) * DAY_MS + 15 * 60_000;
    assert.equal(closesMs(DAY), atMs);
    assert.deepEqual([atMs - 1, atMs].map(lastClosedDay), [DAY - 1, DAY]);
  });

  it("are kept where they differ, also with no row in the history", () => {
    const days = rowsOf({ 0: [3, 3], 1: [4, 5], 2: [0, 0] });
    days.addLogged({ ...ACME, day: DAY });
    days.addLogged({ ...ACME, day: DAY + 5 });
    assert.equal(days.matched, 2);
    assert.deepEqual(
      days.rows.map(({ day, counted }) => [day - DAY, counted]),
      [
        [1, 4],
        [5, 0],
      ],
    );
  });

  it("begin with the first one of any account", () => {
    const days = new DayBalances({ of: () => undefined });
    for (const offset of [3, 1, 2]) {
      days.add([{ ...ACME, account: `a${offset}`, day: formatDay(DAY + offset), units: 1 }]);
    }
    assert.equal(days.firstDay, DAY + 1);
  });

  it("give units to the next one only where the store came back on that", () => {
    const { rows } = rowsOf({ 0: [1, 4], 1: [9, 6] });
    const moved = (isReturnDay: boolean) => [...lateUnits(rows, () => isReturnDay).values()];
    assert.deepEqual(moved(true), [-3, 3]);
    assert.deepEqual(moved(false), []);
    const other = rowsOf({ 0: [4, 1], 1: [6, 9] });
    assert.deepEqual(
      [...lateUnits(other.rows, () => true).values()],
      [],
      "never to the one before",
    );
  });

  it("are explained by units that came late, and drift in what those leave over", () => {
    const span = new LogSpan();
    span.line(NOON - 2 * DAY_MS);
    span.line(NOON + 4 * DAY_MS);
    const incidents = new Incidents();
    const back = { msg: "event", kind: "store_back", gateway: "a", time: NOON + DAY_MS };
    incidents.event(back);
    const config = { plans: new Map(), planBounds: new Map(), historyMs: 400 * DAY_MS };
    const read = { config, incidents, span, ledger: new Ledger([], []), alive: 1 };
    const judged = (units: Parameters<typeof rowsOf>[0], nowMs = NOON + 3 * DAY_MS) => {
      const inputs = { ...read, hasDescriptions: true, openBefore: [], openAfter: [] };
      const found = dayBalances(inputs, rowsOf(units).rows, nowMs);
      return found.map(({ verdict, drift, why }) => [verdict, drift, why]);
    };
    const next = ["explained", 0, "3 units were charged late, on the next day"];
    const after = ["explained", 0, "3 units were charged late, on the day after"];
    assert.deepEqual(judged({ 0: [1, 4], 1: [9, 6] }), [next, after]);
    assert.deepEqual(judged({ 0: [1, 4], 1: [10, 6] }), [next, ["drift", 1, undefined]]);
    assert.deepEqual(judged({ 0: [1, 5], 1: [9, 6] }), [["drift", -1, undefined], after]);
    const open = ["not compared", 0, "the day closes 15 minutes after its end"];
    assert.deepEqual(judged({ 0: [1, 5] }, (DAY + 1) * DAY_MS), [open]);
    assert.deepEqual(judged({ 0: [1, 4], 1: [9, 6] }, (DAY + 1) * DAY_MS), [next]);
  });

  const CONFIG = { plans: new Map(), planBounds: new Map(), historyMs: 400 * DAY_MS };
  type Judging = {
    readonly reach?: readonly number[];
    readonly createdMs?: number;
    readonly nowMs?: number;
  };
  /** The balances of rows, with logs that hold all of them unless told otherwise. */
  const balancesOf = (
    rows: Parameters<typeof dayBalances>[1],
    { reach = [-2, 4], createdMs = 0, nowMs = NOON + 3 * DAY_MS }: Judging = {},
  ) => {
    const span = new LogSpan();
    for (const days of reach) span.line(NOON + days * DAY_MS);
    const incidents = new Incidents();
    incidents.event({ msg: "event", kind: "store_back", gateway: "a", time: NOON + DAY_MS });
    const counts = [{ ...ACME, plan: "pro", created: createdMs, at: nowMs, windows: [] }];
    const ledger = new Ledger(counts, []);
    const inputs = { config: CONFIG, incidents, span, ledger, alive: 1, hasDescriptions: true };
    return dayBalances({ ...inputs, openBefore: [], openAfter: [] }, rows, nowMs);
  };

  it("are not compared where the logs hold a part of them, but for an account that is no older than they", () => {
    const verdict = (more: Judging) => {
      const [{ verdict, drift, why } = {}] = balancesOf(rowsOf({ 0: [5, 4] }).rows, more);
      return [verdict, drift, why?.slice(0, 20)];
    };
    const begins = ["not compared", 0, "the logs begin insid"];
    assert.deepEqual(verdict({ reach: [0, 4] }), begins);
    assert.deepEqual(verdict({ reach: [0, 4], createdMs: NOON }), ["drift", 1, undefined]);
    const beforeEnd = 0.5 - 30_000 / DAY_MS;
    const ends = ["not compared", 0, "the logs end inside "];
    assert.deepEqual(verdict({ reach: [-2, beforeEnd] }), ends, "and no line comes later");
  });

  it("are judged once they are over, by no change of a plan, and told with what the history has", () => {
    const { rows } = rowsOf({ 0: [0, 6], 2: [5, 4] });
    const plans = new Map(["free", "pro"].map((plan) => [plan, 3]));
    const changed = rows.map((row) => ({ ...row, sum: { ...row.sum, plans } }));
    const told = balancesOf(changed, { nowMs: NOON + 2 * DAY_MS });
    assert.deepEqual(
      told.map(({ window, drift }) => [window, drift]),
      [[formatDay(DAY), -6]],
    );
    const late = balancesOf(rowsOf({ 0: [1, 4], 1: [9, 6] }).rows);
    assert.deepEqual(
      late.map(({ charged, counted, drift }) => [charged, counted, drift]),
      [
        [4, 1, 0],
        [6, 9, 0],
      ],
    );
  });

  it("give to the next one what they lack beside lost settlements, and no more", () => {
    const [one, next] = rowsOf({ 0: [1, 4], 1: [9, 6] }).rows as [DayRow, DayRow];
    const moved = (lost: number) => [...lateUnits([{ ...one, lost }, next], () => true).values()];
    assert.deepEqual([moved(2), moved(3)], [[-1, 1], []]);
    for (const other of [{ account: "b" }, { environment: "staging" }, { meter: "tokens" }]) {
      const late = lateUnits([one, { ...next, ...other }], () => true);
      assert.equal(late.size, 0, "of another one");
    }
  });
});
