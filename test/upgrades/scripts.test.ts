import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaRequest,
} from "../../src/core/quota/decide.ts";
import type { Limit, WindowName } from "../../src/core/quota/windows.ts";
import { DECIDE_SCRIPT } from "../../src/stores/quotas/redis/account-scripts.ts";
import { decodeDecisions, encodeDecide } from "../../src/stores/quotas/redis/decide-codec.ts";
import { defineScript } from "../../src/stores/redis/script.ts";
import { each } from "../support/each.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import { recorded } from "./first-release.ts";

const { redis } = await useRedis();

/** The script of the first release, and its arguments: no cost, no operations, no observing. */
const OLD = defineScript(
  [await recorded("lua/account.lua"), await recorded("lua/decide.lua")].join("\n"),
);
const LETTER = { second: "s", minute: "m", hour: "h", day: "d", month: "M" } as const;

const bans = {
  ...{ strikes: 2, withinMs: 60_000, graceMs: 1_000, durationMs: 30_000 },
  ...{ factor: 4, maxMs: 3_600_000, forgetAfterMs: 120_000 },
};
/** Each offence lengthens the next ban by the factor, up to the most. */
const LENGTHS = "30000 120000 480000 1920000 3600000";

function oldArguments(key: string, { limits, requests }: QuotaRequest, nowMs: number) {
  const plan = limits
    .map(({ window, limit }) => `${LETTER[window as keyof typeof LETTER]} ${limit}`)
    .join(" ");
  return [1, key, nowMs, "2 60000 1000 120000", LENGTHS, 1, plan, requests * 256];
}

const limits = fc
  .uniqueArray(fc.constantFrom<WindowName>("second", "minute", "hour", "day", "month"), {
    minLength: 1,
    maxLength: 3,
  })
  .chain((windows) =>
    fc.tuple(
      ...windows.map((window) =>
        fc.record({ window: fc.constant(window), limit: fc.integer({ min: 1, max: 12 }) }),
      ),
    ),
  );
const step = fc.record({
  by: fc.constantFrom("old", "new"),
  units: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.integer({ min: 0, max: 9 })),
  afterMs: fc.oneof(
    fc.integer({ min: 0, max: 3_000 }),
    fc.constantFrom(1_000, 1_001, 40_000, 3_600_000),
  ),
});

let number = 0;

describe("gateways of the first release and of today on one Redis", () => {
  it("decide every account as one: whoever asks goes on with what the other wrote", async () => {
    await Promise.all([redis.script("LOAD", OLD.text), redis.script("LOAD", DECIDE_SCRIPT.text)]);
    const history = fc.record({ limits, steps: fc.array(step, { minLength: 20, maxLength: 60 }) });
    await fc.assert(
      fc.asyncProperty(history, async (run) => {
        const key = `tg:{0}:production:a${number++}`;
        let nowMs = Date.UTC(2026, 10, 30, 23, 59, 30);
        let account: AccountState = NEW_ACCOUNT_STATE;
        const replies: Promise<unknown>[] = [];
        const expected: {
          quotaRequest: QuotaRequest;
          nowMs: number;
          by: string;
          decision: ReturnType<typeof decide>["decision"];
        }[] = [];
        for (const { by, units, afterMs } of run.steps) {
          nowMs += afterMs;
          const quotaRequest: QuotaRequest = {
            limits: run.limits as readonly Limit[],
            bans,
            requests: units,
          };
          const decision = decide(account, quotaRequest, nowMs);
          if (units > 0) account = decision.account;
          expected.push({ quotaRequest, nowMs, by, decision: decision.decision });
          const args =
            by === "old"
              ? [OLD.sha, ...oldArguments(key, quotaRequest, nowMs)]
              : [DECIDE_SCRIPT.sha, ...encodeDecide([{ key, quotaRequest }], nowMs, 7)];
          replies.push(redis.call("evalsha", ...args));
        }
        for (const [i, reply] of each((await Promise.all(replies)).entries())) {
          const { quotaRequest, by, decision } = expected[i] as (typeof expected)[number];
          if (by === "new")
            assert.deepEqual(decodeDecisions([{ key, quotaRequest }], reply, 7), [decision]);
          const from = by === "new" ? 2 : 1;
          const told = (reply as number[]).slice(from, from + 1 + quotaRequest.limits.length);
          assert.deepEqual(told, [decision.granted, ...decision.windows.map(({ used }) => used)]);
        }
      }),
      { numRuns: 150 },
    );
  });
});
