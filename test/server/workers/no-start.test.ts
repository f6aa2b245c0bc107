import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openPoolOn } from "./pool.ts";

/** More than one variable of a process may have, on Linux (E2BIG). */
const TOO_LONG = "x".repeat(4 * 1024 * 1024);

it("a lost worker that the system cannot start is told, and is replaced once it can", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  const variables: Record<string, string> = {};
  await using house = await openPoolOn(redis, { count: 2, variables });
  const { pool, pids, told } = house;
  const lost = () => told.filter(({ msg }) => msg === "worker_lost");
  variables.TOO_LONG = TOO_LONG;
  process.kill(pids[0] as number, "SIGKILL");
  await eventually(() => assert.ok(lost().length >= 3, JSON.stringify(lost())));
  const [, unstarted] = lost();
  assert.match(String(unstarted?.why), /^the system cannot start it: .*E2BIG/);
  assert.equal(pool.serving, 1);
  delete variables.TOO_LONG;
  await eventually(() => assert.equal(pids.length, 3), { withinMs: 60_000 });
  assert.equal(pool.serving, 2);
});
