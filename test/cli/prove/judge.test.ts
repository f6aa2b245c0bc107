import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type ObservedResponse, PromiseChecker } from "../../../src/cli/prove/checker.ts";

const START_MS = Date.UTC(2026, 10, 21, 12);
const END_SECONDS = START_MS / 1_000 + 60;
const PROMISED = new Map([["a", { window: "minute", limit: 3 }]] as const);

function judge(gateways = 2) {
  const judged = new PromiseChecker(PROMISED, gateways, true);
  let n = 0;
  const take = (answer: Partial<ObservedResponse> | undefined) => {
    const sentMs = START_MS + 10_500 + 10 * n++;
    const usual = { window: "minute", limit: 3, resetSeconds: END_SECONDS };
    judged.take({
      ...{ account: "a", sentMs, endedMs: sentMs + 5 },
      answer:
        answer === undefined
          ? undefined
          : { ...usual, status: 200, remaining: 3 - n, retryAfterSeconds: Number.NaN, ...answer },
    });
  };
  return { judged, take };
}
const REFUSED = { status: 429, remaining: 0, retryAfterSeconds: 50 };

describe("the judge of a proof", () => {
  it("finds nothing where the limit is admitted, then refused with the true fields", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, {}, REFUSED]) take(answer);
    const { examples, ...told } = judged.judged([]);
    assert.deepEqual(examples, []);
    assert.deepEqual(
      [told.admitted, told.refused, told.overLimit, told.falseRefusals, told.untrueHeaders],
      [3, 1, 0, 0, 0],
    );
  });

  it("finds one admitted over the limit, and that its Remaining cannot be true", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, {}, { remaining: 0 }]) take(answer);
    const told = judged.judged([]);
    assert.deepEqual([told.overLimit, told.untrueHeaders], [1, 1]);
  });

  it("finds a refusal while there was room, and not where one was never answered", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, REFUSED]) take(answer);
    assert.equal(judged.judged([]).falseRefusals, 1);
    take(undefined);
    assert.equal(judged.judged([]).falseRefusals, 0);
    assert.equal(judged.unansweredOf("a"), 1);
  });

  it.for([
    ["another limit", { limit: 4 }],
    ["another window", { window: "hour" }],
    ["a reset inside the window", { resetSeconds: END_SECONDS - 1 }],
    ["the window before", { resetSeconds: END_SECONDS - 60 }],
    ["no reset", { resetSeconds: Number.NaN }],
    ["as much remaining as the limit", { remaining: 3 }],
    ["a Retry-After a second short", { ...REFUSED, retryAfterSeconds: 49 }],
    ["a Retry-After a second long", { ...REFUSED, retryAfterSeconds: 51 }],
    ["no Retry-After", { ...REFUSED, retryAfterSeconds: Number.NaN }],
    ["something remaining in a refusal", { ...REFUSED, remaining: 1 }],
  ] as const)("finds a field that is not true: %s", ([, answer]) => {
    const { judged, take } = judge();
    take(answer);
    const told = judged.judged([]);
    assert.ok(told.untrueHeaders >= 1, JSON.stringify(told));
    assert.ok(told.examples.length >= 1);
  });

  it("allows the shares of the gateways while the store is away, and no unit more", () => {
    const away = [{ fromMs: START_MS + 5_000, toMs: START_MS + 8_000 }];
    const { judged, take } = judge();
    for (let i = 0; i < 7; i++) take({ remaining: 0 });
    assert.equal(judged.judged(away).overLimit, 0, "3 before, and 3 + 2 - 1 by shares");
    take({ remaining: 0 });
    assert.equal(judged.judged(away).overLimit, 1);
    assert.equal(judged.judged([]).overLimit, 5);
  });

  it("takes a smaller limit for true up to five seconds after a gateway decided without the store", () => {
    for (const [endedAgoMs, untrue] of [
      [4_900, 0],
      [5_100, 1],
    ] as const) {
      const { judged, take } = judge();
      for (const answer of [{}, {}, {}]) take(answer);
      const toMs = START_MS - endedAgoMs;
      const late = [{ fromMs: toMs - 50, toMs }];
      assert.deepEqual(judged.judged(late).untrueHeaders, 0, "nothing else is excused by it");
      take({ ...REFUSED, limit: 2 });
      assert.equal(judged.judged(late).untrueHeaders, untrue, `${endedAgoMs} ms before`);
    }
  });

  it("counts what is neither admitted nor refused, and who waited in vain", () => {
    const { judged, take } = judge();
    take({ status: 503 });
    judged.deniedAfterWaiting("a", 7);
    const told = judged.judged([]);
    assert.deepEqual([told.otherAnswers, told.untrueHeaders], [1, 1]);
    assert.match(told.examples.join("\n"), /a waited the 7 s of Retry-After/);
  });
});
