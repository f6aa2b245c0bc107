import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { type Crew, get, issueKeys, openCrew } from "./kit.ts";
import { openPoolOn } from "./pool.ts";

let redis: TestRedis;
let key: string;
beforeAll(async () => {
  redis = await startRedis();
  [key = ""] = await issueKeys(redis, 1);
});
afterAll(() => redis.close());

/** Resolves once the log has told of the loss of one of two processes, and of another that serves. */
async function replacementOf(pid: number, { pids }: Crew): Promise<void> {
  await eventually(() => assert.ok(pids().length === 2 && !pids().includes(pid)));
}

/** A worker that got a SIGUSR2 refuses each configuration. */
const REFUSES = `process.on("SIGUSR2", () => {
  const { emit } = process;
  process.emit = function (name, message) {
    if (message?.reload === undefined) return emit.apply(this, arguments);
    return process.send({ reloaded: { ok: false, reasons: ["no room"] }, id: message.id });
  };
  process.stdout.write("it will refuse\\n");
});`;

describe.concurrent("requests under way", () => {
  it("have the drain of the configuration that was put in force last, also where it is longer", async () => {
    let answer = () => {};
    await using crew = await openCrew(redis, { workers: 1, drain: "100ms" }, (_seen, response) => {
      answer = () => void response.end("late");
    });
    await crew.rewrite({ workers: 1, drain: "60s" });
    assert.equal((await crew.reload()).status, 200);
    await crew.rewrite({ workers: 2, drain: "100ms" });
    assert.equal((await crew.reload()).body.code, "reload_refused", "it never was in force");
    const asked = get(`${crew.url}/v1/animals`, key);
    await eventually(() => assert.equal(crew.backend.seen.length, 1));
    process.kill(crew.gateway.pid, "SIGTERM");
    // With the drain of the start it would be killed 2.1 s after the signal.
    const { time } = await crew.gateway.line(({ msg }) => msg === "draining");
    await eventually(() => Date.now() > Number(time) + 2_500);
    answer();
    assert.equal((await asked).status, 200);
    assert.equal((await crew.gateway.exited).code, 0);
  });

  it.each([
    ["of the start", "60s"],
    ["of a reload", "100ms"],
  ])(
    "have the drain %s that their process has, where it refused a shorter one",
    async (_, drain) => {
      const answers: (() => void)[] = [];
      await using backend = await startTestUpstream((_seen, response) => {
        answers.push(() => void response.end("late"));
      });
      const variables = {
        NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(REFUSES)}`,
      };
      const listen = `127.0.0.1:${await freePort()}`;
      const opened = { count: 2, drain, listen, upstream: backend.origin, variables };
      await using house = await openPoolOn(redis, opened);
      const { pool, pids, lines, config } = house;
      const reload = (drainMs: number) => {
        const environments = config.environments.map((one) => {
          return { ...one, limits: { ...one.limits, drainDelayMs: 0, drainMs } };
        });
        return pool.reload({ ...config, environments });
      };
      if (drain !== "60s") assert.deepEqual(await reload(60_000), { applied: true, reasons: [] });
      process.kill(pids[1] as number, "SIGUSR2");
      await eventually(() => assert.match(lines.join(""), /it will refuse/));
      const asked = Array.from({ length: 40 }, () =>
        get(`${pool.urls.production}/v1/animals`, key),
      );
      await eventually(() => assert.equal(answers.length, asked.length));
      const { applied, reasons } = await reload(100);
      assert.deepEqual([applied, reasons.length], [true, 1]);
      // With the drain of 100 ms it would be killed 2.6 s after it was told.
      await sleep(3_000);
      for (const answer of answers) answer();
      const statuses = (await Promise.all(asked)).map(({ status }) => status);
      assert.deepEqual([...new Set(statuses)], [200]);
    },
  );

  it("are cut by a second signal in a process too that was replaced and does not answer", async () => {
    await using crew = await openCrew(redis, { drain: "10m" });
    const [stuck = 0] = crew.pids();
    process.kill(stuck, "SIGSTOP");
    assert.equal((await crew.reload()).status, 500);
    await replacementOf(stuck, crew);
    assert.ok(isAlive(stuck));
    process.kill(crew.gateway.pid, "SIGTERM");
    await crew.gateway.line(({ msg }) => msg === "draining");
    process.kill(crew.gateway.pid, "SIGINT");
    await crew.gateway.exited;
    // The system may take a moment for what was killed last.
    await eventually(() => assert.ok(!isAlive(stuck)));
  });

  it("of a process that is killed while it drains are told by its loss, which no other takes the place of", async () => {
    await using crew = await openCrew(redis, { drain: "10m" }, () => {});
    const asked = Array.from({ length: 8 }, () => get(`${crew.url}/v1/animals`, key));
    await eventually(() => assert.equal(crew.backend.seen.length, asked.length));
    const workers = crew.pids();
    process.kill(crew.gateway.pid, "SIGTERM");
    await crew.gateway.line(({ msg }) => msg === "draining");
    for (const pid of workers) process.kill(pid, "SIGKILL");
    await Promise.all(asked);
    assert.equal((await crew.gateway.exited).code, 0);
    const lines = crew.gateway.lines();
    assert.equal(lines.at(-1)?.msg, "stopped");
    const lost = lines.filter(({ msg }) => msg === "worker_lost");
    const told = (pid: number) => lost.filter((line) => line.pid === pid);
    for (const pid of workers) {
      const [{ why, afterMs } = {}, ...more] = told(pid);
      assert.deepEqual([why, afterMs, more], ["it ended with SIGKILL", undefined, []]);
    }
  });

  it("of a process that was replaced and is killed while it drains are told by a loss of their own", async () => {
    await using house = await openPoolOn(redis, { drain: "10m" });
    const { pool, pids, config } = house;
    const [replaced = 0] = pids;
    process.kill(replaced, "SIGSTOP");
    await pool.reload(config);
    await eventually(() => assert.equal(pids.length, 2));
    process.kill(replaced, "SIGKILL");
    const whys = () => {
      const lost = house.told.filter(({ msg, pid }) => msg === "worker_lost" && pid === replaced);
      return lost.map(({ why }) => why);
    };
    const both = ["it did not take the new configuration", "it ended with SIGKILL"];
    await eventually(() => assert.deepEqual(whys(), both));
    await pool.stop(60_000);
    const lost = house.told.filter(({ msg }) => msg === "worker_lost");
    assert.equal(lost.length, 2, "the other one ended by itself");
  });

  it("of a process that is stuck end with the drain, and the process with them", async () => {
    await using crew = await openCrew(redis, { drain: "100ms" });
    const [stuck = 0] = crew.pids();
    process.kill(stuck, "SIGSTOP");
    assert.equal((await crew.gateway.stop()).code, 0);
    await eventually(() => assert.ok(!isAlive(stuck)));
  });

  it("are cut at once where the process that watches is killed while they drain", async () => {
    await using crew = await openCrew(redis, { drain: "10m" }, () => {});
    const pids = crew.pids();
    const asked = get(`${crew.url}/v1/animals`, key);
    await eventually(() => assert.equal(crew.backend.seen.length, 1));
    process.kill(crew.gateway.pid, "SIGTERM");
    await crew.gateway.line(({ msg }) => msg === "draining");
    await eventually(async () => (await crew.ready()).checks.draining?.ok === false);
    await crew.gateway.kill();
    assert.equal((await asked).status, 0);
    await eventually(() => assert.ok(!pids.some(isAlive)));
  });

  it.each([1, 2])(
    "of a process that has failed are cut after 5 s with a line, however long the drain is, of %i",
    async (workers) => {
      const fault = `process.on("SIGUSR2", () => { throw new Error("induced"); });`;
      const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(fault)}` };
      await using crew = await openCrew(redis, { workers, drain: "10m" }, () => {}, { env });
      const asked = Array.from({ length: 8 }, () => get(`${crew.url}/v1/animals`, key));
      await eventually(() => assert.equal(crew.backend.seen.length, asked.length));
      const failed = workers === 1 ? [crew.gateway.pid] : crew.pids();
      const startMs = performance.now();
      for (const pid of failed) process.kill(pid, "SIGUSR2");
      const outcomes = await Promise.all(asked);
      assert.deepEqual([...new Set(outcomes.map(({ status }) => status))], [0]);
      const tookMs = Math.max(...outcomes.map(({ endedMs }) => endedMs)) - startMs;
      assert.ok(tookMs > 4_900 && tookMs < 25_000, `${tookMs} ms`);
      await eventually(() => assert.ok(!failed.some(isAlive)));
      const lines = () => crew.gateway.lines().filter(({ msg }) => msg === "request");
      await eventually(() => assert.equal(lines().length, asked.length));
      assert.deepEqual(
        lines().map(({ status, charged }) => [status, charged]),
        asked.map(() => [499, 1]),
      );
      if (workers === 1) assert.equal((await crew.gateway.exited).code, 1);
      else await eventually(() => assert.equal(crew.pids().length, workers));
      const failures = crew.gateway.lines().filter(({ msg }) => msg === "unexpected_failure");
      assert.deepEqual(
        failures.map(({ level, why, stack }) => [level, why, /^Error: induced\n/.test(`${stack}`)]),
        failed.map(() => ["error", "induced", true]),
      );
      const lost = crew.gateway.lines().filter(({ msg }) => msg === "worker_lost");
      assert.deepEqual(
        lost.map(({ why }) => why),
        workers === 1 ? [] : ["it failed: induced", "it failed: induced"],
      );
    },
  );
});
