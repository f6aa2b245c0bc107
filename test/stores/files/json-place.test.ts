import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { findPosition, findSyntaxMistake } from "../../../src/stores/files/json-position.ts";

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("The place where a text stops being JSON", () => {
  const cases: readonly (readonly [string, number, number, RegExp])[] = [
    [" \n", 1, 1, /the file is empty/],
    ['{"a":x}', 1, 6, /^a value was expected/],
    ['{"a":1,\n "b":[1,2,}', 2, 11, /^a value was expected/],
    ['{"a":"x\ny"}', 1, 6, /^this string has no end/],
    ['["\\q"]', 1, 2, /wrong escape/],
    ["[1 2]", 1, 4, /^"," or "]" was expected/],
    ['{"a":1} x', 1, 9, /^nothing more was expected/],
    ['{"a" 1}', 1, 6, /^":" was expected/],
    ["{a:1}", 1, 2, /^a name in double quotes/],
    ['{"a":1', 1, 7, /^the file ends too soon/],
    ["[01]", 1, 3, /^"," or "]"/],
    ["[".repeat(66), 1, 66, /nested too deeply/],
  ];
  for (const [text, line, column, why] of cases) {
    it(`is ${line}:${column} in ${JSON.stringify(text.slice(0, 30))}`, () => {
      const mistake = findSyntaxMistake(text);
      assert.deepEqual([mistake?.line, mistake?.column], [line, column]);
      assert.match(mistake?.why ?? "", why);
    });
  }

  it("is found in every text that JSON.parse refuses, and in no other", () => {
    const cut = fc.record({
      value: fc.json({ maxDepth: 4 }),
      at: fc.nat(),
      put: fc.string({ maxLength: 2 }),
    });
    fc.assert(
      fc.property(cut, ({ value, at, put }) => {
        const from = at % (value.length + 1);
        for (const text of [
          value,
          value.slice(0, from),
          value.slice(0, from) + put + value.slice(from + 1),
        ]) {
          assert.equal(findSyntaxMistake(text) === undefined, isJson(text), JSON.stringify(text));
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("The place of a member", () => {
  const text = '{\n "keys": [\n  {"id": 1},\n  {"id": 2}\n ],\n "\\u0061": true}';
  it("is where its value begins", () => {
    assert.deepEqual(findPosition(text, ["keys", 1, "id"]), { line: 4, column: 10 });
    assert.deepEqual(findPosition(text, ["a"]), { line: 6, column: 12 });
  });
  it("is that of the nearest thing around it where it is not there", () => {
    assert.deepEqual(findPosition(text, ["keys", 1, "name"]), { line: 4, column: 3 });
    assert.deepEqual(findPosition(text, ["plans"]), { line: 1, column: 1 });
    assert.deepEqual(findPosition("  7", []), { line: 1, column: 3 });
  });
});
