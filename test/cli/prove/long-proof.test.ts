import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { PromiseChecker } from "../../../src/cli/prove/judge/checker.ts";
import { FieldChecker } from "../../../src/cli/prove/judge/field-checker.ts";
import type { SentRequest } from "../../../src/cli/prove/trial/promises.ts";

const START_MS = Date.UTC(2026, 10, 21, 12);
const END_MS = START_MS + 60_000;
const FIELDS = { window: "minute", limit: 3, resetSeconds: END_MS / 1_000, cost: 1 };

function shotAt(sentMs: number, answer: object): SentRequest {
  const shot = { account: "a", operation: "pets", sentMs, endedMs: sentMs + 5 };
  return { ...shot, response: { ...FIELDS, ...answer } } as SentRequest;
}

describe("a proof that runs for long", () => {
  it("judges a window a minute after its end, once, and keeps no request of it", () => {
    let judged = 0;
    const uncertainOf = () => {
      judged += 1;
      return 0;
    };
    const checker = new PromiseChecker({
      limits: new Map([["a", [{ window: "minute", limit: 3 }]]]),
      operations: new Map([["pets", { cost: 1, limits: [] }]]),
      ...{ patient: new Set<string>(), gateways: 2, isClockOurs: true, uncertainOf },
    });
    checker.take(shotAt(START_MS + 10_500, { status: 200, remaining: 2 }));
    checker.take(shotAt(START_MS + 10_600, { status: 429, remaining: 0, retryAfterSeconds: 50 }));
    let [count, asked] = [2, [] as number[]];
    for (const lastMs of [END_MS + 60_000, END_MS + 60_001, END_MS + 90_000]) {
      for (count += 1; count % 1_000 !== 0; count++) {
        checker.take(shotAt(START_MS + 20_000, { status: 500 }));
      }
      checker.take(shotAt(lastMs, { status: 500 }));
      asked = [...asked, judged];
    }
    assert.deepEqual(asked, [0, 1, 1]);
    assert.deepEqual([checker.report([]).falseRefusals, judged], [1, 1]);
  });

  it("keeps a hundred thousand fields that may show the clock of an outage, and no more", () => {
    const checker = new FieldChecker(true, () => {});
    const sent = shotAt(START_MS, { status: 200 });
    for (let i = 1; i < 100_000; i++) checker.lie(sent, "is behind", true);
    assert.equal(checker.untrue([]), 99_999);
    for (let i = 0; i < 2; i++) checker.lie(sent, "is behind", true);
    assert.equal(checker.untrue([]), 100_000);
    checker.lie(sent, "is ahead");
    assert.equal(checker.untrue([{ fromMs: START_MS, toMs: START_MS }]), 1);
  });
});
