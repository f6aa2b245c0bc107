import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  MetricVec,
  newCounterCell,
  newHistogramCell,
  observeDuration,
} from "../../src/telemetry/metrics/metric-vec.ts";

describe("a table of counts", () => {
  it("keeps apart what differs in one label only, numbers and texts too", () => {
    const table = new MetricVec(["a", "b"], 10, newCounterCell);
    table.cell("x", 1).value += 1;
    table.cell("x", "1").value += 2;
    table.cell("y", 1).value += 4;
    table.cell("x", 1).value += 8;
    assert.deepEqual(
      [...table.entries()].map(([, { value }]) => value),
      [9, 2, 4],
    );
  });

  it("tells a label that is empty, or the number 0, as it is", () => {
    const table = new MetricVec(["a", "b"], 10, newCounterCell);
    table.cell("", 0).value = 2;
    assert.deepEqual([...table.entries()], [[{ a: "", b: 0 }, { value: 2 }]]);
    assert.equal(table.cell("", 0).value, 2);
  });

  it("has as much room as it may, although what overflowed elsewhere came first", () => {
    const told = (first: (table: MetricVec<{ value: number }>) => void) => {
      const table = new MetricVec(["a"], 4, newCounterCell);
      first(table);
      for (const label of ["x", "y", "z", "u", "v", "x"]) table.cell(label).value += 1;
      return [...table.entries()].map(([{ a }, { value }]) => `${a} ${value}`).sort();
    };
    const all = ["overflow 2", "x 2", "y 1", "z 1"];
    assert.deepEqual(
      told(() => {}),
      all,
    );
    assert.deepEqual(
      told((table) => table.overflow()),
      all,
    );
  });

  it("counts a duration in the bucket whose boundary it does not exceed, or in the last one", () => {
    const cell = newHistogramCell([0.1, 1]);
    for (const seconds of [0, 0.1, 0.5, 1, 1.5, 9]) observeDuration(cell, seconds);
    assert.deepEqual([cell.counts, cell.sum], [[2, 2, 2], 12.1]);
  });
});
