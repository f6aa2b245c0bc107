import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { parseJson } from "../../src/base/parse-json.ts";

describe("a text that may be JSON", () => {
  it("has the value that it has as JSON, null too", () => {
    assert.deepEqual(parseJson('{"a":[1]}'), { a: [1] });
    assert.equal(parseJson("null"), null);
  });

  it("has none if it is not JSON, and throws nothing", () => {
    for (const text of ["", "{", "undefined", '{"a":1}x']) assert.equal(parseJson(text), undefined);
  });
});
