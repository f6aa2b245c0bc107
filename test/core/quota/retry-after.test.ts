import assert from "node:assert/strict";
import fc from "fast-check";
import { afterAll, test } from "vitest";
import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
} from "../../../src/core/quota/decide.ts";
import {
  type RateLimitRefusal,
  rateLimitRefusal,
  retryAfterSeconds,
} from "../../../src/core/quota/rate-limit-info.ts";
import { type Limit, mergeLimits, type WindowName } from "../../../src/core/quota/windows.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const START = Date.UTC(2026, 5, 1);
const DAY_MS = 86_400_000;

const policy = fc.record({
  strikes: fc.integer({ min: 1, max: 3 }),
  withinMs: fc.constantFrom(10_000, 60_000, DAY_MS),
  graceMs: fc.constantFrom(0, 1, 999, 1_000),
  durationMs: fc.integer({ min: 1, max: 2 * DAY_MS }),
  factor: fc.constantFrom(1, 4),
  maxMs: fc.constantFrom(60_000, DAY_MS, 7 * DAY_MS),
  forgetAfterMs: fc.constantFrom(1_000, DAY_MS),
});
const small = fc.integer({ min: 1, max: 3 });
const windows: readonly WindowName[] = ["second", "minute", "hour", "day", "month"];
const plan = fc
  .subarray([...windows], { minLength: 1 })
  .chain((names) => fc.tuple(...names.map((window) => small.map((limit) => ({ window, limit })))));
/** Milliseconds from one request to the next: bursts, seconds, and the edges of windows. */
const wait = fc.oneof(
  fc.constantFrom(0, 0, 0, 1, 999, 1_000, 1_001),
  fc.integer({ min: 0, max: 90_000 }),
  fc.integer({ min: 0, max: 2 * DAY_MS }),
);
const waits = fc.array(wait, { minLength: 1, maxLength: 40 });

function admits(account: AccountState, quotaRequest: QuotaRequest, nowMs: number) {
  return decide(account, { ...quotaRequest, requests: 1 }, nowMs).decision.granted === 1;
}

/** The seconds that a refusal tells: enough by what was counted then, and one less is too few. */
function obeyed(
  account: AccountState,
  quotaRequest: QuotaRequest,
  decision: QuotaDecision,
): number {
  const { nowMs } = decision;
  const refusal = rateLimitRefusal(decision, nowMs, quotaRequest.cost);
  assert.ok(refusal !== undefined, "a refused request has a reason");
  const seconds = retryAfterSeconds(refusal.rateLimitInfo.resetMs, nowMs);
  assert.ok(Number.isInteger(seconds) && seconds >= 1);
  assert.ok(admits(account, quotaRequest, nowMs + seconds * 1_000), "enough");
  if (seconds > 1)
    assert.ok(!admits(account, quotaRequest, nowMs + (seconds - 1) * 1_000), "not less");
  const reset = Math.ceil(refusal.rateLimitInfo.resetMs / 1_000) * 1_000;
  assert.ok(admits(account, quotaRequest, reset), "X-RateLimit-Reset is enough too");
  return seconds;
}

test("5 obeying Retry-After is enough and one second less is not, in every combination", () => {
  const kinds = new Set<string>();
  const whole = fc.property(
    plan,
    policy,
    fc.integer({ min: 0, max: DAY_MS }),
    waits,
    (...given) => {
      const [limits, bans, offsetMs, steps] = given;
      let account = NEW_ACCOUNT_STATE;
      let nowMs = START + offsetMs;
      for (const stepMs of steps) {
        nowMs += stepMs;
        const quotaRequest = { limits, bans, requests: 1 };
        const decision = decide(account, quotaRequest, nowMs);
        account = decision.account;
        if (decision.decision.granted === 1) continue;
        kinds.add(kindOf(decision.decision, nowMs));
        obeyed(account, quotaRequest, decision.decision);
      }
    },
  );
  fc.assert(whole, { numRuns: 2_000 });
  for (const kind of ["minute", "day", "ban", "minute day", "minute ban", "day ban"]) {
    assert.ok(kinds.has(kind), `${kind} never came up among ${[...kinds]}`);
  }
  assert.ok(kinds.has("minute day ban"));
});

