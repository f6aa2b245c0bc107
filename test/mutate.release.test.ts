import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { it } from "vitest";
import { placed } from "./mutation/mutants.ts";
import { Trial } from "./mutation/trial.ts";
import { Tries } from "./mutation/try-mutants.ts";

function changesOf(file: string, before: string, ...replacements: string[]) {
  const files = [...globSync("src/**/*.ts"), ...TESTS];
  const sources = new Map(files.map((path) => [path, readFileSync(path, "utf8")]));
  const text = sources.get(file) ?? "";
  const line = text.split("\n").findIndex((one) => one.includes(before));
  const column = text.split("\n")[line]?.indexOf(before) ?? -1;
  const location = { start: { line, column }, end: { line, column: column + before.length } };
  const found = replacements.map((replacement) => {
    return { mutatorName: "Any", replacement, location };
  });
  return { sources, mutants: placed(file, text, found) };
}

/** One that Node's runner can run, and two that ask for more of vitest than it has. */
const TESTS = [
  "test/core/refusal.test.ts",
  "test/http1/reasons.test.ts",
  "test/http1/framing.test.ts",
] as const;

const CASES = [
  ["src/core/refusal.ts", "ROWS[code].status;", ["1;", "(ROWS[code]).status;"], TESTS[0]],
  ["src/http1/write/reason-phrases.ts", '"Gone"', ['"gone"', "'Gone'"], TESTS[1]],
  [
    "src/http1/parse/framing.ts",
    'Case() === "chunked"',
    ['Case() === "x"', "Case() === 'chunked'"],
    TESTS[2],
  ],
] as const;

it("a mutant is noticed by the test that reaches it, and a change that changes nothing is not", async () => {
  await using trial = new Trial();
  for (const [file, before, [wrong, same], test] of CASES) {
    const { sources, mutants } = changesOf(file, before, wrong, same, wrong);
    const tries = new Tries(trial, sources);
    const verdicts = [];
    for (const mutant of mutants) verdicts.push(await tries.judge(mutant));
    const noticed = { verdict: "noticed", by: test };
    assert.deepEqual(verdicts, [noticed, { verdict: "alive" }, noticed], file);
  }
});
