import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { storeNow } from "../../../src/server/process/store-now.ts";

describe("the clock by which records are judged", () => {
  it("asks how far the store's is ahead ten times a second, and once this machine's was set back", () => {
    const at = { nowMs: 1_000_000, aheadMs: 7, asked: 0 };
    const clockAheadMs = () => {
      at.asked += 1;
      return at.aheadMs;
    };
    const now = storeNow(() => at.nowMs, { clockAheadMs });
    assert.deepEqual([now(), now(), at.asked], [1_000_007, 1_000_007, 1]);
    at.aheadMs = 60_000;
    at.nowMs += 99;
    assert.deepEqual([now(), at.asked], [1_000_106, 1]);
    at.nowMs += 1;
    assert.deepEqual([now(), at.asked], [1_060_100, 2]);
    at.aheadMs = 61_000;
    at.nowMs -= 1_000;
    assert.deepEqual([now(), at.asked], [1_060_100, 3]);
  });
});
