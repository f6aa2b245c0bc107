import assert from "node:assert/strict";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import { type AddressInfo, createServer } from "node:net";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { queryObjects } from "node:v8";
import { afterAll, beforeAll, it, onTestFinished, vi } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/load/load.ts";
import { startGateway } from "../../../src/server/start.ts";
import { restartDelayMs } from "../../../src/server/workers/worker-losses.ts";
import { WorkerProcess } from "../../../src/server/workers/worker-process.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys, openFolder } from "./kit.ts";
import { ENDS_AT_RELOAD, type OpenedPool, openPoolOn } from "./pool.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

const openPool = (opened?: OpenedPool) => openPoolOn(redis, opened);

function movedTo(config: Config, port: number): Config {
  const environments = config.environments.map((one) => {
    return { ...one, listen: { ...one.listen, port } };
  });
  return { ...config, environments };
}

// The first, as objects of other tests are collected at some time.
it("a worker that has ended is forgotten", async () => {
  await using house = await openPool();
  await house.killed();
  const held = () => queryObjects(WorkerProcess, { format: "count" });
  await eventually(() => assert.equal(held(), 1), { everyMs: 100 });
});

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

it("a configuration that a worker refuses does not shorten its drain", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  let answer = () => {};
  await using backend = await startTestUpstream((_seen, response) => {
    answer = () => void response.end("late");
  });
  await using house = await openPool({ drain: "60s", level: "warn", upstream: backend.origin });
  const { pool, config } = house;
  const moved = movedTo(config, await freePort());
  const environments = moved.environments.map((one) => {
    return { ...one, limits: { ...one.limits, drainMs: 100 } };
  });
  assert.equal((await pool.reload({ ...moved, environments })).applied, false);
  const asked = get(`${pool.urls.production}/v1/animals`, key);
  await eventually(() => assert.equal(backend.seen.length, 1));
  const stopped = pool.stop(60_000);
  // With the drain of 100 ms the worker would end itself 2.3 s after it was told.
  await sleep(3_000);
  answer();
  assert.equal((await asked).status, 200);
  await stopped;
  assert.doesNotMatch(house.lines.join(""), /"msg":"request"/, "below the level of its log");
  assert.doesNotMatch(house.lines.join(""), /config_refused/, "the process that watches tells it");
});

/** Three workers, asked in the order of their numbers: these end when they get a configuration. */
async function openFaulty(...faulty: readonly (1 | 2 | 3)[]) {
  const house = await openPool({ count: 3, variables: ENDS_AT_RELOAD });
  const first = Math.min(...house.told.flatMap(({ worker }) => (worker ? [Number(worker)] : [])));
  for (const place of each(faulty)) {
    const served = house.told.find(({ worker }) => worker === first + place - 1);
    process.kill(Number(served?.pid), "SIGUSR2");
  }
  await eventually(() => {
    const said = house.lines.join("").match(/it will end/g) ?? [];
    assert.equal(said.length, faulty.length);
  });
  return house;
}

it("a configuration at which the first worker ends is judged by another, and one that ends behind it is no reason, as the next has it", async () => {
  await using house = await openFaulty(1, 3);
  const { pool, config } = house;
  assert.deepEqual(pool.health, { ok: true });
  const replies = await pool.recall({ refusal: "unknown" }, 10_000);
  assert.deepEqual(replies, Array(3).fill({ refusal: undefined }));
  const rollout = await pool.reload(movedTo(config, await freePort()));
  assert.equal(rollout.applied, false);
  assert.match(rollout.reasons.join(), /Cannot change environments\.production\.listen/);
  assert.deepEqual(await pool.reload(config), { applied: true, reasons: [] });
  await eventually(() => assert.equal(pool.serving, 3));
});

