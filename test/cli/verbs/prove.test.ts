import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "vitest";
import { runProof } from "../../../src/cli/prove/proof.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import { startCluster } from "../../support/redis/redis-engines.ts";
import { runVerb } from "../kit.ts";
import { PROOF_MS_MAX, prove, proveHere, wasBusy } from "../prove-kit.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");

describe("prove", { timeout: PROOF_MS_MAX }, () => {
  it("finds every promise kept while the store stands still and a gateway is killed", async () => {
    const { code, told } = await prove("--seconds", "5");
    const report = JSON.stringify(told, null, 1);
    assert.deepEqual([code, told.broken], [0, []], report);
    assert.deepEqual([told.gateways, told.store, told.gatewaysKilled], [2, "redis", 1]);
    assert.ok(told.lateAnswers > 0 && told.storeAwayMs > 500, report);
    assert.ok(wasBusy(told), report);
  });

  it.for([
    ["limit", "overLimit"],
    ["retry-after", "untrueHeaders"],
    ["forward", "doubleForwards"],
    ["late", "chargesDoubled"],
    ["cost", "untrueHeaders"],
    ["history", "historyLost"],
    ["settle", "metersOff"],
  ] as const)("turns red with the fault of %s", async ([fault, broken]) => {
    const { code, told } = await proveHere("--seconds", "3", "--break", fault);
    assert.ok(told.broken.includes(broken), JSON.stringify(told, null, 1));
    assert.equal(code, 1);
  });

  it("tells why a store did not fail over, and that it lost nothing by it", async (t) => {
    const cluster = await startCluster(1);
    t.onTestFinished(() => cluster.close());
    const { told } = await proveHere("--seconds", "3", "--redis", cluster.address.url);
    const why = "the master of bucket 0 has no replica";
    assert.deepEqual([told.failover, told.failoverLost], [{ ok: false, why }, 0]);
  });

  it("that is stopped early ends with an error, and tells of no promise", async () => {
    const stopping = new AbortController();
    const doing: string[] = [];
    const proof = runProof({
      ...{ gateways: 1, seconds: 60, redis: undefined, fault: undefined },
      self: [process.execPath, MAIN],
      tell: (text) => {
        doing.push(text);
        if (text === "Loading") stopping.abort(new Error("Stopped before the end"));
      },
      signal: stopping.signal,
    });
    await assert.rejects(proof, { message: "Stopped before the end" });
    assert.ok(!doing.includes("Comparing the charges with the store"), doing.join());
  });

  it("that is stopped together with what it started tells that it was stopped", async () => {
    const stopping = new AbortController();
    const proof = runProof({
      ...{ gateways: 1, seconds: 60, redis: undefined, fault: undefined },
      // An interrupt of the terminal ends the processes of the proof as well.
      self: [process.execPath, "/nowhere/main.ts"],
      tell: () => stopping.abort(new Error("Stopped before the end")),
      signal: stopping.signal,
    });
    await assert.rejects(proof, { message: "Stopped before the end" });
  });

  it("says at once of a Redis that cannot be reached why", async () => {
    for (const scheme of ["redis", "redis+sentinel", "redis+cluster"]) {
      const name = scheme === "redis+sentinel" ? "/mymaster" : "";
      const address = `${scheme}://127.0.0.1:${await freePort()}${name}`;
      const { status, err, out } = await runVerb(["prove", "--redis", address, "--seconds", "3"]);
      assert.deepEqual([status, out], [1, ""]);
      assert.equal(err, `Cannot use ${address}: Redis cannot be reached: ECONNREFUSED\n`);
    }
  });

  it("says at once of a Redis that takes no writes why", async () => {
    const redis = await startRedis();
    try {
      const admin = await redis.client();
      const says = async (why: string) => {
        const { status, err, out } = await runVerb(["prove", "--redis", redis.url]);
        assert.deepEqual([status, out], [1, ""]);
        assert.equal(err, `Cannot use ${redis.url}: Redis: ${why}\n`);
      };
      await admin.config("SET", "maxmemory", "1");
      await says("it is out of memory: raise maxmemory");
      await admin.config("SET", "maxmemory", "0");
      await admin.call("REPLICAOF", "127.0.0.1", await freePort());
      await says("it is a read-only replica");
    } finally {
      await redis.close();
    }
  });

  it("tells at a terminal what it is doing", async () => {
    const args = ["prove", "--redis", `redis://127.0.0.1:${await freePort()}`];
    const { err } = await runVerb(args, { isErrTty: true });
    assert.match(err, /^Starting Redis, pets and gateways\nCannot use redis:/);
  });

  it("refuses numbers and faults that it does not know, and names those it does", async () => {
    for (const [args, message] of [
      [["--gateways", "0"], /^Cannot use --gateways "0": it must be a whole number from 1 to 16/],
      [["--gateways", "17"], /^Cannot use --gateways "17": it must be a whole number/],
      [["--seconds", "86401"], /^Cannot use --seconds "86401": it must be a whole number/],
      [
        ["--seconds", "2"],
        /^Cannot use --seconds "2": it must be a whole number of seconds from 3/,
      ],
      [
        ["--break", "all"],
        /^Cannot use --break "all": it must be one of limit, retry-after, forward, late, cost, history, settle/,
      ],
      [["--redis", "localhost"], /^Cannot use --redis: write redis:\/\/HOST:PORT, redis\+s/],
      [
        ["--gateways", "16", "--seconds", "86400", "--redis", "memory"],
        /^Cannot use --redis: the memory of one process is no Redis/,
      ],
    ] as const) {
      const { status, err, out } = await runVerb(["prove", ...args]);
      assert.deepEqual([status, out], [64, ""]);
      assert.match(err, message);
    }
  });
});
