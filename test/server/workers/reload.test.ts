import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { nextTurn } from "../../../src/base/event-loop.ts";
import type { Rollout } from "../../../src/server/process/config-reloader.ts";
import { freshMetrics } from "../../admin/scrape.ts";
import { runTollgate } from "../../support/gateway/processes.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { type Crew, get, issueKeys, openCrew, startLoad } from "./kit.ts";
import { ENDS_AT_RELOAD, openPoolOn, TELLS_EACH_QUESTION } from "./pool.ts";

const PATH = "/v1/animals";
let redis: TestRedis;
let keys: string[];
beforeAll(async () => {
  redis = await startRedis();
  keys = await issueKeys(redis, 2);
});
afterAll(() => redis.close());

/**
 * Every connection is told this limit, whoever takes it. Tried again: where Redis gets no processor
 * for 50 ms, a limit is for that moment the share of one process
 * (docs/reference/store.md#shares).
 */
async function allTold(limit: number, { url }: Crew, key: string): Promise<void> {
  await eventually(async () => {
    const all = await Promise.all(Array.from({ length: 40 }, () => get(url + PATH, key)));
    assert.deepEqual([...new Set(all.map((outcome) => outcome.limit))], [limit]);
  });
}

describe("a reload of several processes", () => {
  it("reaches all of them or none, and no request fails", async () => {
    const [key = "", other = ""] = keys;
    await using crew = await openCrew(redis, { limit: 100_000 });
    const load = startLoad(crew.url + PATH, other, 8);

    await crew.rewrite({ limit: 200_000 });
    const good = await crew.reload();
    assert.equal(good.status, 200, JSON.stringify(good.body));
    await allTold(200_000, crew, key);

    const text = await readFile(crew.file, "utf8");
    await crew.rewrite(text.replace("month: 200000", "month: no"));
    const bad = await crew.reload();
    assert.equal(bad.body.code, "config_invalid");
    await allTold(200_000, crew, key);

    await crew.rewrite({ limit: 300_000, workers: 3 });
    const refused = await crew.reload();
    assert.equal(refused.body.code, "reload_refused");
    assert.match(String(refused.body.message), /Cannot change workers from 2 to 3/);
    await allTold(200_000, crew, key);
    assert.match(
      (await crew.ready()).checks.config?.why ?? "",
      /^not reloaded: it needs a restart/,
    );

    const outcomes = await load.end();
    assert.deepEqual([...new Set(outcomes.map(({ status }) => status))], [200]);
    const told = crew.gateway.lines().filter(({ kind, msg }) => /^config_/.test(`${kind ?? msg}`));
    assert.ok(told.length >= 3);
    for (const { worker } of told) assert.equal(worker, undefined, "one process tells it");
  });

  it.each([
    [
      "an environment that goes away",
      "production:",
      "renamed:",
      /^There is no environment production/,
    ],
    ["another keyTag", "keyTag: live", "keyTag: other", /keyTag/],
  ])("warns once of %s although keys of before work", async (_, was, is, why) => {
    await using crew = await openCrew(redis, { listen: `127.0.0.1:${await freePort()}` });
    const text = await readFile(crew.file, "utf8");
    await crew.rewrite(text.replace(was, is));
    const taken = await crew.reload();
    assert.equal(taken.status, 200, JSON.stringify(taken.body));
    await eventually(() => {
      assert.ok(
        crew.gateway.lines().some(({ kind, msg }) => `${kind ?? msg}` === "config_reloaded"),
      );
    });
    await setTimeout(300);
    const warned = crew.gateway.lines().filter(({ msg }) => msg === "config_warning");
    assert.equal(warned.length, 1, JSON.stringify(warned));
    assert.match(String(warned[0]?.why), why);
  });

  it("holds for one that is started later, whatever is in the file by then", async () => {
    const [key = ""] = keys;
    await using crew = await openCrew(redis, { workers: 3, limit: 100_000 });
    await crew.rewrite({ workers: 3, limit: 200_000 });
    assert.equal((await crew.reload()).status, 200);
    await crew.rewrite("plans: broken");
    const dead = crew.pids().slice(0, 2);
    for (const pid of dead) process.kill(pid, "SIGKILL");
    await eventually(() => {
      const alive = crew.pids();
      assert.ok(alive.length === 3 && !alive.some((pid) => dead.includes(pid)));
    });
    await allTold(200_000, crew, key);
  });

  it("replaces each that does not take it, before or after one that does, and says so", async () => {
    const [key = ""] = keys;
    await using crew = await openCrew(redis, { workers: 3, limit: 100_000, drain: "100ms" });
    const told = (name: string) => crew.gateway.lines().filter(({ msg }) => msg === name);
    // They get it in the order of their numbers.
    const stuck = [1, 3].map((number) => {
      return told("worker_serves").find(({ worker }) => worker === number)?.pid as number;
    });
    for (const pid of stuck) process.kill(pid, "SIGSTOP");
    const { status, body } = await crew.reload();
    assert.equal(status, 500);
    const late = [1, 3].map((number) => `worker ${number}: it did not answer in time`);
    const incomplete = "not in force everywhere yet: ";
    assert.equal(String(body.message).split(incomplete)[1], late.join("; "));
    await eventually(() => {
      assert.deepEqual(
        told("config_incomplete").map(({ why }) => why),
        late,
      );
    });
    for (const pid of stuck) {
      const why = told("worker_lost").find((line) => line.pid === pid)?.why;
      assert.equal(why, "it did not take the new configuration");
    }
    const { hash } = await crew.gateway.line(({ kind }) => kind === "config_reloaded");
    assert.match(String(hash), /^[0-9a-f]{64}$/, "the event says that it is in force");
    await eventually(() => {
      assert.ok(crew.pids().length === 3 && !crew.pids().some((pid) => stuck.includes(pid)));
    });
    const order = crew.gateway.lines().map(({ msg }) => msg);
    const serves = order.lastIndexOf("worker_serves");
    assert.ok(order.indexOf("config_incomplete") < serves, "the next one did not serve yet");
    await allTold(100_000, crew, key);
    await eventually(() => assert.ok(!stuck.some(isAlive), "their drain is over"));
    assert.equal((await crew.reload()).status, 200);
    const samples = await freshMetrics(crew.adminUrl);
    const reloads = (result: string) =>
      samples.get(`tollgate_config_reloads_total{result="${result}"}`);
    assert.equal(reloads("incomplete"), 1, "it was not in force everywhere");
    assert.equal(reloads("failure"), 0, "the old one is in force nowhere");
    assert.equal(reloads("success"), 1);
  });

  it("is told by the command as the gateway tells it, also where none of three answers in five seconds", async () => {
    await using crew = await openCrew(redis, { workers: 3 });
    for (const pid of crew.pids()) process.kill(pid, "SIGSTOP");
    const asked = ["reload", "--config", crew.file, "--admin", crew.adminUrl];
    const { code, stderr } = await runTollgate(asked);
    const late = Array(3).fill("worker \\d+: it did not answer in time").join("; ");
    assert.match(stderr, new RegExp(`^The old configuration stays in force: ${late}\n$`));
    assert.equal(code, 1);
  });

  it("is refused within the time of one where none of them answers, and their successors have the configuration of before", async () => {
    await using house = await openPoolOn(redis, { count: 3 });
    const { pool, pids, lines, config } = house;
    for (const pid of pids) process.kill(pid, "SIGSTOP");
    const silent = { ...config, log: { ...config.log, level: "silent" as const } };
    const startMs = performance.now();
    const { applied, reasons } = await pool.reload(silent);
    // One has 5 s, so that one after the other they would take 15 s.
    assert.ok(performance.now() - startMs < 10_000);
    assert.equal(applied, false);
    assert.equal(reasons.length, 3);
    for (const reason of reasons) assert.match(reason, /^worker \d+: it did not answer in time$/);
    await eventually(() => assert.equal(pids.length, 6));
    await get(`${pool.urls.production}/v1/animals`, "no key");
    await eventually(() => assert.match(lines.join(""), /"msg":"request"/));
  });

  it("asks the one that judges nothing before, because a slow one would take twice as long", async () => {
    await using house = await openPoolOn(redis, { count: 2, variables: TELLS_EACH_QUESTION });
    const { pool, lines, config } = house;
    const heard = () =>
      lines
        .join("")
        .match(/^(report|reload) heard$/gm)
        ?.toSorted();
    assert.equal((await pool.reload(config)).applied, true);
    await eventually(() =>
      assert.deepEqual(heard(), ["reload heard", "reload heard", "report heard"]),
    );
  });

  it("replaces none of them where the process that asks stood still, or the whole machine", async () => {
    await using house = await openPoolOn(redis, { count: 2 });
    const { pool, pids, config, told } = house;
    // Those that answer within the stall, and those that go on only when it is over.
    for (const contAfterS of [1, 6]) {
      for (const pid of pids) process.kill(pid, "SIGSTOP");
      const reloading = pool.reload(config);
      await nextTurn();
      const cont = spawn("sh", ["-c", `sleep ${contAfterS}; kill -CONT ${pids.join(" ")}`]);
      const ended = once(cont, "exit");
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_500);
      assert.deepEqual(await reloading, { applied: true, reasons: [] });
      await ended;
    }
    assert.deepEqual(
      told.filter(({ msg }) => msg === "worker_lost"),
      [],
    );
  });

  it("is refused in words where the only worker ends at it, and where none runs", async () => {
    let meanwhile: Promise<Rollout> | undefined;
    await using house = await openPoolOn(redis, {
      variables: ENDS_AT_RELOAD,
      heard: ({ msg }) => {
        if (msg === "worker_lost") meanwhile = house.pool.reload(house.config);
      },
    });
    process.kill(house.pid(), "SIGUSR2");
    await eventually(() => assert.match(house.lines.join(""), /it will end/));
    const { applied, reasons } = await house.pool.reload(house.config);
    assert.equal(applied, false);
    assert.match(reasons.join(), /^worker \d+: it ended while it applied the configuration$/);
    const why = "no worker runs that could apply it; reload again when one serves";
    assert.deepEqual(await meanwhile, { applied: false, reasons: [why] });
  });
});
