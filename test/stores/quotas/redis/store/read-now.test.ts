import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { freePort } from "../../../../support/redis/redis.ts";
import { useRedis } from "../../../../support/redis/redis-of-file.ts";
import { open } from "../redis-kit.ts";

const { server, redis } = await useRedis();

it("Redis is asked for its time once, however often that is read", async () => {
  const { store } = await open(server.address);
  onTestFinished(() => store.close());
  for (let i = 0; i < 3; i++) await store.readNow();
  const stats = String(await redis.info("commandstats"));
  assert.equal(/^cmdstat_time:calls=(\d+)/m.exec(stats)?.[1], "1");
});

it("the time of a Redis that is unreachable is not that of this machine", async () => {
  const url = `redis://127.0.0.1:${await freePort()}`;
  const { store } = await open({ kind: "redis", url, shown: url });
  onTestFinished(() => store.close());
  await assert.rejects(store.readNow(), { code: "unreachable" });
});
