import assert from "node:assert/strict";
import { it } from "vitest";
import { AgingMap } from "../../src/base/aging-map.ts";

it("a value that replaces another pushes none out, and one that is removed is in no half", () => {
  const map = new AgingMap<number>(1);
  map.set("older", 1);
  map.set("newer", 2);
  map.set("newer", 3);
  assert.deepEqual([map.size, map.get("newer"), map.get("older")], [2, 3, 1]);
  assert.equal(map.size, 2, "a look-up moves a value, and does not repeat it");
  const listed = [...map].map(([id]) => id).sort();
  assert.deepEqual(listed, ["newer", "older"], "each once, wherever it is");
  for (const id of ["older", "newer"]) map.delete(id);
  assert.deepEqual([map.size, map.get("newer"), map.get("older")], [0, undefined, undefined]);
});

it("a map of two halves keeps the latest, and those that are used", () => {
  const memory = new AgingMap<number>(3);
  for (let i = 0; i < 100; i++) {
    memory.set(`a${i}`, i);
    assert.ok(memory.size <= 6);
    assert.equal(memory.get("a0"), 0, `${i}: what is used is kept`);
  }
  assert.deepEqual([memory.get("a99"), memory.get("a50")], [99, undefined]);
  memory.delete("a99");
  assert.equal(memory.get("a99"), undefined);
});
