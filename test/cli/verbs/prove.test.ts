import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it, vi } from "vitest";
import { runProof } from "../../../src/cli/prove/proof.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import { startCluster } from "../../support/redis/redis-engines.ts";
import { jsonOf, openFolder, runVerb } from "../kit.ts";
import { PROOF_MS_MAX, proveHere, type Told, wasBusy } from "../prove-kit.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");

describe("prove", { timeout: PROOF_MS_MAX }, () => {
  it("finds every promise kept while the store stands still and a gateway is killed", async () => {
    const doing: { text: string; atMs: number }[] = [];
    const said = await runVerb(["prove", "--json", "--seconds", "5"], {
      isErrTty: true,
      onErr: (text) => void doing.push({ text: text.trim(), atMs: Date.now() }),
    });
    const told = jsonOf<Told>(said);
    const report = JSON.stringify(told, null, 1);
    assert.deepEqual([said.status, told.broken], [0, []], report);
    assert.deepEqual([told.gateways, told.store, told.gatewaysKilled], [2, "redis", 1]);
    assert.ok(told.lateAnswers > 0 && told.forwarded > 100, report);
    assert.ok(wasBusy(told), report);
    assert.equal(told.storeAwayMs, 1_000);
    const phases = [
      ["Starting Redis, pets and gateways", Number.NEGATIVE_INFINITY],
      ["Loading", 0],
      ["Delaying single answers of the store", 1_000],
      ["Taking the store away", 2_000],
      ["Killing a gateway", 4_000],
      ["Comparing the charges with the store", 5_000],
    ] as const;
    const [, loading, , taken] = doing;
    const fromMs = loading?.atMs ?? 0;
    for (const [i, [text, afterMs]] of phases.entries()) {
      const one = doing[i];
      assert.equal(one?.text, text);
      assert.ok(one.atMs - fromMs > afterMs - 50, `${text} ${one.atMs - fromMs} ms after`);
    }
    assert.equal(doing.length, phases.length);
    const takenMs = taken?.atMs ?? 0;
    const outage = told.away.find(
      (one) => one.fromMs < takenMs + 500 && one.toMs >= takenMs + told.storeAwayMs - 50,
    );
    assert.ok(outage !== undefined, `taken at ${takenMs}: ${report}`);
    const killingMs = doing[4]?.atMs ?? 0;
    const killed = told.away.find((one) => {
      return one.toMs >= killingMs && one.fromMs <= one.toMs - 1_000;
    });
    assert.ok(killed !== undefined, "the last second of the gateway that was killed, at least");
  });

  it("goes on until limits were reached, however short it is, and without Redis has one gateway", async () => {
    vi.stubEnv("PATH", "/nowhere");
    const told = await runProof({
      ...{ gateways: 2, seconds: 0, redis: undefined, fault: "forward", tell: () => {} },
      ...{ self: [process.execPath, MAIN], signal: new AbortController().signal },
    }).finally(() => vi.unstubAllEnvs());
    const report = JSON.stringify(told, null, 1);
    assert.ok(told.admitted > 100 && told.refused > 100, report);
    assert.ok(told.doubleForwards > 0 && told.doubleForwards < told.forwarded, report);
    const { gateways, store, storeAwayMs, lateAnswers, gatewaysKilled } = told;
    const untried = [storeAwayMs, lateAnswers, gatewaysKilled];
    assert.deepEqual([gateways, store, ...untried], [1, "memory", 0, 0, 0]);
  });

  it.for([
    ["limit", "overLimit"],
    ["retry-after", "untrueHeaders"],
    ["late", "chargesDoubled"],
    ["cost", "untrueHeaders"],
    ["history", "historyLost"],
    ["settle", "metersOff"],
  ] as const)("turns red with the fault of %s", async ([fault, broken]) => {
    const { code, told } = await proveHere("--seconds", "3", "--break", fault);
    assert.ok(told.broken.includes(broken), JSON.stringify(told, null, 1));
    assert.equal(code, 1);
    const { storeAwayMs, gatewaysKilled, lateAnswers } = told;
    const excuses = [storeAwayMs, gatewaysKilled, lateAnswers > 0];
    assert.deepEqual(excuses, [0, 0, fault === "late"], "nothing else excuses the fault");
  });

  it("tells why a store did not fail over, and that it lost nothing by it", async (t) => {
    const cluster = await startCluster(1);
    t.onTestFinished(() => cluster.close());
    const { told } = await proveHere("--seconds", "3", "--redis", cluster.address.url);
    const why = "the master of bucket 0 has no replica";
    assert.deepEqual([told.failover, told.failoverLost], [{ ok: false, why }, 0]);
    assert.deepEqual(await cluster.clients[0]?.keys("*"), [], "it has removed its keys");
  });

  it("in a folder that cannot be written says which, why, and that TMPDIR names another one", async () => {
    await using folder = await openFolder();
    const nowhere = join(folder.path, "nowhere");
    vi.stubEnv("TMPDIR", nowhere);
    const said = await runVerb(["prove", "--seconds", "3"]).finally(() => vi.unstubAllEnvs());
    assert.deepEqual([said.status, said.out], [1, ""]);
    const [before, after] = said.err.split(nowhere);
    assert.match(
      before ?? "",
      /^Cannot make a temporary folder: ENOENT: no such file or directory,/,
    );
    assert.match(after ?? "", /; set TMPDIR to a folder that can be written\n$/);
  });

  it("that is stopped early ends with an error, and tells of no promise", async () => {
    await using folder = await openFolder();
    vi.stubEnv("TMPDIR", folder.path);
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
    await assert
      .rejects(proof, { message: "Stopped before the end" })
      .finally(() => vi.unstubAllEnvs());
    assert.ok(!doing.includes("Comparing the charges with the store"), doing.join());
    const left = process.getActiveResourcesInfo().filter((name) => name === "ProcessWrap");
    assert.deepEqual([await readdir(folder.path), left], [[], []]);
  });

  it.for([
    ["loses its terminal", "SIGHUP", [1, null]],
    ["is told to end by SIGTERM, and ends by it,", "SIGTERM", [null, "SIGTERM"]],
  ] as const)(
    "that %s ends what it started, and removes its folder",
    async ([, signal, wanted]) => {
      await using folder = await openFolder();
      const child = spawn(process.execPath, [MAIN, "prove", "--seconds", "60"], {
        ...{ detached: true, stdio: "ignore" },
        env: { ...process.env, TMPDIR: folder.path },
      });
      const ended = once(child, "exit");
      await eventually(async () => {
        const all = await readdir(folder.path, { recursive: true });
        assert.ok(
          all.some((name) => name.endsWith("gateway-1.yaml")),
          all.join(),
        );
      });
      const group = -Number(child.pid);
      process.kill(group, signal);
      assert.deepEqual(await ended, wanted);
      assert.throws(() => process.kill(group, 0), /ESRCH/);
      assert.deepEqual(await readdir(folder.path), []);
    },
  );

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
      const late = await runVerb(["prove", "--redis", redis.url, "--break", "late"]);
      const whyNot = "Cannot plant the fault late: it needs redis-server, and no --redis\n";
      assert.deepEqual([late.status, late.err], [1, whyNot]);
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
