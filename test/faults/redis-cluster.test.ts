import assert from "node:assert/strict";
import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { bucketOf, crc16 } from "../../src/stores/redis-script.ts";
import { startCluster } from "../support/redis-engines.ts";
import { changes, dayUsed, metric, openRedisHouse, startLoad } from "./redis-house.ts";

const LIMIT = 75;

it("2.1 Cluster MOVED/ASK: while slots move under load there are 0 5xx, and each account is admitted exactly its limit", async (t) => {
  const cluster = await startCluster(3);
  t.after(() => cluster.close());
  await using house = await openRedisHouse(
    { port: cluster.nodes[0]?.port ?? 0 },
    { config: { store: cluster.address.url, plans: { free: { day: LIMIT } } } },
  );
  const issued = await Promise.all(Array.from({ length: 8 }, () => house.issue()));
  const load = startLoad(
    house,
    issued.map(({ key }) => key),
    500,
  );
  // The slot of the first account, and that of another one.
  const buckets = new Set(
    issued.map(({ account }) => bucketOf({ environment: "production", account })),
  );
  for (const bucket of [...buckets].slice(0, 2)) {
    const slot = crc16(String(bucket)) % 16_384;
    await cluster.move(slot, (cluster.ownerOf(slot) + 1) % 3, () => sleep(100));
  }
  while (load.told.length < 2 * LIMIT * issued.length) await sleep(20);
  const told = await load.stop();
  assert.deepEqual(
    told.filter(({ status }) => status !== 200 && status !== 429),
    [],
  );
  for (const { account } of issued) assert.equal(await dayUsed(house, account), LIMIT);
  const local = await metric(house, 'tollgate_store_unavailable_decisions_total{mode="local"}');
  const admitted = told.filter(({ status }) => status === 200).length;
  t.diagnostic(
    `${admitted} of ${LIMIT * issued.length} admitted, ${local} of them without the store`,
  );
  assert.equal(admitted, LIMIT * issued.length);
  assert.deepEqual(changes(house), []);
  await house.law();
});
