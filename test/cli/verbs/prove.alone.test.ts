import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { runTollgate } from "../../support/gateway/processes.ts";
import { addReplica, startCluster, startSentinel } from "../../support/redis/redis-engines.ts";
import { jsonOf, runVerb } from "../kit.ts";

type Told = {
  gateways: number;
  store: string;
  admitted: number;
  refused: number;
  storeAwayMs: number;
  gatewaysKilled: number;
  failover: { ok: boolean; master?: string; why?: string } | null;
  lateAnswers: number;
  broken: string[];
  examples: string[];
};

async function prove(...args: string[]) {
  const { code, stdout, stderr } = await runTollgate(["prove", "--json", ...args], {
    timeoutMs: 80_000,
  });
  assert.ok(stdout !== "", stderr);
  return { code, told: jsonOf<Told>({ out: stdout }) };
}

describe("prove", () => {
  it("finds every promise kept while the store stands still and a gateway is killed", async () => {
    const { code, told } = await prove("--seconds", "5");
    assert.deepEqual(told.broken, [], JSON.stringify(told, null, 1));
    assert.equal(code, 0);
    assert.deepEqual([told.gateways, told.store, told.gatewaysKilled], [2, "redis", 1]);
    assert.ok(told.lateAnswers > 0);
    assert.ok(told.storeAwayMs > 500 && told.admitted > 100 && told.refused > 100);
  });

  it("finds every promise kept while Sentinels replace a healthy master", async (t) => {
    const group = await startSentinel(undefined, undefined, { count: 3 });
    t.onTestFinished(() => group.close());
    const { code, told } = await prove("--seconds", "8", "--redis", group.address.url);
    assert.deepEqual(told.broken, [], JSON.stringify(told, null, 1));
    const master = `127.0.0.1:${group.replica.port}`;
    assert.deepEqual([code, told.failover, told.gatewaysKilled], [0, { ok: true, master }, 1]);
    assert.ok(told.admitted > 100 && told.refused > 100);
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
    assert.ok(told.admitted > 100 && told.refused > 100);
  });

  it.for([
    ["limit", "overLimit"],
    ["retry-after", "untrueHeaders"],
    ["forward", "doubleForwards"],
    ["late", "chargesDoubled"],
    ["cost", "untrueHeaders"],
    ["history", "historyLost"],
  ] as const)("turns red with the fault of %s", async ([fault, broken]) => {
    const { code, told } = await prove("--seconds", "3", "--break", fault);
    assert.equal(code, 1);
    assert.ok(told.broken.includes(broken), JSON.stringify(told, null, 1));
  });

  it("refuses numbers and faults that it does not know, and names those it does", async () => {
    for (const [args, message] of [
      [["--gateways", "0"], /^Cannot use --gateways "0": it must be a whole number from 1 to 16/],
      [
        ["--seconds", "2"],
        /^Cannot use --seconds "2": it must be a whole number of seconds from 3/,
      ],
      [
        ["--break", "all"],
        /^Cannot use --break "all": it must be one of limit, retry-after, forward, late, cost, history/,
      ],
      [
        ["--redis", "localhost"],
        /^Cannot use --redis: write memory, redis:\/\/HOST:PORT, redis\+s/,
      ],
      [["--redis", "memory"], /^Cannot use --redis: the memory of one process is no Redis/],
    ] as const) {
      const { status, err, out } = await runVerb(["prove", ...args]);
      assert.deepEqual([status, out], [64, ""]);
      assert.match(err, message);
    }
  });
});
