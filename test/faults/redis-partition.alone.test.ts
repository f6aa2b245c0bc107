import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { freshMetrics } from "../admin/scrape.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startLoad } from "../support/gateway/load.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { openTcpProxy } from "../support/wire/tcp-proxy.ts";

/** A minute on demand: TOLLGATE_PARTITION_S=60. */
const PARTED_MS = Number(process.env.TOLLGATE_PARTITION_S ?? 2) * 1_000;
const PER_SECOND = 1_000;
const MEBIBYTE = 1_048_576;

function rssMiB({ running }: SpawnedGateway): number {
  const status = readFileSync(`/proc/${running.pid}/status`, "utf8");
  return (Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1_024) / MEBIBYTE;
}

/** The least seen in a while: what is above it is garbage that was not collected yet. */
async function leastMiB(served: SpawnedGateway, forMs: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (const endMs = performance.now() + forMs; performance.now() < endMs; await sleep(20)) {
    least = Math.min(least, rssMiB(served));
  }
  return least;
}

test(`2.1 Partitioned: ${PARTED_MS / 1_000} s at up to ${PER_SECOND} rps without a packet of Redis: the breaker opens, the socket goes, and memory grows by less than 5 MiB`, async (t) => {
  const server = await startRedis();
  const proxy = await openTcpProxy(server);
  t.onTestFinished(async () => {
    await proxy.close();
    await server.close();
  });
  await using backend = await startTestUpstream();
  // A small heap is full soon, and then flat: else it would grow for as long as it may.
  const env = { NODE_OPTIONS: "--max-old-space-size=48 --max-semi-space-size=2" };
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    config: { store: `redis://127.0.0.1:${proxy.port}`, storeTimeout: "50ms" },
    run: { env },
  });
  const load = startLoad(`${served.url}/v1/pets`, KEY, PER_SECOND);
  await eventually(() => load.went.length > 1.2 * PER_SECOND, { withinMs: 60_000 });
  const changes = () => served.said.filter(({ kind }) => /^store_(away|back)$/.test(String(kind)));
  // A busy machine may have been too slow for it before.
  await eventually(() => changes().at(-1)?.kind !== "store_away");
  const mark = changes().length;
  const accepted = proxy.accepted();
  const startMs = Date.now();
  proxy.behave({ blackHole: true });
  const { value: goneMs, stalledMs } = await watchStalls(async () => {
    await eventually(() => assert.ok(changes().length > mark));
    await eventually(() => assert.ok(proxy.accepted() > accepted), { everyMs: 5 });
    return Date.now() - startMs;
  });
  const openedMs = Number(changes()[mark]?.time) - startMs;

  const quarterMs = PARTED_MS / 4;
  await sleep(quarterMs);
  const early = await leastMiB(served, quarterMs);
  await sleep(quarterMs);
  const late = await leastMiB(served, quarterMs);
  const open = proxy.open();
  proxy.behave({});
  const back = () =>
    changes()
      .slice(mark)
      .some(({ kind }) => kind === "store_back");
  await eventually(() => assert.ok(back()));
  const went = await load.stop();
  const told = await freshMetrics(served.adminUrl);
  t.annotate(
    `breaker open after ${openedMs} ms, a new connection after ${goneMs} ms, ` +
      `${(late - early).toFixed(1)} MiB more, ${went.length} requests`,
  );
  assert.deepEqual(
    went.filter((one) => !("status" in one) || one.status !== 200),
    [],
  );
  assert.ok(late - early < 5, `from ${early} to ${late} MiB`);
  assert.ok(open <= 4, `${open} connections are open`);
  // 250 ms and 1 s, and for how long this process, beside it, stood still.
  assert.ok(openedMs < 250 + 500 + stalledMs, `${openedMs} ms, ${stalledMs} stalled`);
  assert.ok(goneMs < 2_000 + stalledMs, `${goneMs} ms, ${stalledMs} stalled`);
  assert.ok((told.get('tollgate_store_unavailable_decisions_total{mode="local"}') ?? 0) > 500);
});
