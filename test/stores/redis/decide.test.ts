import fc from "fast-check";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DECIDE } from "../../../src/stores/redis/decide-call.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { play } from "./decide-play.ts";
import { sequence } from "./decide-sequences.ts";

const SEQUENCES = Number(process.env.TOLLGATE_SEQUENCES ?? 1_000);

describe("decide.lua", () => {
  let server: TestRedis;
  let redis: Redis;
  beforeAll(async () => {
    server = await startRedis();
    redis = await server.client();
    await redis.script("LOAD", DECIDE.text);
  });
  afterAll(() => server.close());

  it(`gives the verdict of decide() in ${SEQUENCES} sequences of up to 100 commands`, async () => {
    await fc.assert(
      fc.asyncProperty(sequence, (run) => play(redis, run)),
      { numRuns: SEQUENCES },
    );
  });
});
