import assert from "node:assert/strict";
import { it, vi } from "vitest";
import { createQuotaClient } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { watchClock } from "../../../../../src/stores/quotas/redis/store/store-warnings.ts";
import { connectRedis } from "../../../../../src/stores/redis/engines/single-link.ts";
import { BUCKET_COUNT, bucketSlot } from "../../../../../src/stores/redis/hash-slots.ts";
import { eventually } from "../../../../support/poll.ts";
import { startCluster } from "../../../../support/redis/redis-engines.ts";

const ALL = Array.from({ length: BUCKET_COUNT }, (_, bucket) => bucket);

it("a clock that differs is told of each node of a Cluster that has answered, once, and taken back", async (t) => {
  const cluster = await startCluster(3);
  t.onTestFinished(() => cluster.close());
  const link = connectRedis({ address: cluster.address });
  t.onTestFinished(() => link.close());
  await link.tried;
  const quotaClient = createQuotaClient(link, "tg");
  const nodeOf = (index: number) => `127.0.0.1:${cluster.nodes[index]?.port}`;
  const told: unknown[][] = [];
  const watch = watchClock(quotaClient, "shown", (_level, message, details) => {
    const { node, aheadMs } = details as Readonly<Record<string, unknown>>;
    told.push([message, node, Math.round(Number(aheadMs) / 10_000) + 0]);
  });
  t.onTestFinished(() => watch.stop());
  await watch.known;
  const asked = ALL.find((bucket) => cluster.ownerOf(bucketSlot(bucket)) === 0) as number;
  const asks = setInterval(
    () => void quotaClient.learnClock(asked, 2_000).catch(() => undefined),
    500,
  );
  t.onTestFinished(() => clearInterval(asks));

  // The clock of the first node is set, which no test can do to a server: what it tells is moved.
  const moved = quotaClient.clockOf(asked);
  const { learn } = moved;
  const off = vi.spyOn(moved, "learn").mockImplementation((sentMs, receivedMs, nowMs) => {
    learn.call(moved, sentMs, receivedMs, nowMs + 90_000);
  });
  await eventually(() => assert.deepEqual(told, [["clock_differs", nodeOf(0), -9]]), {
    withinMs: 20_000,
  });
  off.mockRestore();
  await eventually(() => assert.deepEqual(told[1], ["clock_agrees", nodeOf(0), 0]), {
    withinMs: 20_000,
  });

  // Now that of this machine is: no node that has not answered is told.
  const now = Date.now;
  const machine = vi.spyOn(Date, "now").mockImplementation(() => now() + 70_000);
  t.onTestFinished(() => machine.mockRestore());
  const named = () => told.slice(2).map(([message, node]) => `${message} ${node}`);
  // The last node has bucket 0, whose clock is asked for.
  assert.equal(cluster.ownerOf(bucketSlot(0)), 2);
  const differs = [0, 2].map((i) => `clock_differs ${nodeOf(i)}`);
  await eventually(() => assert.deepEqual(named().sort(), differs.sort()), { withinMs: 20_000 });
  machine.mockRestore();
  await eventually(() => assert.equal(told.length, 6), { withinMs: 20_000 });
  assert.ok(told.every(([, node]) => node !== nodeOf(1)));
});
