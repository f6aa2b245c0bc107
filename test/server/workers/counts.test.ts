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

/** A process that waits for ever for the delay before its drain, of no time. */
const HANGS = `import timers from "node:timers/promises";
import { syncBuiltinESMExports } from "node:module";
const { setTimeout } = timers;
timers.setTimeout = (ms, ...rest) => {
  if (ms !== 0) return setTimeout(ms, ...rest);
  process.stdout.write("it hangs\\n");
  return new Promise(() => setInterval(() => {}, 60_000));
};
syncBuiltinESMExports();`;

it("counts of a worker come unasked each half-second, and the last ones before it ends, also if its end hangs", async () => {
  let requests = 0;
  const toldMs: number[] = [];
  await using house = await openPoolOn(redis, {
    drain: "100ms",
    variables: { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(HANGS)}` },
    onStatus: ({ counted }) => {
      toldMs.push(performance.now());
      for (const [, [more = 0]] of counted.requests ?? []) requests += more;
    },
  });
  const url = `${house.pool.urls.production}/v1/animals`;
  for (let i = 0; i < 3; i++) await get(url, "no key");
  await eventually(() => assert.equal(requests, 3), { withinMs: 10_000 });
  await eventually(() => {
    const gapsMs = toldMs.slice(1).map((ms, i) => ms - (toldMs[i] ?? 0));
    assert.ok(Math.min(...gapsMs) < 1_500, `${gapsMs} ms`);
  });
  for (let i = 0; i < 3; i++) await get(url, "no key");
  await house.pool.stop(5_000);
  assert.equal(requests, 6);
  assert.match(house.lines.join(""), /it hangs/);
  assert.ok(!house.told.some(({ msg }) => msg === "worker_lost"), "it ended by itself");
});