/** Costs from 0 to the smallest limit, in batches, of two operations with windows of their own or none. */
const dear = fc.record({
  waitMs: wait,
  cost: fc.integer({ min: 0, max: 4 }),
  units: fc.integer({ min: 1, max: 5 }),
  of: fc.constantFrom("none", "short", "long"),
});
const wide = fc.subarray([...windows], { minLength: 1 }).chain((names) => {
  const limit = fc.integer({ min: 4, max: 9 });
  return fc.tuple(...names.map((window) => limit.map((most) => ({ window, limit: most }))));
});
const OWN: Readonly<Record<string, readonly Limit[]>> = {
  none: [],
  short: [{ window: "minute", limit: 4, part: { id: "1", name: "short" } }],
  long: [{ window: "day", limit: 5, part: { id: "2", name: "long" } }],
};

test("5, 9 the same with mixed costs, in batches, and with windows of operations and of observation", () => {
  const seen = { left: 0, operation: 0, batch: 0, banned: 0 };
  const whole = fc.property(
    wide,
    policy,
    fc.integer({ min: 0, max: DAY_MS }),
    fc.array(dear, { minLength: 1, maxLength: 40 }),
    (plain, bans, offsetMs, steps) => {
      const observe = [{ window: "hour", limit: 1 }] as const;
      let account = NEW_ACCOUNT_STATE;
      let nowMs = START + offsetMs;
      for (const { waitMs, cost, units, of } of steps) {
        nowMs += waitMs;
        const limits = mergeLimits(plain, { operation: OWN[of], observe });
        const quotaRequest = { limits, bans, requests: units, cost };
        const { account: next, decision } = decide(account, quotaRequest, nowMs);
        account = next;
        if (decision.granted === units) continue;
        obeyed(account, quotaRequest, decision);
        const { code, rateLimitInfo } = rateLimitRefusal(decision, nowMs, cost) as RateLimitRefusal;
        if (code === "key_banned") seen.banned += 1;
        if (rateLimitInfo.remaining > 0) seen.left += 1;
        if (rateLimitInfo.window?.includes(".")) seen.operation += 1;
        if (decision.granted > 0) seen.batch += 1;
      }
    },
  );
  fc.assert(whole, { numRuns: 2_000 });
  for (const [what, times] of Object.entries(seen)) assert.ok(times > 0, what);
});

/** The refusals in force, of the minute, the day and the ban. */
function kindOf({ windows: told, ban }: ReturnType<typeof decide>["decision"], nowMs: number) {
  const full = told.filter(({ used, limit }) => used >= limit).map(({ window }) => window);
  const reasons: string[] = full.filter((window) => window === "minute" || window === "day");
  if (ban !== undefined && ban.untilMs > nowMs) reasons.push("ban");
  return reasons.join(" ");
}

let nowMs = START;
const house = await startTestGateway({
  now: () => nowMs,
  config: { bans: { strikes: 1, grace: "0s", duration: "90s", factor: 1 } },
});
afterAll(() => house[Symbol.asyncDispose]());

test("5 the same over sockets: minute, day and ban, alone and together", async () => {
  for (const [limits, refusals] of [
    [{ minute: 1 }, 1],
    [{ day: 1 }, 1],
    [{ minute: 1, day: 1 }, 1],
    [{ minute: 1 }, 2],
    [{ day: 1 }, 2],
    [{ minute: 1, day: 1 }, 2],
  ] as const) {
    for (const offsetMs of [1, 500, 59_990, DAY_MS - 30_500]) {
      // The same story twice: to have asked too soon may itself earn a ban.
      for (const shortMs of [1_000, 0]) {
        nowMs = START + offsetMs;
        const { key } = await house.issue({ limits });
        assert.equal((await sendRequest(house.port, { key })).status, 200);
        let refused = await sendRequest(house.port, { key });
        for (let i = 1; i < refusals; i++) {
          nowMs += 1;
          refused = await sendRequest(house.port, { key });
        }
        assert.equal(errorOf(refused).code, refusals === 2 ? "key_banned" : "rate_limited");
        const seconds = Number(onlyValue(refused, "Retry-After"));
        assert.ok(
          Math.abs(rateLimitFieldsOf(refused).reset - nowMs / 1_000 - seconds) < 1,
          "one instant",
        );
        if (seconds * 1_000 === shortMs) continue;
        nowMs += seconds * 1_000 - shortMs;
        const { status } = await sendRequest(house.port, { key });
        assert.equal(
          status,
          shortMs === 0 ? 200 : 429,
          JSON.stringify({ limits, offsetMs, seconds }),
        );
      }
    }
  }
});
