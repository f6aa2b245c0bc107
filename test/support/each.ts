import assert from "node:assert/strict";

/** A list that must not be empty: a claim about each member of an empty one would pass on nothing. */
export function each<T>(list: Iterable<T>): T[] {
  const all = [...list];
  assert.ok(all.length > 0, "there is none, so that the claim about each would hold of nothing");
  return all;
}
