import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { describe, it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

/** A gateway whose log goes to a device that is always full, with one or with several processes. */
async function servesOnFullDisk(more: string, store = "memory"): Promise<void> {
  await using folder = await openFolder();
  await using backend = await startTestUpstream();
  const [admin = 0, port = 0] = await freePorts(2);
  const listen = `127.0.0.1:${port}`;
  const file = await writeConfig(folder, {
    ...{ admin, store, productionUpstream: backend.port, production: port, more },
  });
  const args = ["--env", "production", "--plan", "free", "--json", "--config", file];
  const { key } = jsonOf<{ key: string }>(await runVerb(["keys", "create", ...args]));
  const child = spawn(process.execPath, [`${ROOT}src/main.ts`, "start", "--config", file], {
    stdio: ["ignore", openSync("/dev/full", "w"), "pipe"],
  });
  let told = "";
  child.stderr?.setEncoding("utf8").on("data", (piece) => {
    told += piece;
  });
  try {
    const ready = async () => {
      const answer = await fetch(`http://127.0.0.1:${admin}/readyz`);
      const body = (await answer.json()) as { checks: { log?: { ok: boolean; why: string } } };
      return { status: answer.status, log: body.checks.log };
    };
    await eventually(async () => assert.equal((await ready()).status, 200));
    const dropped = async () => {
      const text = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
      return Number(/^tollgate_log_dropped_total (\d+)$/m.exec(text)?.[1]);
    };
    for (let i = 0; i < 20; i++) {
      const headers = { Authorization: `Bearer ${key}` };
      const answer = await fetch(`http://${listen}/v1/pets`, { headers });
      assert.equal(answer.status, 200, await answer.text());
    }
    // The lines of 20 requests, and those of the start.
    await eventually(async () => assert.ok((await dropped()) > 20));
    const { status, log } = await ready();
    assert.deepEqual([status, log?.ok], [200, true], "it serves, and is told");
    assert.match(log?.why ?? "", /^lines of the log are dropped: ENOSPC/);
    const begunMs = performance.now();
    child.kill("SIGTERM");
    const [code, signal] = await once(child, "exit");
    assert.deepEqual([code, signal], [0, null], told);
    assert.ok(performance.now() - begunMs < 10_000);
    assert.equal(told.match(/Cannot write the log/g)?.length, 1, told);
  } finally {
    child.kill("SIGKILL");
  }
}

describe("a full disk under the log", () => {
  it("is counted, told once and in /readyz, and keeps no process from its end", async () => {
    await servesOnFullDisk("");
  });

  it("and so with several processes, whose lines one of them writes", async () => {
    const redis = await startRedis();
    try {
      await servesOnFullDisk("workers: 2\nstoreTimeout: 1s\n", redis.url);
    } finally {
      await redis.close();
    }
  });
});