it("a configuration at which two workers end is refused, and the third never gets it", async () => {
  await using house = await openFaulty(1, 2, 3);
  const { pool, config } = house;
  const rollout = await pool.reload(config);
  assert.equal(rollout.applied, false);
  for (const reason of each(rollout.reasons)) {
    assert.match(reason, /^worker \d+: it ended while it applied the configuration$/);
  }
  const { serving, health } = pool;
  const why = `${serving} of 3 serve`;
  assert.deepEqual(health, serving === 3 ? { ok: true } : { ok: true, why });
  const lost = house.told.filter(({ msg }) => msg === "worker_lost");
  assert.deepEqual(
    lost.map((line) => line.why),
    ["it ended with 7", "it ended with 7"],
  );
  await eventually(() => assert.equal(pool.serving, 3));
  assert.equal(pool.restarts, 2);
});

it("a level of the log that a reload brings is that of the workers", async () => {
  await using house = await openPool();
  const { pool, config } = house;
  const ask = (path: string) => get(`${pool.urls.production}${path}`, "no key");
  for (const level of ["warn", "info"] as const) {
    const { applied } = await pool.reload({ ...config, log: { ...config.log, level } });
    assert.equal(applied, true);
    await ask(`/v1/${level}`);
  }
  await eventually(() => assert.match(house.lines.join(""), /"path":"\/v1\/info"/));
  assert.doesNotMatch(house.lines.join(""), /"path":"\/v1\/warn"/);
});

/**
 * A worker that got a SIGUSR2 refuses each configuration. It owes units that it charges while it
 * drains, and its last line has no end.
 */
const REFUSES_AT_RELOAD = `import { writeSync } from "node:fs";
process.on("SIGUSR2", () => {
  const { emit, send } = process;
  let [gauges, last] = [{ chargesOwed: 4 }, undefined];
  process.send = function (message, ...rest) {
    if (message.status) last = Object.assign(message.status.gauges, gauges) && message;
    return send.call(this, message, ...rest);
  };
  process.emit = function (name, message) {
    if (message?.stop) {
      gauges = { chargesOwed: 0, keysOlder: 3 };
      process.send(last);
      process.once("exit", () => writeSync(1, "half"));
    }
    if (!message?.reload) return emit.apply(this, arguments);
    const reloaded = { ok: false, mistakes: [], reasons: ["no room"] };
    return process.send({ reloaded, id: message.id });
  };
  process.stdout.write("it will refuse\\n");
});`;

it("a worker that refuses what another has taken is named, replaced, and counts to its end", async () => {
  const code = `--import data:text/javascript,${encodeURIComponent(REFUSES_AT_RELOAD)}`;
  await using house = await openPool({ count: 2, variables: { NODE_OPTIONS: code } });
  const { pool, pids, lines } = house;
  process.kill(pids[1] as number, "SIGUSR2");
  await eventually(() => assert.match(lines.join(""), /it will refuse/));
  await pool.ask(60_000);
  const { applied, reasons } = await pool.reload(house.config);
  assert.equal(applied, true);
  assert.match(reasons.join(), /^worker \d+: no room$/);
  const counts = () => {
    const { chargesOwed, chargesLost, keysOlder, logDropped } = pool.gauges;
    return { chargesOwed, chargesLost, keysOlder, logDropped };
  };
  assert.deepEqual(counts(), { chargesOwed: 4, chargesLost: 0, keysOlder: 0, logDropped: 0 });
  await eventually(() => assert.equal(pids.length, 3));
  await eventually(() => assert.ok(!isAlive(pids[1] as number)));
  const lost = house.told.find(({ msg }) => msg === "worker_lost");
  assert.deepEqual([lost?.pid, lost?.why], [pids[1], "it did not take the new configuration"]);
  const whole = { chargesOwed: 0, chargesLost: 0, keysOlder: 3, logDropped: 1 };
  await eventually(() => assert.deepEqual(counts(), whole), { withinMs: 10_000 });
});

it("a pool that ends starts no worker in the place of one that was lost before", async () => {
  const house = await openPool({
    heard: ({ msg }) => {
      if (msg === "worker_lost") void house.pool.kill();
    },
  });
  process.kill(house.pid(), "SIGKILL");
  await eventually(() => assert.equal(house.told.at(-1)?.msg, "worker_lost"));
  // The other would start at once.
  await sleep(100);
  assert.equal(house.pool.restarts, 0);
  await house[Symbol.asyncDispose]();
});

