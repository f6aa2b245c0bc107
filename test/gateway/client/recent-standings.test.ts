import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { UsageReportCache } from "../../../src/gateway/client/usage-report-cache.ts";

/** Verdicts that differ by their clock alone, and how many were asked for. */
function store() {
  let asked = 0;
  const peek = async () => {
    asked += 1;
    return { nowMs: asked, granted: 0, windows: [], ban: undefined } as never;
  };
  return { peek, asked: () => asked };
}

describe("recent standings", () => {
  it("ask the store twice a second for each account, and tell the age of what they repeat", async () => {
    const standings = new UsageReportCache();
    const { peek, asked } = store();
    const at = async (elapsedMs: number, id = "a") => {
      const { verdict, ageMs } = await standings.ask(id, elapsedMs, peek);
      return [verdict.nowMs, ageMs];
    };
    assert.deepEqual(await at(0), [1, 0]);
    assert.deepEqual(await at(10), [2, 0]);
    assert.deepEqual(await at(500), [2, 490]);
    assert.deepEqual(await at(999), [2, 989]);
    assert.deepEqual(await at(999, "b"), [3, 0]);
    assert.deepEqual(await at(1_000), [4, 0]);
    assert.deepEqual(await at(1_009), [4, 9]);
    assert.deepEqual(await at(1_010), [5, 0]);
    assert.equal(asked(), 5);
  });

  it("share one question among those who ask at once", async () => {
    const standings = new UsageReportCache();
    const { peek, asked } = store();
    await Promise.all(Array.from({ length: 50 }, () => standings.ask("a", 5, peek)));
    assert.equal(asked(), 2);
  });
});
