import assert from "node:assert/strict";
import { it } from "vitest";
import { RingBuffer } from "../../src/base/ring-buffer.ts";

it("the latest are kept, oldest first, before and after all places are taken", () => {
  const latest = new RingBuffer<number>(3);
  const seen: number[][] = [];
  for (let i = 1; i <= 7; i++) {
    seen.push(latest.all());
    latest.add(i);
  }
  assert.deepEqual(seen, [[], [1], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]);
  assert.deepEqual(latest.all(), [5, 6, 7]);
});
