import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { it, onTestFinished } from "vitest";
import { portsOf, startRedis } from "./redis.ts";

it("a server whose port another one has is not taken for that one", async () => {
  const one = await startRedis();
  onTestFinished(() => one.close());
  await assert.rejects(startRedis({ port: one.port }), /already in use/);
});

it("two processes of one run have no port in common", () => {
  const places = Array.from({ length: 3 * availableParallelism() }, (_, i) => portsOf(i + 1));
  const sorted = [...places, portsOf(0)].toSorted((a, b) => a.from - b.from);
  for (const [i, { from, to }] of sorted.entries()) {
    assert.ok(from >= (sorted[i - 1]?.to ?? 0) && to > from, `${from} to ${to}`);
    assert.ok(to <= 32_000, `${to}`);
  }
});
