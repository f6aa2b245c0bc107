import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DAY_MS } from "../../../src/core/quota/days.ts";
import { explained, judged, MATCHED, NOON, OPEN } from "./window-balances.ts";

const MINUTE_MS = 60_000;
const KILLED = `a gateway ended without a last line at ${new Date(NOON).toISOString()}, and ${OPEN}`;

/** The verdict if the store has so many units more than the lines, which charged these in each minute. */
function verdictOf(
  more: number,
  minutes: readonly number[],
  events: readonly Readonly<Record<string, unknown>>[] = [{ msg: "serving" }],
) {
  const lines = minutes.map((units, i) => ["daily", units, NOON - i * MINUTE_MS] as const);
  const used = minutes.reduce((sum, units) => sum + units, more);
  return judged({ lines, events, windows: [{ used }] });
}

const beyond = (units: number, most: number) => {
  const told = `${units} units more, and by the lines of the account at most ${most} can have been open: ${KILLED}`;
  return [["day", "not compared", 0, told]];
};

describe("a window in which a gateway was killed", () => {
  it("is not compared where more was counted than can have been open in it", () => {
    assert.deepEqual(verdictOf(0, [5]), MATCHED);
    assert.deepEqual(verdictOf(500, [5]), beyond(500, 100));
    assert.deepEqual(verdictOf(101, [5]), beyond(101, 100));
    assert.deepEqual(verdictOf(100, [5]), explained(`100 units more: ${KILLED}`));
  });

  it("may have had open what two of the busiest minutes of the account charged", () => {
    const minutes = [5, 300, 5];
    assert.deepEqual(verdictOf(600, minutes), explained(`600 units more: ${KILLED}`));
    assert.deepEqual(verdictOf(601, minutes), beyond(601, 600));
  });

  it("may have had open as much in each process that ended so in the window", () => {
    const before = NOON - 2 * DAY_MS;
    const serving = [before, NOON, NOON].map((time, i) => ({
      msg: "serving",
      gateway: `${i}`,
      time,
    }));
    assert.deepEqual(verdictOf(200, [5], serving), explained(`200 units more: ${KILLED}`));
    assert.deepEqual(verdictOf(201, [5], serving), beyond(201, 200));
    const lost = { msg: "worker_lost", why: "it ended", worker: 1, pid: 2, gateway: "1" };
    const verdicts = [300, 301].map((more) => verdictOf(more, [5], [...serving, lost])[0]?.[1]);
    assert.deepEqual(verdicts, ["explained", "not compared"]);
  });
});
