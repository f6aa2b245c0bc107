import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { digestKey } from "../../src/core/keys/key.ts";
import type { QuotaRequest } from "../../src/core/quota/decide.ts";
import { openRedisKeyStore } from "../../src/stores/keys/redis/redis-key-store.ts";
import { account, open, spend } from "../stores/quotas/redis/redis-kit.ts";
import { DEFAULT_BANS } from "../support/gateway/default-bans.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import { recordedRun, restore } from "./first-release.ts";

const { server, redis } = await useRedis();
const { nowMs, keys, hashes } = await recordedRun("redis.json");

const bans = { ...DEFAULT_BANS, strikes: 2, durationMs: 3_600_000 };
const free: QuotaRequest = {
  limits: [
    { window: "minute", limit: 5 },
    { window: "day", limit: 1000 },
  ],
  bans,
  requests: 1,
};

describe("the Redis of the first release", () => {
  it("goes on with every count, strike and ban, and no account leaves it sooner", async () => {
    await restore(redis, hashes);
    const { store } = await open(server.address, { now: () => nowMs });
    try {
      const used = async (name: string) => {
        const { windows, strikes, ban } = await store.peek(account(name), free);
        return [name, ...windows.map((window) => window.used), strikes, ban?.offences ?? 0];
      };
      assert.deepEqual(await Promise.all(["ada", "ben", "eve", "acme", "zoe"].map(used)), [
        ["ada", 3, 3, 0, 0],
        ["ben", 5, 5, 1, 0],
        ["eve", 5, 5, 0, 1],
        ["acme", 9, 9, 0, 0],
        ["zoe", 2, 2, 0, 0],
      ]);
      const admitted: boolean[] = [];
      for (let i = 0; i < 4; i++) {
        admitted.push((await spend(store, account("ada"), free)).admitted);
      }
      assert.deepEqual(admitted, [true, true, false, false]);
      assert.equal((await spend(store, account("eve"), free)).decision.ban?.untilMs, 1795301477080);
      for (const [key, { type, pttl }] of Object.entries(hashes)) {
        if (type === "hash" && pttl > 0) assert.ok((await redis.pttl(key)) > pttl - 60_000, key);
      }
      const month = { limits: [{ window: "month", limit: 9 }], bans, units: 9 } as const;
      assert.equal((await store.peek(account(keys.pro.id), month)).windows[0]?.used, 4);
    } finally {
      await store.close();
    }
  });

  it("gives every key, with its plan, its limits and its end", async () => {
    await restore(redis, hashes);
    const store = await openRedisKeyStore({
      address: server.address,
      prefix: "tg",
      report: () => undefined,
      watch: false,
      now: () => nowMs,
    });
    try {
      for (const [name, { id, key }] of Object.entries(keys)) {
        assert.equal(store.find(digestKey(key))?.id, id, name);
      }
      assert.equal(store.records().keys.length, 9);
      assert.deepEqual(store.damage(), []);
      assert.ok(store.find(digestKey(keys.gone.key))?.revokedMs);
      assert.equal(store.find(digestKey(keys.rotated.key))?.replacedBy, keys.successor.id);
      assert.deepEqual(store.account("acme")?.limits, [
        { window: "minute", limit: 50 },
        { window: "day", limit: 2000 },
      ]);
    } finally {
      await store.close();
    }
  });
});
