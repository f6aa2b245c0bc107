import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
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

  it("tells what it lost also of an account that has late charges, and nothing where it kept all", async () => {
    const server = await startRedis();
    const admin = await server.client();
    try {
      await using house = await openRedisHouse(server);
      const { key, account } = await house.issue();
      const lost = () => house.said.filter(({ msg }) => msg === "counter_regression");
      const chargeFiveLate = async () => {
        await eventually(async () => assert.equal((await isReady(house)).status, 503));
        for (let i = 0; i < 5; i++) await askTimed(house, key);
        await server.restart();
        await readyWithin(house, 3_000);
      };
      for (let i = 0; i < 20; i++) await askTimed(house, key);
      await admin.save();
      await server.kill();
      await chargeFiveLate();
      await eventually(async () => assert.equal(await dayUsed(house, account), 25));
      await sleep(TOLD_MS);
      assert.deepEqual(lost(), []);
      await server.kill();
      await rm(join(server.dir, "dump.rdb"));
      await chargeFiveLate();
      await eventually(() =>
        assert.deepEqual(
          lost().map(({ level, account, window, used, was }) => [
            level,
            account,
            window,
            used,
            was,
          ]),
          [["error", account, "day", 0, 25]],
        ),
      );
    } finally {
      await server.close();
    }
  });
});

/** A loss is told within this, once the store has said that it is no reset. */
const TOLD_MS = 1_000;
