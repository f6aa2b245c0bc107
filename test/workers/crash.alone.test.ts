import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis.ts";
import { issueKeys, openCrew, startLoad } from "./kit.ts";

it("one of three processes that is killed under load is replaced while the others serve", async (t) => {
  const redis = await startRedis();
  t.after(() => redis.close());
  const [key = ""] = await issueKeys(redis, 1);
  await using crew = await openCrew(redis, { workers: 3 });
  const load = startLoad(`${crew.url}/v1/animals`, key, 16);
  await eventually(() => load.outcomes.length > 200);
  const [victim] = crew.pids();
  const killedMs = performance.now();
  process.kill(victim as number, "SIGKILL");
  await eventually(() => {
    assert.equal(crew.pids().length, 3);
    assert.ok(!crew.pids().includes(victim as number));
  });
  const replacedMs = performance.now() - killedMs;
  const soFar = load.outcomes.length;
  await eventually(() => load.outcomes.length > soFar + 200);
  const outcomes = await load.end();
  const failed = outcomes.filter(({ status }) => status !== 200);
  assert.ok(failed.length <= 16, `${failed.length} failed: at most one for each connection`);
  for (const { code, endedMs } of failed) {
    assert.ok(["ECONNRESET", "CUT", "EPIPE"].includes(String(code)), `it failed with ${code}`);
    assert.ok(endedMs - killedMs < 1_000, "none fails later");
  }
  t.diagnostic(`replaced in ${replacedMs.toFixed()} ms; ${failed.length} requests were in flight`);
  assert.ok(replacedMs < 3_000, `replaced in ${replacedMs} ms`);
  assert.equal(await crew.metric("tollgate_worker_restarts_total"), 1);
});
