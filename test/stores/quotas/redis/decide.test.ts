import assert from "node:assert/strict";
import fc from "fast-check";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DECIDE_SCRIPT } from "../../../../src/stores/quotas/redis/account-scripts.ts";
import { decodeDecisions, encodeDecide } from "../../../../src/stores/quotas/redis/decide-codec.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { startRedis, type TestRedis } from "../../../support/redis/redis.ts";
import { play } from "./decide-play.ts";
import { DAY, sequence } from "./decide-sequences.ts";

const SEQUENCES = Number(process.env.TOLLGATE_SEQUENCES ?? 1_000);

describe("decide.lua", () => {
  let server: TestRedis;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = await server.client();
    await redis.script("LOAD", DECIDE_SCRIPT.text);
  });
  afterAll(() => server.close());

  it(`gives the verdict of decide() in ${SEQUENCES} sequences of up to 100 commands`, async () => {
    await fc.assert(
      fc.asyncProperty(sequence, (run) => play(redis, run)),
      { numRuns: SEQUENCES },
    );
  });

  it("knows the month of each day as the calendar does, around leap years and a century without one", async () => {
    const limits = [{ window: "month", limit: 1 }] as const;
    // The second one is refused, and so the script tells when the month ends.
    const asks = [
      { key: "t:{0}:e:month", quotaRequest: { limits, bans: DEFAULT_BANS, requests: 2 } },
    ];
    const days: Date[] = [];
    for (const [from, to] of [
      [2027, 2029],
      [2099, 2101],
      [2399, 2401],
    ] as const) {
      for (let atMs = Date.UTC(from, 0); atMs < Date.UTC(to, 0); atMs += DAY) {
        days.push(new Date(atMs));
      }
    }
    const pipeline = redis.pipeline();
    for (const day of days) {
      const argv = encodeDecide(asks, day.getTime(), 7);
      pipeline
        .call("evalsha", DECIDE_SCRIPT.sha, ...argv)
        .hget("t:{0}:e:month", "M")
        .del("t:{0}:e:month");
    }
    const replies = (await pipeline.exec()) ?? [];
    for (const [i, day] of days.entries()) {
      const [error, reply] = replies[3 * i] ?? [];
      assert.ifError(error ?? null);
      const [year, month] = [day.getUTCFullYear(), day.getUTCMonth()];
      const startMs = Number(String(replies[3 * i + 1]?.[1]).split(" ")[0]);
      const resetMs = decodeDecisions(asks, reply, 7)[0]?.windows[0]?.resetMs;
      assert.deepEqual(
        [startMs, resetMs],
        [Date.UTC(year, month), Date.UTC(year, month + 1)],
        `${day}`,
      );
    }
  });
});