it("a pool that ends at once cuts requests with their lines, in a worker too that was replaced and goes on", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  const backend = await startTestUpstream(() => {});
  onTestFinished(() => backend.close());
  await using house = await openPool({ count: 2, drain: "10m", upstream: backend.origin });
  const { pool, config, pids, lines } = house;
  const asked = Array.from({ length: 60 }, () => get(`${pool.urls.production}/v1/animals`, key));
  await eventually(() => assert.equal(backend.seen.length, asked.length));
  const [replaced = 0] = pids;
  process.kill(replaced, "SIGSTOP");
  assert.match(
    (await pool.reload(config)).reasons.join(),
    /^worker \d+: it did not answer in time$/,
  );
  await eventually(() => assert.equal(pids.length, 3));
  process.kill(replaced, "SIGCONT");
  const stopped = pool.stop(30_000);
  pool.stopAtOnce(30_000);
  await stopped;
  await Promise.all(asked);
  assert.equal(lines.join("").match(/"msg":"request"/g)?.length, asked.length);
});

it("a worker that does not end is killed at the deadline of the pool", async () => {
  await using house = await openPool();
  process.kill(house.pid(), "SIGSTOP");
  const stopped = house.pool.stop(500);
  assert.equal(await Promise.race([stopped, sleep(200, "waits")]), "waits");
  await eventually(() => assert.ok(!isAlive(house.pid())));
  await stopped;
});

it("a pause before a lost worker is replaced begins with the sixth in a minute, and ends at 30 s", () => {
  const delays = [1, 5, 6, 7, 10, 11, 12, 1_000].map((ends) => restartDelayMs(ends) / 1_000);
  assert.deepEqual(delays, [0, 0, 1, 2, 16, 30, 30, 30]);
});

it("a pool that lost more than five workers is well again when a minute has passed", async () => {
  await using house = await openPool({ count: 6 });
  const { pool, pids, told } = house;
  onTestFinished(() => void vi.restoreAllMocks());
  const clock = performance.now.bind(performance);
  let laterMs = 0;
  vi.spyOn(performance, "now").mockImplementation(() => clock() + laterMs);
  for (const pid of pids.slice()) process.kill(pid, "SIGKILL");
  const lost = () => told.filter(({ msg }) => msg === "worker_lost").length;
  await eventually(() => assert.equal(lost(), 6));
  laterMs = 45_000;
  assert.deepEqual([pool.health.ok, /^6 ended/.test(pool.health.why ?? "")], [false, true]);
  laterMs = 60_000;
  await eventually(() => assert.deepEqual(pool.health, { ok: true }));
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
    const kinds = () => house.told.flatMap(({ kind }) => (kind === undefined ? [] : [kind]));
    await eventually(() => assert.deepEqual(kinds(), ["store_away"]));
    const { chargesOwed, chargesLost } = pool.gauges;
    const killed = house.killed();
    redis.cont();
    await killed;
    assert.equal(pool.gauges.chargesLost, chargesLost + chargesOwed);
    const line = house.told.find(({ msg }) => msg === "charges_lost");
    assert.deepEqual([typeof line?.worker, line?.units], ["number", chargesOwed]);
    assert.deepEqual(kinds(), ["store_away", "store_back"], "it is away for no other");
  } finally {
    redis.cont();
  }
});

it("lines that the pool dropped, being far too long, are counted on when their worker has ended", async () => {
  const long = `process.on("SIGUSR2", () => process.stdout.write("x".repeat(2 ** 21) + "\\n"));`;
  const variables = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(long)}` };
  await using house = await openPool({ variables });
  const { pool } = house;
  process.kill(house.pid(), "SIGUSR2");
  await eventually(() => assert.equal(pool.gauges.logDropped, 1));
  await house.killed();
  assert.equal(pool.gauges.logDropped, 1);
});

it("lines that a worker cannot write are counted", async () => {
  // Every write to this device fails, as on a disk without space.
  const full = `import fs from "node:fs"; fs.closeSync(1); fs.openSync("/dev/full", "w");`;
  const variables = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(full)}` };
  await using house = await openPool({ variables });
  const { pool } = house;
  for (let i = 0; i < 2; i++) await get(`${pool.urls.production}/v1/animals`, "no key");
  await eventually(async () => {
    await pool.ask(1_000);
    assert.ok(pool.gauges.logDropped >= 2, `${pool.gauges.logDropped} lines`);
  });
});

