import assert from "node:assert/strict";
import { afterAll, beforeAll, it } from "vitest";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { get, issueKeys } from "./kit.ts";
import { openPoolOn } from "./pool.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

it("what a killed worker has counted stays in the sums", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using house = await openPoolOn(redis);
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

it("counts of a worker come unasked before it could be killed, and the last ones before it ends", async () => {
  let requests = 0;
  await using house = await openPoolOn(redis, {
    onStatus: ({ counted }) => {
      for (const [, [more = 0]] of counted.requests ?? []) requests += more;
    },
  });
  const url = `${house.pool.urls.production}/v1/animals`;
  for (let i = 0; i < 3; i++) await get(url, "no key");
  await eventually(() => assert.equal(requests, 3), { withinMs: 10_000 });
  for (let i = 0; i < 3; i++) await get(url, "no key");
  await house.pool.stop(30_000);
  assert.equal(requests, 6);
});
