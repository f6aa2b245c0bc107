import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DayComparison } from "../../../src/cli/logs/day-comparison.ts";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { dayOf, formatDay } from "../../../src/core/quota/days.ts";
import type { LoggedRequest } from "../../../src/telemetry/log/read-log.ts";

const DAY_MS = 86_400_000;
const TODAY = dayOf(Date.UTC(2026, 10, 2));
const NAMES = { account: "a", environment: "production" };

/** The ledger of a log that charged so many units on each of the days before today, the last today. */
function ledgerOf(...units: readonly number[]): Ledger {
  const ledger = new Ledger();
  units.forEach((charged, i) => {
    const decidedAt = (TODAY - units.length + 1 + i) * DAY_MS + 1;
    ledger.add({ env: "production", account: "a", charged, decidedAt } as LoggedRequest);
  });
  return ledger;
}

/** The drift by day, where the history has these units on the days up to today; null: no row. */
function drift(
  ledger: Ledger,
  units: readonly (number | null)[],
  open: readonly { readonly daysAgo: number; readonly units: number }[] = [],
): string[] {
  const days = new DayComparison(ledger, TODAY);
  days.compare(
    units.flatMap((counted, i) => {
      const day = formatDay(TODAY - units.length + 1 + i);
      return counted === null ? [] : [{ ...NAMES, day, units: counted }];
    }),
  );
  days.end((account) => account === "a");
  const charges = open.map((one) => {
    return { ...NAMES, units: one.units, decidedAt: (TODAY - one.daysAgo) * DAY_MS };
  });
  return days
    .balances(ledger, charges)
    .filter((one) => one.drift !== 0)
    .map((one) => `${one.window} ${one.drift}`);
}

describe("days that are over, in an audit,", () => {
  it("differ where the history has other units than the log, to the unit", () => {
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [3, 4, 5]), []);
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [3, 6, 5]), ["2026-11-01 2"]);
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [1, 4, 5]), ["2026-10-31 -2"]);
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [3, null, 5]), ["2026-11-01 -4"]);
  });

  it("do not include the running one, which is compared by its windows", () => {
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [3, 4, 9]), []);
  });

  it("may have been charged on the day after, when the store had been away over midnight", () => {
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [1, 6, 5]), []);
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [3, 1, 8]), [], "on the running day too");
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [5, 2, 5]), ["2026-10-31 2", "2026-11-01 -2"]);
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [1, 5, 5]), ["2026-10-31 -1"]);
  });

  it("may be open still, which is no drift", () => {
    assert.deepEqual(drift(ledgerOf(3, 4, 5), [3, 6, 5], [{ daysAgo: 1, units: 2 }]), []);
    assert.deepEqual(
      drift(ledgerOf(3, 4, 5), [3, 6, 5], [{ daysAgo: 2, units: 2 }]),
      ["2026-11-01 2"],
      "of another day",
    );
  });

  it("are not compared before the history began, which is said, unless there is none at all", () => {
    const ledger = ledgerOf(3, 4, 5);
    const days = new DayComparison(ledger, TODAY);
    days.compare([{ ...NAMES, day: "2026-11-01", units: 4 }]);
    days.end(() => true);
    assert.deepEqual(days.missing(), [
      "there is no usage by day before 2026-11-01: the days before it are not compared",
    ]);
    assert.deepEqual(drift(ledger, [null, 4, 5]), []);
    assert.deepEqual(drift(ledger, [null, null, null]), ["2026-10-31 -3", "2026-11-01 -4"]);
  });
});
