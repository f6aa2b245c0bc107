import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openCrew } from "./kit.ts";

it("a worker that stands still is told after 5 s and replaced after 10 s, and one that goes on in between is not", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  await using crew = await openCrew(redis);
  const [first = 0] = crew.pids();
  const why = async () => (await crew.ready()).checks.workers;
  process.kill(first, "SIGSTOP");
  const told = { ok: true, why: "1 of 2 serve; worker 1 does not answer" };
  await eventually(async () => assert.deepEqual(await why(), told), { withinMs: 20_000 });
  process.kill(first, "SIGCONT");
  await eventually(async () => assert.deepEqual(await why(), { ok: true }), { withinMs: 20_000 });
  assert.ok(crew.pids().includes(first));
  process.kill(first, "SIGSTOP");
  const lost = await crew.gateway.line(({ msg }) => msg === "worker_lost");
  assert.deepEqual([lost.worker, lost.why], [1, "it did not answer for 10 s"]);
  await eventually(() => assert.equal(crew.pids().length, 2));
  assert.ok(!crew.pids().includes(first));
});
