import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { MetricVec, newCounterCell } from "../../src/telemetry/metrics/metric-vec.ts";

describe("a tally", () => {
  it("keeps apart what differs in one label only, numbers and texts too", () => {
    const tally = new MetricVec(["a", "b"], 10, newCounterCell);
    tally.cell("x", 1).value += 1;
    tally.cell("x", "1").value += 2;
    tally.cell("y", 1).value += 4;
    tally.cell("x", 1).value += 8;
    assert.deepEqual(
      [...tally.entries()].map(([, { value }]) => value),
      [9, 2, 4],
    );
  });
});
