import assert from "node:assert/strict";
import { it, onTestFinished, vi } from "vitest";
import { BucketClocks } from "../../../../src/stores/quotas/redis/bucket-clocks.ts";
import type { Link } from "../../../../src/stores/redis/link.ts";

it("a call to several buckets has the deadline of the clock by which it ends first, in whatever order they are named", () => {
  // The clocks drift apart with time.
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const clocks = new BucketClocks({ clustered: true } as Link, "tg", undefined);
  const nowMs = performance.now();
  clocks.learn([1], nowMs, 1_000_000);
  clocks.learn([2], nowMs, 2_000_000);
  const giveUpMs = nowMs + 500;
  const first = clocks.argument([1], giveUpMs);
  assert.ok(first < 0 && -first < 1_100_000, `${first}`);
  assert.ok(-clocks.argument([2], giveUpMs) > 1_900_000);
  assert.equal(clocks.argument([1, 2], giveUpMs), first);
  assert.equal(clocks.argument([2, 1], giveUpMs), first);
  assert.equal(clocks.argument([3, 1], giveUpMs), first, "the clock of 3 is not known");
  assert.equal(clocks.argument([3], giveUpMs), -1);
});
