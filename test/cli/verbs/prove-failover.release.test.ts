import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { addReplica, startCluster, startSentinel } from "../../support/redis/redis-engines.ts";
import { PROOF_MS_MAX, prove, wasBusy } from "../prove-kit.ts";

describe("prove, on a store that fails over", { timeout: PROOF_MS_MAX }, () => {
  it("finds every promise kept while Sentinels replace a healthy master", async (t) => {
    const group = await startSentinel(undefined, undefined, { count: 3, allLive: true });
    t.onTestFinished(() => group.close());
    const { code, told } = await prove("--seconds", "8", "--redis", group.address.url);
    assert.deepEqual(told.broken, [], JSON.stringify(told, null, 1));
    const master = `127.0.0.1:${group.replica.port}`;
    assert.deepEqual([code, told.failover, told.gatewaysKilled], [0, { ok: true, master }, 1]);
    assert.ok(wasBusy(told), JSON.stringify(told, null, 1));
  });

  it("finds every promise kept while a Cluster replaces a healthy master", async (t) => {
    const cluster = await startCluster(3);
    t.onTestFinished(() => cluster.close());
    const without = await prove("--seconds", "3", "--redis", cluster.address.url);
    assert.deepEqual(without.told.failover?.ok, false, "none of its masters has a replica");
    const replica = await addReplica(cluster);
    t.onTestFinished(() => replica.close());
    const { code, told } = await prove("--seconds", "8", "--redis", cluster.address.url);
    assert.deepEqual(told.broken, [], JSON.stringify(told, null, 1));
    const master = `127.0.0.1:${replica.port}`;
    assert.deepEqual([code, told.failover, told.gatewaysKilled], [0, { ok: true, master }, 1]);
    assert.ok(wasBusy(told), JSON.stringify(told, null, 1));
  });
});
