import assert from "node:assert/strict";
import { it } from "vitest";
import { mutated, placed } from "./mutants.ts";

function found(text: string, line: number, part: string, replacement: string, mutatorName = "Any") {
  const column = text.split("\n")[line]?.indexOf(part) ?? -1;
  const location = { start: { line, column }, end: { line, column: column + part.length } };
  return { mutatorName, replacement, location };
}

it("changes the place that was found, and nothing beside it", () => {
  const text = 'const é = "ü";\nreturn a < b;\n';
  const [one, other] = placed("src/a.ts", text, [
    found(text, 1, "a < b", "a <= b", "EqualityOperator"),
    found(text, 0, '"ü"', '""'),
  ]);
  assert.ok(one && other);
  assert.equal(mutated(text, one), 'const é = "ü";\nreturn a <= b;\n');
  assert.equal(mutated(text, other), 'const é = "";\nreturn a < b;\n');
  assert.equal(one.told, "2: a < b -> a <= b (EqualityOperator)");
  assert.deepEqual([one.index, other.index, one.of, other.of], [0, 1, 2, 2]);
});

it("keeps an operator bound as it was found: in a chain, and behind a not that is gone", () => {
  const text = "x = a && b && c;\ny = !(a || b) && c;";
  const [chain, bare] = placed("src/a.ts", text, [
    found(text, 0, "a && b", "a || b", "LogicalOperator"),
    found(text, 1, "!(a || b)", "a || b", "BooleanLiteral"),
  ]);
  assert.ok(chain && bare);
  assert.equal(mutated(text, chain).split("\n")[0], "x = (a || b) && c;");
  assert.equal(mutated(text, bare).split("\n")[1], "y = (a || b) && c;");
});

it("tells a change of several lines by the first, and one that leaves nothing", () => {
  const text = "{\n  stop();\n}";
  const location = { start: { line: 0, column: 0 }, end: { line: 2, column: 1 } };
  const [whole] = placed("src/a.ts", text, [
    { mutatorName: "BlockStatement", replacement: "{\n}", location },
  ]);
  const [gone] = placed("src/a.ts", text, [{ mutatorName: "Any", replacement: "", location }]);
  assert.equal(whole?.told, "1: { -> { } (BlockStatement)");
  assert.equal(gone?.told, "1: { -> nothing (Any)");
});
