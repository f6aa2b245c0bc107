import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { explained, judged, MATCHED, NOON, OPEN } from "./window-balances.ts";

const MINUTE_MS = 60_000;
const KILLED = `a gateway ended without a last line at ${new Date(NOON).toISOString()}, and ${OPEN}`;

/** The verdict if the store has so many units more than the lines, which charged these in each minute. */
function verdictOf(more: number, minutes: readonly number[]) {
  const lines = minutes.map((units, i) => ["daily", units, NOON - i * MINUTE_MS] as const);
  const used = minutes.reduce((sum, units) => sum + units, more);
  return judged({ lines, events: [{ msg: "serving" }], windows: [{ used }] });
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
});
