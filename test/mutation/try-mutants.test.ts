import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, it } from "vitest";
import { placed } from "./mutants.ts";
import type { Outcome } from "./trial.ts";
import { type TrialRuns, Tries } from "./try-mutants.ts";

const FILE = "src/core/sum.ts";
const TEST = "test/core/sum.test.ts";
const SOURCES = new Map([
  [FILE, "one + two"],
  [TEST, 'import { sum } from "../../src/core/sum.ts";'],
]);
const [MUTANT] = placed(FILE, "one + two", [
  {
    mutatorName: "ArithmeticOperator",
    replacement: "one - two",
    location: { start: { line: 0, column: 0 }, end: { line: 0, column: 9 } },
  },
]);
const folder = mkdtempSync(join(tmpdir(), "tollgate-tries-test-"));
let learnt = 0;
afterAll(() => rmSync(folder, { recursive: true }));

/** The verdict where runs end like this in turn, of a test that takes `ms` to be learnt. */
async function verdictOf(outcomes: readonly Outcome[], ms = 0) {
  const texts: string[] = [];
  let text = "one + two";
  const trial = {
    async changed<T>(_file: string, changedText: string, run: () => Promise<T>): Promise<T> {
      const before = text;
      text = changedText;
      const result = await run();
      text = before;
      return result;
    },
    async learn() {
      await new Promise((resolve) => setTimeout(resolve, ms));
      return new Map([[FILE, [[0, 9] as const]]]);
    },
    run() {
      texts.push(text);
      return Promise.resolve(outcomes[texts.length - 1] ?? assert.fail("one run too many"));
    },
  };
  learnt += 1;
  const tries = new Tries(trial, SOURCES, { learntAt: join(folder, `${learnt}.json`) });
  const { verdict } = await tries.judge(MUTANT ?? assert.fail());
  return { verdict, texts };
}

describe("A mutant", () => {
  const [BEFORE, AFTER] = ["one + two", "(one - two)"];

  it("is noticed at once by a quick test that fails, and lives where it passes", async () => {
    assert.deepEqual(await verdictOf(["failed"]), { verdict: "noticed", texts: [AFTER] });
    assert.deepEqual(await verdictOf(["passed"]), { verdict: "alive", texts: [AFTER] });
  });

  it("counts as without an end only if the test is late twice, and passes without it", async () => {
    const texts = [AFTER, AFTER, BEFORE];
    assert.deepEqual(await verdictOf(["late", "late", "passed"]), { verdict: "late", texts });
    for (const control of ["late", "failed"] as const) {
      assert.deepEqual(await verdictOf(["late", "late", control]), { verdict: "alive", texts });
    }
    assert.equal((await verdictOf(["late", "passed"])).verdict, "alive");
    assert.equal((await verdictOf(["late", "failed", "passed"])).verdict, "noticed");
  });

  it("is tried with tests of other rooms only if none of its own reaches the place", async () => {
    const other = "test/cli/sum.test.ts";
    const sources = new Map([...SOURCES, [other, SOURCES.get(TEST) ?? ""]]);
    for (const [reached, asked] of [
      [[0, 9], TEST],
      [[20, 29], other],
    ] as const) {
      const run: string[] = [];
      const trial: TrialRuns = {
        changed: (_file, _text, act) => act(),
        learn: async ({ test }) => new Map([[FILE, [test === TEST ? reached : ([0, 9] as const)]]]),
        run: async ({ test }) => {
          run.push(test);
          return "passed";
        },
      };
      learnt += 1;
      const tries = new Tries(trial, sources, { learntAt: join(folder, `${learnt}.json`) });
      await tries.judge(MUTANT ?? assert.fail());
      assert.deepEqual(run, [asked]);
    }
  });

  it("is noticed by a long test only if that fails twice, and passes without it", async () => {
    const texts = [AFTER, AFTER, BEFORE];
    const [noticed, unsure] = await Promise.all([
      verdictOf(["failed", "failed", "passed"], 3_100),
      verdictOf(["failed", "failed", "failed"], 3_100),
    ]);
    assert.deepEqual(noticed, { verdict: "noticed", texts });
    assert.deepEqual(unsure, { verdict: "alive", texts });
  });
});
