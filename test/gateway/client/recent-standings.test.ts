import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Limit } from "../../../src/core/quota/windows.ts";
import { UsageReportCache } from "../../../src/gateway/client/usage-report-cache.ts";

/** Verdicts that differ by their clock alone, and how many were asked for. */
function store() {
  let asked = 0;
  const peek = async () => {
    asked += 1;
    return { decision: { nowMs: asked, granted: 0, windows: [], ban: undefined } } as never;
  };
  return { peek, asked: () => asked };
}

describe("recent standings", () => {
  it("ask the store twice a second for each account, and tell the age of what they repeat", async () => {
    const usageReports = new UsageReportCache();
    const { peek, asked } = store();
    const at = async (elapsedMs: number, id = "a") => {
      const { decision, ageMs } = await usageReports.ask(id, elapsedMs, peek);
      return [decision.nowMs, ageMs];
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

  it("ask for all keys with limits of an account together, twice a second, and never for one another's", async () => {
    const usageReports = new UsageReportCache();
    const startMs = performance.now();
    const asked: string[][] = [];
    const peek = async (limits: readonly Limit[]) => {
      asked.push(limits.map(({ part }) => part?.id ?? ""));
      return { decision: { nowMs: asked.length } } as never;
    };
    const of = (number: number): readonly Limit[] => {
      return [{ window: "day", limit: 5, part: { id: `@${number}`, name: "key" } }];
    };
    const at = (number: number) => {
      return usageReports.ask("a", performance.now() - startMs, peek, { caps: of(number) });
    };
    await at(0);
    await at(1);
    assert.deepEqual(asked, [["@0"], ["@1", "@0"]]);
    const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => at(i)));
    assert.equal(asked.length, 3, "a thousand keys make no more questions than one");
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs >= 999, `${tookMs} ms: a timer of Node counts whole milliseconds`);
    assert.deepEqual(new Set(asked[2]), new Set(Array.from({ length: 40 }, (_, i) => `@${i}`)));
    assert.deepEqual(
      [answers[0]?.decision.nowMs, answers[1]?.decision.nowMs, answers[39]?.decision.nowMs],
      [2, 2, 3],
      "the two that were known got the last answer",
    );
  });

  it("ask anew for a key whose own limits have changed, however often another one asks", async () => {
    const usageReports = new UsageReportCache();
    const startMs = performance.now();
    const peek = async (limits: readonly Limit[]) => {
      return { decision: { windows: limits } } as never;
    };
    const at = async (number: number, limit: number) => {
      const caps = [{ window: "day", limit, part: { id: `@${number}`, name: "key" } } as const];
      const elapsedMs = performance.now() - startMs;
      const { decision } = await usageReports.ask("a", elapsedMs, peek, { caps });
      return decision.windows.find(({ part }) => part?.id === `@${number}`)?.limit;
    };
    assert.equal(await at(1, 5), 5);
    for (let i = 0; i < 4; i++) assert.equal(await at(2, 7), 7);
    assert.equal(await at(1, 6), 6);
    assert.equal(await at(1, 6), 6);
  });

  it("read the deprecated calls once a second, and tell them with both answers of it", async () => {
    const usageReports = new UsageReportCache();
    const { peek } = store();
    let reads = 0;
    const readCalls = async () => [{ requests: ++reads }] as never;
    const at = async (elapsedMs: number) => {
      const told = await usageReports.ask("a", elapsedMs, peek, { readCalls });
      return [told.decision.nowMs, told.deprecated?.[0]?.requests];
    };
    assert.deepEqual(await at(0), [1, 1]);
    assert.deepEqual(await at(1), [2, 1]);
    assert.deepEqual(await at(999), [2, 1]);
    assert.deepEqual(await at(1_000), [3, 2]);
    assert.deepEqual(await at(1_001), [4, 2]);
  });

  it("share one question among those who ask at once", async () => {
    const usageReports = new UsageReportCache();
    const { peek, asked } = store();
    await Promise.all(Array.from({ length: 50 }, () => usageReports.ask("a", 5, peek)));
    assert.equal(asked(), 2);
  });
});
