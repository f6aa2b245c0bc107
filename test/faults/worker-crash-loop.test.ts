import assert from "node:assert/strict";
import { it } from "vitest";
import { get, issueKeys, openCrew } from "../server/workers/kit.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";

const PATH = "/v1/animals";

it("2.4 Worker crash: more than five in a minute wait longer and longer to be replaced, and the gateway is not ready; their counts are kept", async (t) => {
  const redis = await startRedis();
  t.onTestFinished(() => redis.close());
  const [key = ""] = await issueKeys(redis, 1);
  await using crew = await openCrew(redis, { workers: 3 });
  await Promise.all(Array.from({ length: 60 }, () => get(crew.url + PATH, key)));
  assert.equal(await crew.metric("tollgate_http_requests_total"), 60);
  const commands = await crew.metric("tollgate_store_commands_total");
  assert.ok(commands > 0);

  const lost = () => crew.gateway.lines().filter(({ msg }) => msg === "worker_lost");
  for (let ends = 2; ends <= 6; ends += 2) {
    assert.equal((await crew.ready()).status, 200);
    for (const pid of crew.pids().slice(0, 2)) process.kill(pid, "SIGKILL");
    await eventually(() => lost().length === ends);
    if (ends < 6) await eventually(() => crew.pids().length === 3, { withinMs: 60_000 });
  }
  assert.deepEqual(
    lost().map(({ afterMs }) => afterMs),
    [0, 0, 0, 0, 0, 1_000],
  );
  const { status, checks } = await crew.ready();
  assert.equal(status, 503);
  assert.match(checks.workers?.why ?? "", /^6 ended within a minute, the last one: .*SIGKILL/);
  assert.ok((await crew.metric("tollgate_worker_restarts_total")) >= 5);
  assert.equal((await get(crew.url + PATH, key)).status, 200, "those that live serve");
  assert.equal(await crew.metric("tollgate_http_requests_total"), 61);
  assert.ok((await crew.metric("tollgate_store_commands_total")) >= commands);
  assert.equal(await crew.metric("tollgate_http_requests_in_flight"), 0);
});
