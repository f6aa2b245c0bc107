import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type Mutated, scoreOf, survivors } from "./score.ts";

function mutated(...statuses: string[]): Mutated {
  const location = { start: { line: 2, column: 3 }, end: { line: 2, column: 8 } };
  const mutants = statuses.map((status) => {
    return { status, mutatorName: "EqualityOperator", replacement: "a >=\n  b", location };
  });
  return { source: "first\n  a > b;\nlast {\n}", mutants };
}

describe("A mutation score", () => {
  it("is the killed of those that ran, where a test that never ends has noticed too", () => {
    const score = scoreOf(mutated("Killed", "Timeout", "Survived", "NoCoverage", "Ignored"));
    assert.deepEqual(score, { percent: 50, killed: 2, total: 4 });
    assert.equal(scoreOf(mutated("Killed", "CompileError")).percent, 100);
    assert.equal(scoreOf(mutated("Survived")).percent, 0);
    assert.equal(scoreOf(mutated()).percent, 100);
  });
});

describe("The survivors", () => {
  it("are told with the place, what stands there and what it was changed to", () => {
    const line = "src/core/a.ts:2: a > b -> a >= b (EqualityOperator)";
    assert.deepEqual(survivors("src/core/a.ts", mutated("Survived", "Killed")), [line]);
    assert.deepEqual(survivors("src/core/a.ts", mutated("NoCoverage", "Timeout")), [line]);
    assert.deepEqual(survivors("src/core/a.ts", mutated("Killed", "Ignored")), []);
  });

  it("are told by their first line where they have several", () => {
    const location = { start: { line: 3, column: 6 }, end: { line: 4, column: 2 } };
    const block = { status: "Survived", mutatorName: "Block", replacement: "{}", location };
    const { source } = mutated();
    assert.deepEqual(survivors("a.ts", { source, mutants: [block] }), ["a.ts:3: { -> {} (Block)"]);
  });
});