it("a worker that is lost is told with its end, and its successor neither counts nor makes the pool well before it serves", async () => {
  await using house = await openPool();
  assert.equal(house.pool.serving, 1);
  assert.deepEqual(house.pool.health, { ok: true });
  assert.equal(house.pool.checks.length, 1, "from the instant on at which it serves");
  let servingMost = 0;
  process.kill(house.pid(), "SIGKILL");
  await eventually(() => assert.equal(house.pool.serving, 0));
  assert.deepEqual(house.pool.health, { ok: false, why: "none serves" });
  assert.deepEqual(house.pool.checks, []);
  // Its successor begins in a later turn, and answers nothing before it serves.
  await eventually(async () => {
    assert.deepEqual(await house.pool.recall({ open: true }, 10_000), [{}]);
  });
  await eventually(() => {
    if (house.pids.length === 1) servingMost = Math.max(servingMost, house.pool.serving);
    assert.equal(house.pids.length, 2);
  });
  assert.equal(servingMost, 0);
  assert.equal(house.pool.serving, 1);
  const [{ pid: first } = {}, lost, served] = house.told;
  const { startedMs, ...next } = served ?? {};
  const why = "it ended with SIGKILL";
  const worker = Number(lost?.worker);
  assert.deepEqual(lost, {
    level: "error",
    msg: "worker_lost",
    worker,
    pid: first,
    why,
    afterMs: 0,
  });
  const serves = { level: "info", msg: "worker_serves", worker: worker + 1, pid: house.pid() };
  assert.deepEqual(next, serves);
  // No process loads the gateway within a few milliseconds.
  assert.ok(Number(startedMs) >= 20 && Number.isInteger(startedMs), `${startedMs} ms`);
  const [checks] = await eventually(async () => {
    await house.pool.ask(1_000);
    assert.equal(house.pool.checks.length, 1);
    return house.pool.checks;
  });
  assert.deepEqual([checks?.store, house.pool.restarts], [{ ok: true }, 1]);
});

it("a gateway that cannot have its admin address leaves none of its workers behind, one for each processor, and names the setting", async () => {
  const { availableParallelism } = os;
  os.availableParallelism = () => 2;
  syncBuiltinESMExports();
  onTestFinished(() => {
    os.availableParallelism = availableParallelism;
    syncBuiltinESMExports();
  });
  await using taken = createServer();
  await once(taken.listen(0, "127.0.0.1"), "listening");
  const { port } = taken.address() as AddressInfo;
  await using folder = await openFolder(redis, "http://127.0.0.1:9");
  await folder.write({ workers: "auto", telemetry: { otlp: "http://127.0.0.1:1", sample: 1 } });
  const load = () => loadConfig(folder.file, {});
  const loaded = await load();
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  const config = {
    ...loaded.config,
    admin: { token: "", hosts: [], listen: { host: "127.0.0.1", port } },
  };
  const pids: number[] = [];
  const write = (line: string) => {
    const { msg, pid } = JSON.parse(line) as Record<string, unknown>;
    if (msg === "worker_serves") pids.push(Number(pid));
  };
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const started = startGateway(config, { log: createLog({ write }, "info"), gateway: "one", load });
  await assert.rejects(started, /admin\.listen/);
  // The watch of a connection ends with its next look once the connection is closed.
  await eventually(() => {
    vi.advanceTimersByTime(300);
    assert.equal(vi.getTimerCount(), 0, "timers that repeat");
  });
  assert.equal(pids.length, 2);
  assert.deepEqual(pids.filter(isAlive), []);
  const client = await redis.client();
  await eventually(async () => {
    const left = String(await client.call("CLIENT", "LIST"))
      .trim()
      .split("\n");
    assert.equal(left.length, 1, `connections beside the test's own: ${left}`);
  });
});
