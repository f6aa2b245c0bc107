import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { it } from "vitest";
import { placed } from "./mutation/mutants.ts";
import { Trial } from "./mutation/trial.ts";
import { Tries } from "./mutation/try-mutants.ts";

const FILE = "src/core/refusal.ts";
const TEST = "test/core/refusal.test.ts";

it("a mutant is noticed by a test that reaches it, and a change that changes nothing is not", async () => {
  const files = [...globSync("src/**/*.ts"), TEST];
  const sources = new Map(files.map((file) => [file, readFileSync(file, "utf8")]));
  const text = sources.get(FILE) ?? "";
  const before = "ROWS[code].status;";
  const line = text.split("\n").findIndex((one) => one.includes(before));
  const column = text.split("\n")[line]?.indexOf(before) ?? -1;
  const location = { start: { line, column }, end: { line, column: column + before.length } };
  const change = (replacement: string) => ({ mutatorName: "Any", replacement, location });
  const [wrong, same] = placed(FILE, text, [change("1;"), change("(ROWS[code]).status;")]);
  assert.ok(wrong && same);
  await using trial = new Trial();
  const tries = new Tries(trial, sources);
  assert.deepEqual(await tries.judge(wrong), { verdict: "noticed", by: TEST });
  assert.deepEqual(await tries.judge(same), { verdict: "alive" });
});
