import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { BUCKET_COUNT, bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import { freePort } from "../../../support/redis/redis.ts";
import {
  addReplica,
  startCluster,
  type TestCluster,
} from "../../../support/redis/redis-engines.ts";
import { openFallback } from "./fallback-kit.ts";

const PARTIAL = ["--cluster-require-full-coverage", "no"];
const BUCKETS = Array.from({ length: BUCKET_COUNT }, (_, bucket) => bucket);

/** Notes the bucket of each heartbeat that a gateway has an answer to, and of each that it sends. */
function watched() {
  const beats: number[] = [];
  const sent: { readonly bucket: number; readonly atMs: number }[] = [];
  const through = ({ link, ...shared }: QuotaClient): QuotaClient => {
    const send: typeof link.send = async (key, ...command) => {
      const [, bucket] = /\{(\d+)\}:(?:form|gateways)$/.exec(key) ?? [];
      sent.push({ bucket: Number(bucket), atMs: performance.now() });
      const reply = await link.send(key, ...command);
      if (bucket !== undefined) beats.push(Number(bucket));
      return reply;
    };
    const watching = { ...link, clustered: link.clustered, tried: link.tried, send };
    return Object.assign(Object.create(shared), shared, { link: watching });
  };
  return { beats, sent, through };
}

describe("a Cluster whose gateways have no requests", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3, PARTIAL);
  });
  afterAll(() => cluster.close());

  const ofNode = (node: number) => {
    return BUCKETS.filter((bucket) => cluster.ownerOf(bucketSlot(bucket)) === node);
  };
  /** A master that does not have bucket 0, and its buckets. */
  const GONE = 1;
  const gone = () => {
    const buckets = ofNode(GONE);
    assert.ok(buckets.length > 2 && !buckets.includes(0));
    return buckets;
  };

  it("is away within seconds in the buckets of a master that hangs, and in no other", async () => {
    const { beats, sent, through } = watched();
    await using house = await openFallback(cluster, { through });
    const away = () => BUCKETS.filter((bucket) => house.gate.isAway(bucket));
    // Until then the gateway asks each bucket for the time of its clock.
    await eventually(() => beats.filter((bucket) => bucket === 0).length > 3);
    await eventually(() => assert.deepEqual(away(), []));
    const stoppedMs = performance.now();
    cluster.nodes[GONE]?.stop();
    try {
      const { stalledMs } = await watchStalls(() => {
        return eventually(() => assert.deepEqual(away(), gone()));
      });
      // A second to the next heartbeat, two with a second between, and the probes of the others: 3.6 s
      // where the machine is quiet.
      const tookMs = performance.now() - stoppedMs;
      assert.ok(tookMs < 6_000 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
      await eventually(() => assert.deepEqual(house.changes(), ["store_away"]));
      const [told] = house.told.filter(({ message }) => message === "store_away");
      assert.equal(told?.details?.buckets, gone().join());
      // Bucket 0 keeps the pace of the probes, twice a second.
      const others = ofNode(cluster.ownerOf(bucketSlot(0))).filter((bucket) => bucket !== 0);
      const before = sent.length;
      const since = () => sent.slice(before).filter(({ bucket }) => others.includes(bucket));
      await eventually(() => since().length > 2);
      for (const [i, { atMs }] of since().entries()) {
        const lastMs = since()[i - 1]?.atMs ?? 0;
        assert.ok(atMs - lastMs > 800, `${atMs - lastMs} ms between two heartbeats to a node`);
      }
    } finally {
      cluster.nodes[GONE]?.cont();
    }
    await eventually(() => assert.deepEqual([house.store.health(), away()], [{ ok: true }, []]));
  });

  it("is told which buckets are away, and that they are back, if a master was gone for a moment and the gateway not ready", async () => {
    await using house = await openFallback(cluster);
    await eventually(() => house.store.health().ok);
    await cluster.nodes[GONE]?.kill();
    await eventually(() => !house.store.health().ok, { everyMs: 1 });
    await cluster.nodes[GONE]?.restart();
    await eventually(() => house.store.health().ok, { withinMs: 60_000 });
    assert.equal(house.changes()[0], "store_away");
    const away = house.told.find(({ message }) => message === "store_away");
    assert.equal(away?.details?.buckets, gone().join());
    assert.equal(house.changes().at(-1), "store_back");
  });

  it("is away from the start of a gateway on if none of its nodes is there, and told so", async () => {
    const url = `redis+cluster://127.0.0.1:${await freePort()}`;
    const address = { kind: "redis", url, shown: url } as const;
    await using house = await openFallback({ address });
    while (house.changes().length === 0) {
      assert.equal(house.store.health().ok, false);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual([house.changes(), house.store.health().ok], [["store_away"], false]);
  });

  it("is away in the buckets whose slots a master serves no more, though it serves others", async () => {
    const [kept, ...lost] = gone();
    await using house = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    const away = () => BUCKETS.filter((bucket) => house.gate.isAway(bucket));
    const node = cluster.clients[GONE];
    await node?.call("CLUSTER", "DELSLOTS", ...lost.map(bucketSlot));
    try {
      await eventually(() => assert.deepEqual(away(), lost));
      assert.ok(!house.gate.isAway(Number(kept)));
    } finally {
      await node?.call("CLUSTER", "ADDSLOTS", ...lost.map(bucketSlot));
    }
    await eventually(() => assert.deepEqual(away(), []));
  });

  it("stays up through a planned failover, and asks the new master from then on", async () => {
    const { beats, through } = watched();
    const replica = await addReplica(cluster);
    const policy = { storeTimeoutMs: 5_000 };
    await using house = await openFallback(cluster, { policy, through });
    try {
      const moving = ofNode(cluster.ownerOf(bucketSlot(0))).filter((bucket) => bucket !== 0);
      const answered = () => beats.filter((bucket) => moving.includes(bucket)).length;
      await eventually(() => answered() > 0);
      const promoted = await replica.client();
      await promoted.call("CLUSTER", "FAILOVER");
      await eventually(async () => assert.equal((await promoted.role())[0], "master"));
      const before = answered();
      const callsBefore = await replica.calls("evalsha");
      await eventually(() => answered() > before + 2);
      assert.ok((await replica.calls("evalsha")) > callsBefore);
      assert.deepEqual([house.changes(), house.store.health()], [[], { ok: true }]);
    } finally {
      await replica.close();
    }
  });
});
