import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { inSlices } from "../../src/base/event-loop.ts";

/** Keeps the processor busy for as long as an item that takes some work. */
function work(forMs: number): void {
  const endMs = performance.now() + forMs;
  while (performance.now() < endMs);
}

describe("A long work in slices", () => {
  it("visits every item once, in order, by its index", async () => {
    const seen: [string, number][] = [];
    const whole = await inSlices(new Set(["a", "b", "c"]), (item, index) => {
      seen.push([item, index]);
    });
    assert.equal(whole, true);
    assert.deepEqual(seen, [
      ["a", 0],
      ["b", 1],
      ["c", 2],
    ]);
    assert.equal(await inSlices([], assert.fail), true);
  });

  it("ends at the first visit that returns false, and says so", async () => {
    const seen: number[] = [];
    const whole = await inSlices([1, 2, 3], (item) => {
      seen.push(item);
      return item !== 2;
    });
    assert.equal(whole, false);
    assert.deepEqual(seen, [1, 2]);
  });

  it("lets the event loop have its turns, whatever one item takes", async () => {
    for (const [items, eachMs] of [
      [200, 0.5],
      [4_000, 0.02],
    ] as const) {
      let turns = 0;
      const ticking = setInterval(() => {
        turns += 1;
      }, 0);
      await inSlices(Array(items).fill(0), () => work(eachMs));
      clearInterval(ticking);
      // 80 ms of work and more in slices of 1 ms, or of 16 items where one takes longer.
      assert.ok(turns >= 8, `${turns} turns`);
    }
  });

  it("gives no turn away before a slice is over, also after the first", async () => {
    let [turns, isOver] = [0, false];
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    await inSlices(Array(100_000).fill(0), () => undefined);
    isOver = true;
    // A turn each sixteen items would be 6,250.
    assert.ok(turns < 2_000, `${turns} turns`);
  });

  it("gives no turn away while there is little to do", async () => {
    let turns = 0;
    const immediate = setImmediate(() => {
      turns += 1;
    });
    await inSlices([1, 2, 3], () => undefined);
    assert.equal(turns, 0);
    clearImmediate(immediate);
  });
});
