import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { askTimed, dayUsed, isReady, openRedisHouse, readyWithin } from "./redis-house.ts";

describe("2.1 AOF/RDB restart: Redis that is killed and restarted", () => {
  it("with AOF (everysec) keeps all but the last second of charges", async () => {
    const server = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "everysec"] });
    try {
      await using house = await openRedisHouse(server);
      const { key, account } = await house.issue();
      for (let i = 0; i < 20; i++) await askTimed(house, key);
      await sleep(1_500);
      await server.kill();
      await eventually(async () => (await isReady(house)).status === 503);
      await server.restart();
      await readyWithin(house, 3_000);
      assert.equal(await dayUsed(house, account), 20);
      assert.equal((await askTimed(house, key)).remaining, 39);
      await house.law();
    } finally {
      await server.close();
    }
  });

  it("without persistence starts at what was admitted meanwhile, and at 0 otherwise", async () => {
    const server = await startRedis();
    try {
      await using house = await openRedisHouse(server);
      const [busy, idle] = [await house.issue(), await house.issue()];
      for (let i = 0; i < 20; i++) await askTimed(house, busy.key);
      await askTimed(house, idle.key);
      await server.kill();
      await eventually(async () => (await isReady(house)).status === 503);
      for (let i = 0; i < 5; i++) {
        assert.equal((await askTimed(house, busy.key)).remaining, 39 - i, "of what was left");
      }
      await server.restart();
      await readyWithin(house, 3_000);
      await eventually(async () => assert.equal(await dayUsed(house, busy.account), 5));
      assert.equal((await askTimed(house, busy.key)).remaining, 54);
      assert.equal(await dayUsed(house, idle.account), 0);
    } finally {
      await server.close();
    }
  });
});
