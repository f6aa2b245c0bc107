import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { PromiseChecker } from "../../../src/cli/prove/judge/checker.ts";
import type { ObservedResponse, TimeSpan } from "../../../src/cli/prove/trial/promises.ts";

const START_MS = Date.UTC(2026, 10, 21, 12);
const END_SECONDS = START_MS / 1_000 + 60;

/** The judge of an account with 3 units a minute, and what takes a request sent so long after the start. */
function judge({ isClockOurs = true } = {}) {
  const judged = new PromiseChecker({
    limits: new Map([["a", [{ window: "minute", limit: 3 }]]]),
    operations: new Map([["pets", { cost: 1, limits: [] }]]),
    ...{ patient: new Set<string>(), gateways: 2, isClockOurs, uncertainOf: () => 0 },
  });
  const take = (atMs: number, response: Partial<ObservedResponse> | undefined) => {
    const sentMs = START_MS + atMs;
    const usual = { status: 200, window: "minute", limit: 3, remaining: 2, cost: 1 };
    judged.take({
      ...{ origin: "", account: "a", operation: "pets", sentMs, endedMs: sentMs + 5 },
      response: response && {
        ...usual,
        resetSeconds: END_SECONDS,
        retryAfterSeconds: 0,
        ...response,
      },
    });
  };
  const refuse = (atMs: number, retryAfterSeconds: number) => {
    take(atMs, { status: 429, remaining: 0, retryAfterSeconds });
  };
  return { take, refuse, report: (away: readonly TimeSpan[] = []) => judged.report(away) };
}

describe("the clock of a store on this machine", () => {
  it.for([
    [10_950, 49, 0],
    [10_850, 49, 1],
    [10_050, 51, 0],
    [10_150, 51, 1],
  ] as const)("may be off by a tenth of a second: at %i ms, %i s", ([atMs, seconds, untrue]) => {
    const { refuse, report } = judge();
    refuse(atMs, seconds);
    const { untrueHeaders, examples } = report();
    const told = examples.filter((text) => text.includes("says Retry-After"));
    assert.deepEqual([untrueHeaders, told.length], [untrue, untrue], examples.join());
  });

  it("may be ahead: a request that ends just before its window may count in the next one", () => {
    for (const [beforeMs, found] of [
      [124, 0],
      [130, 1],
    ] as const) {
      const { take, report } = judge();
      const next = { resetSeconds: END_SECONDS + 60 };
      take(60_000 - beforeMs, undefined);
      for (const remaining of [2, 1]) take(60_200, { ...next, remaining });
      take(60_250, { ...next, status: 429, remaining: 0, retryAfterSeconds: 60 });
      assert.equal(report().falseRefusals, found, `sent ${beforeMs} ms before it`);
    }
  });

  it.for([
    [60_240, 0, 0],
    [60_241, 1, 0],
    [61_240, 1, 0],
    [61_241, 1, 1],
  ] as const)(
    "may be behind at either end of an answer, and by a second more in an outage: at %i ms",
    ([atMs, untrue, inOutage]) => {
      const { take, report } = judge();
      take(atMs, {});
      const away = [{ fromMs: START_MS + 60_000, toMs: START_MS + 70_000 }];
      assert.deepEqual([report().untrueHeaders, report(away).untrueHeaders], [untrue, inOutage]);
    },
  );

  it("stays so, whatever an answer shows", () => {
    const { take, refuse, report } = judge();
    take(-110, {});
    refuse(10_050, 51);
    assert.equal(report().untrueHeaders, 0);
  });
});

describe("the clock of a store on another machine", () => {
  /** It is half a minute ahead, which two answers of one window show to a few seconds. */
  const shown = () => {
    const one = judge({ isClockOurs: false });
    one.take(-25_000, {});
    one.take(29_500, { remaining: 1 });
    return one;
  };

  it.for([
    [9, 1],
    [10, 0],
    [16, 0],
    [17, 1],
  ] as const)(
    "is learned from answers, so that a Retry-After is judged by it: %i s",
    ([seconds, untrue]) => {
      const { refuse, report } = shown();
      refuse(20_000, seconds);
      assert.equal(report().untrueHeaders, untrue);
    },
  );

  it.for([
    [29_000, 1],
    [29_300, 0],
  ] as const)(
    "is learned from answers, so that a window that has not begun is found: at %i ms",
    ([atMs, untrue]) => {
      const { take, report } = shown();
      take(atMs, { resetSeconds: END_SECONDS + 60 });
      assert.equal(report().untrueHeaders, untrue);
    },
  );

  it("is taken for that of this machine until an answer has come", () => {
    const { take, refuse, report } = judge({ isClockOurs: false });
    for (const atMs of [1_000, 1_100, 1_200]) take(atMs, undefined);
    refuse(10_000, 50);
    const { falseRefusals, unanswered } = report();
    assert.deepEqual([falseRefusals, unanswered], [0, 3]);
  });
});
