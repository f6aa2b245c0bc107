import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { PromiseChecker } from "../../../src/cli/prove/judge/checker.ts";
import type { ObservedResponse, PromisedLimit } from "../../../src/cli/prove/trial/promises.ts";

const START_MS = Date.UTC(2026, 10, 21, 12);
const END_SECONDS = START_MS / 1_000 + 60;
const LIMIT: PromisedLimit = { window: "minute", limit: 3 };
const REFUSED = { status: 429, remaining: 0, retryAfterSeconds: 50 };

/** The judge of an account with 3 units a minute. */
function judge() {
  const judged = new PromiseChecker({
    limits: new Map(["a", "b"].map((account) => [account, [LIMIT]])),
    operations: new Map([["pets", { cost: 1, limits: [] }]]),
    ...{ patient: new Set<string>(), gateways: 2, isClockOurs: true, uncertainOf: () => 0 },
  });
  const take = (response: Partial<ObservedResponse> | undefined, tookMs = 5, account = "a") => {
    const sentMs = START_MS + 10_500;
    const usual = { status: 200, window: "minute", limit: 3, remaining: 2, cost: 1 };
    const times = { resetSeconds: END_SECONDS, retryAfterSeconds: Number.NaN };
    judged.take({
      ...{ origin: "", account, operation: "pets", sentMs, endedMs: sentMs + tookMs },
      response: response && { ...usual, ...times, ...response },
    });
  };
  return { judged, take };
}

describe("what a proof found", () => {
  it.for([
    [
      { limit: 4 },
      /^a, minute to 2026-11-21T12:01:00\.000Z: an answer told another X-RateLimit-Limit$/,
    ],
    [{ window: "day" }, /^a: the answer at 2026-11-21T12:00:10\.500Z names the window day$/],
    [{ cost: 2 }, / says that it costs 2, and not 1$/],
    [{ resetSeconds: END_SECONDS - 1 }, / resets at \d+, inside a minute$/],
    [{ resetSeconds: END_SECONDS - 60 }, / resets at \d+, which is not its window's end$/],
    [{ resetSeconds: Number.NaN }, / has no X-RateLimit-Reset$/],
    [{ remaining: 3 }, / has 3 remaining of 3 with 200$/],
    [{ ...REFUSED, retryAfterSeconds: 49 }, / says Retry-After: 49, and 50 to 50 is true$/],
    [{ ...REFUSED, remaining: 1 }, / has 1 remaining of 3 with 429$/],
    [{ status: 500 }, /^a was answered 500$/],
    [{ status: 503, retryAfterSeconds: 0 }, /^a was answered 503 with Retry-After 0$/],
    [{ status: 503, retryAfterSeconds: 6 }, /^a was answered 503 with Retry-After 6$/],
  ] as const)("says in words what it found: %j", ([answer, words]) => {
    const { judged, take } = judge();
    take(answer);
    const [example = ""] = judged.report([]).examples;
    assert.match(example, words);
  });

  it("is not a Retry-After that was true at any instant of its request, and is one that was not", () => {
    for (const [retryAfterSeconds, untrue] of [
      [47, 1],
      [48, 0],
      [50, 0],
      [51, 1],
    ] as const) {
      const { judged, take } = judge();
      take({ ...REFUSED, retryAfterSeconds }, 2_000);
      assert.equal(judged.report([]).untrueHeaders, untrue, `${retryAfterSeconds} s`);
    }
  });

  it("is not a 503 that was under way when an outage began, and is one that had ended", () => {
    for (const [laterMs, others] of [
      [1_999, 0],
      [2_001, 1],
    ] as const) {
      const { judged, take } = judge();
      take({ status: 503, retryAfterSeconds: 1 }, 2_000);
      const fromMs = START_MS + 10_500 + laterMs;
      const { otherAnswers } = judged.report([{ fromMs, toMs: fromMs + 100 }]);
      assert.equal(otherAnswers, others, `${laterMs} ms later`);
    }
  });

  it("is told of windows with their end: what was over, refused or told twice", () => {
    const { judged, take } = judge();
    const where = "a, minute to 2026-11-21T12:01:00.000Z";
    for (const remaining of [2, 1, 0, 0, 0]) take({ remaining });
    assert.deepEqual(judged.report([]).examples, [
      `${where}: 5 admitted, the limit is 3`,
      `${where}: X-RateLimit-Remaining 0 was told 3 times`,
    ]);
    const limited = judge();
    for (const remaining of [2, 1]) limited.take({ remaining, limit: 4 });
    const twice = `${where}: 2 answers told another X-RateLimit-Limit`;
    assert.deepEqual(limited.judged.report([]).examples, [twice]);
    const other = judge();
    for (const answer of [{}, REFUSED]) other.take(answer);
    assert.deepEqual(other.judged.report([]).examples, [`${where}: refused 1 with 1 of 3 used`]);
  });

  it("has seen enough once more than a hundred were admitted, and as many refused by a limit", () => {
    const { judged, take } = judge();
    const ban = { ...REFUSED, window: "ban" };
    for (const answer of [{}, REFUSED, ban]) {
      for (let i = 0; i < 100; i++) take(answer);
      assert.equal(judged.hasSeenEnough, false);
    }
    take({});
    assert.equal(judged.hasSeenEnough, false);
    take(REFUSED);
    assert.equal(judged.hasSeenEnough, true);
    const refusing = judge();
    for (let i = 0; i <= 100; i++) refusing.take(REFUSED);
    assert.equal(refusing.judged.hasSeenEnough, false);
    for (let i = 0; i < 100; i++) refusing.take({});
    assert.equal(refusing.judged.hasSeenEnough, false, "a hundred were admitted, and no more");
  });

  it("is nothing where two accounts have all of their limits each", () => {
    const { judged, take } = judge();
    for (const account of ["a", "b"]) {
      for (const remaining of [2, 1, 0]) take({ remaining }, 5, account);
    }
    const { windows, examples } = judged.report([]);
    assert.deepEqual([windows, examples], [2, []]);
  });

  it("has ten examples at most, and the numbers of all of it", () => {
    const { judged, take } = judge();
    for (let i = 0; i < 11; i++) take({ status: 500 }, i === 3 ? 70.4 : 5);
    take(undefined);
    take({});
    const told = judged.report([]);
    assert.equal(told.examples.length, 10);
    const { requests, otherAnswers, unanswered, admitted, windows, longestWaitMs } = told;
    assert.deepEqual([requests, otherAnswers, unanswered, admitted, windows], [13, 11, 1, 1, 1]);
    assert.equal(longestWaitMs, 70);
    assert.deepEqual([judged.admittedOf("a"), judged.unansweredOf("a")], [1, 1]);
    assert.deepEqual([judged.admittedOf("b"), judged.unansweredOf("b")], [0, 0]);
  });
});
