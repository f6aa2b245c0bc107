import assert from "node:assert/strict";
import { afterEach, beforeEach, it } from "vitest";
import { UpstreamSockets, upstreamFiles } from "../../src/base/open-files.ts";

const before = { ...upstreamFiles };
/** Two sockets for each upstream, and one more for whoever comes first. */
beforeEach(() => void Object.assign(upstreamFiles, { open: 0, part: 2, beyond: 0, common: 1 }));
afterEach(() => void Object.assign(upstreamFiles, before));

function openTo(count: number, needed = 9): UpstreamSockets {
  const sockets = new UpstreamSockets(needed);
  for (let i = 0; i < count; i++) sockets.opened();
  return sockets;
}

it("an upstream has its part though others have all that is common", () => {
  const [greedy, late] = [openTo(2), openTo(0)];
  assert.ok(!greedy.isFull);
  greedy.opened();
  assert.deepEqual([greedy.isFull, late.isFull], [true, false]);
  for (const _ of [1, 2]) late.opened();
  assert.deepEqual([late.isFull, upstreamFiles.open], [true, 5]);
  greedy.closed();
  assert.deepEqual([greedy.isFull, late.isFull], [false, false], "who comes first");
  late.opened();
  assert.deepEqual([greedy.isFull, late.isFull], [true, true]);
  for (const _ of [1, 2, 3]) late.closed();
  for (const _ of [1, 2]) greedy.closed();
  assert.deepEqual([upstreamFiles.open, upstreamFiles.beyond], [0, 0]);
});

it("an upstream keeps of its part only what its requests need, and has more of it when they need more", () => {
  const modest = openTo(1, 1);
  modest.opened();
  assert.deepEqual([modest.isFull, upstreamFiles.beyond], [true, 1]);
  modest.needed = 2;
  assert.ok(!modest.isFull, "one of its two is of the common ones");
  modest.opened();
  assert.deepEqual([modest.isFull, upstreamFiles.beyond], [true, 1]);
});
