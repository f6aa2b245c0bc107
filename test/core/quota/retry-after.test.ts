import assert from "node:assert/strict";
import fc from "fast-check";
import { afterAll, test } from "vitest";
import {
  type Account,
  type BanPolicy,
  decide,
  NEW_ACCOUNT,
} from "../../../src/core/quota/decide.ts";
import { refusalAt, retryAfterSeconds } from "../../../src/core/quota/standing.ts";
import type { Limit, WindowName } from "../../../src/core/quota/windows.ts";
import { openHouse } from "../../support/gateway/house.ts";
import { ask, errorOf, rateOf } from "../../support/wire/client.ts";
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
const waits = fc.array(
  fc.oneof(
    fc.constantFrom(0, 0, 0, 1, 999, 1_000, 1_001),
    fc.integer({ min: 0, max: 90_000 }),
    fc.integer({ min: 0, max: 2 * DAY_MS }),
  ),
  { minLength: 1, maxLength: 40 },
);

function admits(account: Account, limits: readonly Limit[], bans: BanPolicy, nowMs: number) {
  return decide(account, { limits, bans, units: 1 }, nowMs).verdict.granted === 1;
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
      let account = NEW_ACCOUNT;
      let nowMs = START + offsetMs;
      for (const stepMs of steps) {
        nowMs += stepMs;
        const decision = decide(account, { limits, bans, units: 1 }, nowMs);
        account = decision.account;
        if (decision.verdict.granted === 1) continue;
        const refusal = refusalAt(decision.verdict, nowMs);
        assert.ok(refusal !== undefined, "a refused request has a reason");
        const seconds = retryAfterSeconds(refusal.standing.resetMs, nowMs);
        kinds.add(kindOf(decision.verdict, nowMs));
        assert.ok(Number.isInteger(seconds) && seconds >= 1);
        assert.ok(admits(account, limits, bans, nowMs + seconds * 1_000), "enough");
        if (seconds > 1) {
          assert.ok(!admits(account, limits, bans, nowMs + (seconds - 1) * 1_000), "not less");
        }
        const reset = Math.ceil(refusal.standing.resetMs / 1_000) * 1_000;
        assert.ok(admits(account, limits, bans, reset), "X-RateLimit-Reset is enough too");
      }
    },
  );
  fc.assert(whole, { numRuns: 2_000 });
  for (const kind of ["minute", "day", "ban", "minute day", "minute ban", "day ban"]) {
    assert.ok(kinds.has(kind), `${kind} never came up among ${[...kinds]}`);
  }
  assert.ok(kinds.has("minute day ban"));
});

/** The refusals in force, of the minute, the day and the ban. */
function kindOf({ windows: told, ban }: ReturnType<typeof decide>["verdict"], nowMs: number) {
  const full = told.filter(({ used, limit }) => used >= limit).map(({ window }) => window);
  const reasons: string[] = full.filter((window) => window === "minute" || window === "day");
  if (ban !== undefined && ban.untilMs > nowMs) reasons.push("ban");
  return reasons.join(" ");
}

let nowMs = START;
const house = await openHouse({
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
        assert.equal((await ask(house.port, { key })).status, 200);
        let refused = await ask(house.port, { key });
        for (let i = 1; i < refusals; i++) {
          nowMs += 1;
          refused = await ask(house.port, { key });
        }
        assert.equal(errorOf(refused).code, refusals === 2 ? "key_banned" : "rate_limited");
        const seconds = Number(onlyValue(refused, "Retry-After"));
        assert.ok(Math.abs(rateOf(refused).reset - nowMs / 1_000 - seconds) < 1, "one instant");
        if (seconds * 1_000 === shortMs) continue;
        nowMs += seconds * 1_000 - shortMs;
        const { status } = await ask(house.port, { key });
        assert.equal(
          status,
          shortMs === 0 ? 200 : 429,
          JSON.stringify({ limits, offsetMs, seconds }),
        );
      }
    }
  }
});
