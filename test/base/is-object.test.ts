import assert from "node:assert/strict";
import { it } from "vitest";
import { isObject } from "../../src/base/is-object.ts";

it("an object is neither null, nor a list, nor a text", () => {
  for (const value of [{}, { a: 1 }]) assert.equal(isObject(value), true);
  for (const value of [null, undefined, [], "{}", 1, true]) assert.equal(isObject(value), false);
});
