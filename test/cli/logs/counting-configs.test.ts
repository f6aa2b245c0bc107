import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type Case, drift, explained, judged, NOON } from "./window-balances.ts";

const CHANGED =
  "9 units fewer: the configuration was changed, and only what the last one charged is counted";
const [A, B] = ["8a6bf653", "c01d77e2"];

describe("units that are missing since a configuration was changed", () => {
  const of = (...events: Case["events"] & {}) => {
    const lines = [["daily", 9, NOON, A] as const, ["daily", 1, NOON + 2, B] as const];
    return judged({ lines, windows: [{ used: 1 }], events });
  };
  const reloaded = { msg: "event", kind: "config_reloaded", time: NOON + 1, hash: B };

  it("are drift if the line of the reload says that both count the same", () => {
    const told = { ...reloaded, counting: "one", hashBefore: `${A}777373d8` };
    assert.deepEqual(of({ ...told, countingBefore: "one" }), drift(-9));
    assert.deepEqual(of({ ...told, countingBefore: "two" }), explained(CHANGED));
    assert.deepEqual(of(reloaded), explained(CHANGED), "a line of an older version");
  });

  it("are due to the change also where the clock of the store is behind, so that no line lies between by it", () => {
    const lines = [["daily", 9, NOON, A] as const, ["daily", 1, NOON + 2, B] as const];
    const one = { lines, windows: [{ used: 1 }], events: [reloaded], storeBehindMs: 60_000 };
    assert.deepEqual(judged(one), explained(CHANGED));
  });

  it("are drift if the lines of two starts say that both count the same", () => {
    const starts = (counting?: string) => {
      const first = { msg: "serving", time: NOON - 9, config: `${A}777373d8`, counting: "one" };
      return of(first, { msg: "serving", time: NOON + 1, config: B, counting });
    };
    assert.deepEqual(starts("one"), drift(-9));
    assert.deepEqual(starts("two"), explained(CHANGED));
    assert.deepEqual(starts(), explained(CHANGED), "an older version was started");
  });
});
