import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { afterAll, beforeAll, it } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/load/load.ts";
import { WorkerPool } from "../../../src/server/workers/worker-pool.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys, openFolder } from "./kit.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** A pool of one worker on a real Redis. `killed` ends the worker and waits for the next one. */
async function openPool(variables: Readonly<Record<string, string>> = {}) {
  const folder = await openFolder(redis, "http://127.0.0.1:9");
  await folder.write({ workers: 2 });
  const loaded = await loadConfig(folder.file, {});
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  const pids: number[] = [];
  const write = (line: string) => {
    const { msg, pid } = JSON.parse(line) as { msg: string; pid: number };
    if (msg === "worker_serves") pids.push(pid);
  };
  const pool = new WorkerPool(loaded.config, {
    count: 1,
    log: createLog({ write }, "info"),
    onStatus: () => {},
    lines: () => {},
    variables,
  });
  await pool.open();
  return {
    pool,
    config: loaded.config,
    pid: () => pids.at(-1) as number,
    killed: async () => {
      const before = pids.length;
      process.kill(pids.at(-1) as number, "SIGKILL");
      await eventually(() => assert.equal(pids.length, before + 1));
    },
    [Symbol.asyncDispose]: async () => {
      await pool.kill();
      await folder[Symbol.asyncDispose]();
    },
  };
}

function movedTo(config: Config, port: number): Config {
  const environments = config.environments.map((each) => {
    return { ...each, listen: { ...each.listen, port } };
  });
  return { ...config, environments };
}

it("a configuration that the first worker refuses is not that of a worker started later", async () => {
  await using house = await openPool();
  const { pool, config } = house;
  const port = await freePort();
  const rollout = await pool.reload(movedTo(config, port));
  assert.equal(rollout.applied, false);
  assert.match(rollout.reasons.join(), /Cannot change environments\.production\.listen/);
  await house.killed();
  assert.notEqual(new URL(pool.urls.production ?? "").port, String(port));
  // Its port is free, so another program may have it.
  const other = createServer().listen(port, "127.0.0.1");
  await once(other, "listening");
  other.close();
});

it("what a killed worker has counted stays in the sums", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using house = await openPool();
  const { pool } = house;
  for (let i = 0; i < 20; i++) await get(`${pool.urls.production}/v1/animals`, key);
  await eventually(async () => {
    await pool.ask(1_000);
    assert.ok(pool.gauges.storeCommands >= 20);
  });
  const { storeCommands } = pool.gauges;
  await house.killed();
  assert.ok(
    pool.gauges.storeCommands >= storeCommands,
    `${pool.gauges.storeCommands} of ${storeCommands}`,
  );
});

it("units that a killed worker owed to a store that is away are told as lost", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using house = await openPool();
  const { pool } = house;
  assert.equal((await get(`${pool.urls.production}/v1/animals`, key)).status, 502);
  redis.stop();
  try {
    for (let i = 0; i < 3; i++) await get(`${pool.urls.production}/v1/animals`, key);
    await eventually(async () => {
      await pool.ask(1_000);
      assert.ok(pool.gauges.chargesOwed >= 3, `${pool.gauges.chargesOwed} are owed`);
    });
    const { chargesOwed, chargesLost } = pool.gauges;
    const killed = house.killed();
    redis.cont();
    await killed;
    assert.equal(pool.gauges.chargesLost, chargesLost + chargesOwed);
  } finally {
    redis.cont();
  }
});

it("lines that the pool dropped, being far too long, are counted on when their worker has ended", async () => {
  const long = `process.on("SIGUSR2", () => process.stdout.write("x".repeat(2 ** 21) + "\\n"));`;
  const variables = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(long)}` };
  await using house = await openPool(variables);
  const { pool } = house;
  process.kill(house.pid(), "SIGUSR2");
  await eventually(() => assert.equal(pool.gauges.logDropped, 1));
  await house.killed();
  assert.equal(pool.gauges.logDropped, 1);
});
