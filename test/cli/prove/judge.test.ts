import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { PromiseChecker } from "../../../src/cli/prove/judge/checker.ts";
import type { ObservedResponse, PromisedLimit } from "../../../src/cli/prove/trial/promises.ts";

const START_MS = Date.UTC(2026, 10, 21, 12);
const END_SECONDS = START_MS / 1_000 + 60;
const FEW: PromisedLimit = { window: "minute", limit: 2, operation: "few" };
const OPERATIONS = new Map([
  ["pets", { cost: 1, limits: [] }],
  ["dear", { cost: 2, limits: [] }],
  ["few", { cost: 1, limits: [FEW] }],
]);

type Asked = {
  readonly operation?: string;
  /** After the first of all requests; 10 ms after the one before unless given. */
  readonly atMs?: number;
};

/** The judge of an account with 3 units a minute and 100 an hour. */
function judge({ gateways = 2, uncertain = 0, patient = false } = {}) {
  const limits: readonly PromisedLimit[] = [
    { window: "minute", limit: 3 },
    { window: "hour", limit: 100 },
  ];
  const judged = new PromiseChecker({
    limits: new Map([["a", limits]]),
    operations: OPERATIONS,
    patient: new Set(patient ? ["a"] : []),
    ...{ gateways, isClockOurs: true, uncertainOf: () => uncertain },
  });
  let n = 0;
  const take = (
    response: Partial<ObservedResponse> | undefined,
    { operation = "pets", atMs }: Asked = {},
  ) => {
    const sentMs = START_MS + 10_500 + (atMs ?? 10 * n);
    n += 1;
    const { cost = 1 } = OPERATIONS.get(operation) ?? {};
    const usual = { window: "minute", limit: 3, resetSeconds: END_SECONDS, cost };
    judged.take({
      ...{ origin: "", account: "a", operation, sentMs, endedMs: sentMs + 5 },
      response:
        response === undefined
          ? undefined
          : { ...usual, status: 200, remaining: 3 - n, retryAfterSeconds: Number.NaN, ...response },
    });
  };
  return { judged, take };
}
const REFUSED = { status: 429, remaining: 0, retryAfterSeconds: 50 };

describe("the judge of a proof", () => {
  it("finds nothing where the limit is admitted, then refused with the true fields", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, {}, REFUSED]) take(answer);
    const { examples, ...told } = judged.report([]);
    assert.deepEqual(examples, []);
    assert.deepEqual(
      [told.admitted, told.refused, told.overLimit, told.falseRefusals, told.untrueHeaders],
      [3, 1, 0, 0, 0],
    );
  });

  it("counts what was admitted by its cost", () => {
    const { judged, take } = judge();
    take({ remaining: 1 }, { operation: "dear" });
    assert.deepEqual([judged.admittedOf("a"), judged.report([]).admitted], [2, 2]);
    take(undefined, { operation: "dear" });
    assert.equal(judged.unansweredOf("a"), 2);
  });

  it("finds one admitted over the limit, and that its Remaining cannot be true", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, {}, { remaining: 0 }]) take(answer);
    const told = judged.report([]);
    assert.deepEqual([told.overLimit, told.untrueHeaders], [1, 1]);
  });

  it("counts each answer that tells another limit than the plan's", () => {
    const { judged, take } = judge();
    for (const limit of [4, 3, 2]) take({ limit });
    assert.equal(judged.report([]).untrueHeaders, 2);
  });

  it("finds the refusal of a request that fitted, in every phase, and not where one was never answered", () => {
    for (const away of [[], [{ fromMs: START_MS, toMs: START_MS + 60_000 }]]) {
      const { judged, take } = judge();
      for (const answer of [{}, {}, REFUSED]) take(answer);
      assert.equal(judged.report(away).falseRefusals, 1);
    }
    const { judged, take } = judge();
    for (const answer of [{}, {}, undefined, REFUSED]) take(answer);
    const told = judged.report([]);
    assert.deepEqual([told.falseRefusals, told.unanswered, judged.unansweredOf("a")], [0, 1, 1]);
  });

  it("judges a refusal by what can have been counted until then, not by what came after", () => {
    const { judged, take } = judge();
    take({ remaining: 2 }, { atMs: 0 });
    take(REFUSED, { atMs: 10 });
    take({ remaining: 1 }, { atMs: 16 });
    take({ remaining: 0 }, { atMs: 20 });
    assert.equal(judged.report([]).falseRefusals, 1, "the window was full in the end");
    const other = judge();
    other.take({ remaining: 2 }, { atMs: 0 });
    for (const atMs of [12, 15]) other.take({ remaining: atMs === 12 ? 1 : 0 }, { atMs });
    other.take(REFUSED, { atMs: 10 });
    assert.equal(other.judged.report([]).falseRefusals, 0, "they were sent before it had come");
  });

  it("finds a refusal once, however often it reports", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, REFUSED]) take(answer);
    assert.deepEqual(
      [1, 2].map(() => judged.report([]).falseRefusals),
      [1, 1],
    );
  });

  it("counts a request at the end of a window in both where it cannot know, against neither", () => {
    const endMs = 49_500;
    const { judged, take } = judge();
    for (const answer of [{}, {}, undefined, REFUSED]) {
      take(answer, { atMs: answer === undefined ? endMs + 200 : endMs + 250 });
    }
    assert.equal(
      judged.report([]).falseRefusals,
      0,
      "a gateway that is late has the clock of then",
    );
    const other = judge();
    for (const remaining of [2, 1, 0]) other.take({ remaining }, { atMs: 0 });
    const few = { window: "few.minute", limit: 2, resetSeconds: END_SECONDS + 60, remaining: 1 };
    other.take(few, { operation: "few", atMs: endMs - 2 });
    assert.equal(other.judged.report([]).overLimit, 0);
    for (const [retryAfterSeconds, untrue] of [
      [1, 0],
      [0, 1],
    ] as const) {
      const late = judge();
      late.take({ ...REFUSED, retryAfterSeconds }, { atMs: endMs + 150 });
      assert.equal(late.judged.report([]).untrueHeaders, untrue, "none waits less than a second");
    }
  });

  it("takes a gateway to be behind its last answer by three tenths of a second, and no more", () => {
    const endMs = 49_500;
    for (const [lateMs, found] of [
      [419, 0],
      [420, 1],
    ] as const) {
      const { judged, take } = judge();
      for (const remaining of [2, 1]) take({ remaining }, { atMs: 0 });
      take(undefined, { atMs: endMs + lateMs });
      take(REFUSED, { atMs: endMs + 450 });
      assert.equal(judged.report([]).falseRefusals, found, `${lateMs} ms`);
    }
  });

  it("counts a request in the windows that its answer does not name", () => {
    const few = { window: "few.minute", limit: 2 };
    const { judged, take } = judge();
    for (const remaining of [1, 0]) take({ ...few, remaining }, { operation: "few" });
    take({ remaining: 0 });
    take(REFUSED);
    const { overLimit, falseRefusals } = judged.report([]);
    assert.deepEqual([overLimit, falseRefusals], [0, 0]);
    take({ remaining: 0 });
    const told = judged.report([]);
    assert.equal(told.overLimit, 1);
    assert.match(told.examples[0] ?? "", /^a, minute to .*: 4 admitted, the limit is 3$/);
  });

  it("judges requests in the order in which they were sent, whichever ended first", () => {
    const { judged, take } = judge();
    take(undefined, { atMs: 20 });
    for (const remaining of [2, 1, 0]) take({ remaining }, { atMs: 0 });
    take(REFUSED, { atMs: 10 });
    assert.equal(judged.report([]).falseRefusals, 0, "three were sent before it had come");
    const other = judge();
    for (const [remaining, atMs] of [
      [2, 0],
      [1, 1],
      [0, 20],
    ] as const) {
      other.take({ remaining }, { atMs });
    }
    for (const atMs of [30, 10]) other.take(REFUSED, { atMs });
    assert.equal(other.judged.report([]).falseRefusals, 1, "the first of them alone");
  });

  it("knows that a request of a higher cost may not fit where one of 1 does", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}]) take(answer);
    take({ ...REFUSED, remaining: 1 }, { operation: "dear" });
    assert.deepEqual([judged.report([]).falseRefusals, judged.report([]).untrueHeaders], [0, 0]);
    const other = judge();
    other.take({});
    other.take({ ...REFUSED, remaining: 1 }, { operation: "dear" });
    assert.equal(other.judged.report([]).falseRefusals, 1);
  });

  it("counts every window of a request, those of its operation too", () => {
    const { judged, take } = judge();
    const few = { window: "few.minute", limit: 2 };
    for (const remaining of [1, 0, 0]) take({ ...few, remaining }, { operation: "few" });
    const told = judged.report([]);
    assert.deepEqual([told.overLimit, told.falseRefusals], [1, 0]);
    assert.match(told.examples.join("\n"), /few\.minute .*3 admitted, the limit is 2/);
    const other = judge();
    other.take({}, {});
    other.take({ ...REFUSED, ...few }, { operation: "few" });
    assert.equal(other.judged.report([]).falseRefusals, 1, "another operation used it");
  });

  it("excuses as many units as gateways told as uncertain, and no more", () => {
    for (const [uncertain, found] of [
      [1, 0],
      [0, 1],
    ] as const) {
      const { judged, take } = judge({ uncertain });
      for (const answer of [{}, {}, REFUSED]) take(answer);
      assert.equal(judged.report([]).falseRefusals, found);
    }
  });

  it.for([
    ["another limit", { limit: 4 }],
    ["another window", { window: "day" }],
    ["another cost", { cost: 2 }],
    ["a reset inside the window", { resetSeconds: END_SECONDS - 1 }],
    ["the window before", { resetSeconds: END_SECONDS - 60 }],
    ["no reset", { resetSeconds: Number.NaN }],
    ["as much remaining as the limit", { remaining: 3 }],
    ["less than nothing remaining", { remaining: -1 }],
    ["a Retry-After a second short", { ...REFUSED, retryAfterSeconds: 49 }],
    ["a Retry-After a second long", { ...REFUSED, retryAfterSeconds: 51 }],
    ["no Retry-After", { ...REFUSED, retryAfterSeconds: Number.NaN }],
    ["something remaining in a refusal", { ...REFUSED, remaining: 1 }],
  ] as const)("finds a field that is not true: %s", ([, answer]) => {
    const { judged, take } = judge();
    take(answer);
    const told = judged.report([]);
    assert.ok(told.untrueHeaders >= 1, JSON.stringify(told));
    assert.ok(told.examples.length >= 1);
  });

  it("allows the shares of the gateways while the store is away, and no unit more", () => {
    const away = [{ fromMs: START_MS + 5_000, toMs: START_MS + 8_000 }];
    const { judged, take } = judge();
    for (let i = 0; i < 7; i++) take({ remaining: 0 });
    assert.equal(judged.report(away).overLimit, 0, "3 before, and 3 + 2 - 1 by shares");
    take({ remaining: 0 });
    const told = judged.report(away);
    assert.equal(told.overLimit, 1);
    assert.match(told.examples.join("\n"), /: 8 admitted, the limit is 7$/);
    assert.equal(judged.report([]).overLimit, 5);
    const endMs = START_MS + 60_000;
    for (const [fromMs, over] of [
      [endMs, 1],
      [endMs + 1, 5],
    ] as const) {
      const later = [{ fromMs, toMs: endMs + 5_000 }];
      assert.equal(judged.report(later).overLimit, over, "once the window is over");
    }
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
      assert.deepEqual(judged.report(late).untrueHeaders, 0, "nothing else is excused by it");
      take({ ...REFUSED, limit: 2 });
      assert.equal(judged.report(late).untrueHeaders, untrue, `${endedAgoMs} ms before`);
    }
  });

  it("excuses a clock that is behind by a second where a gateway has no store, and none ahead", () => {
    const away = [{ fromMs: START_MS, toMs: START_MS + 120_000 }];
    const beforeMs = 49_000;
    const afterMs = 50_000;
    for (const [answer, atMs, inOutage] of [
      [{ ...REFUSED, retryAfterSeconds: 51 }, 0, 0],
      [{ ...REFUSED, retryAfterSeconds: 52 }, 0, 1],
      [{ ...REFUSED, retryAfterSeconds: 49 }, 0, 1],
      [{}, afterMs, 0],
      [{}, afterMs + 1_000, 1],
      [{ resetSeconds: END_SECONDS + 60 }, beforeMs, 1],
    ] as const) {
      const { judged, take } = judge();
      take(answer, { atMs });
      const text = `${JSON.stringify(answer)} at ${atMs}`;
      assert.equal(judged.report(away).untrueHeaders, inOutage, text);
      assert.equal(judged.report([]).untrueHeaders, 1, text);
    }
  });

  it("counts each field that is behind where no gateway was without its store", () => {
    const { judged, take } = judge();
    for (let i = 0; i < 20; i++) take({ ...REFUSED, retryAfterSeconds: 51 }, { atMs: 0 });
    assert.equal(judged.report([]).untrueHeaders, 20);
    const endedMs = START_MS + 10_505;
    for (const [fromMs, untrue] of [
      [endedMs, 0],
      [endedMs + 1, 20],
    ] as const) {
      const begun = [{ fromMs, toMs: fromMs + 100 }];
      assert.equal(judged.report(begun).untrueHeaders, untrue, "it began before the answer");
    }
  });

  it("takes a request that was answered 503 for one that may count until its late answer", () => {
    const { judged, take } = judge();
    for (const answer of [{}, {}, { status: 503, retryAfterSeconds: 1 }, REFUSED]) take(answer);
    assert.equal(judged.report([]).falseRefusals, 0);
    const other = judge();
    for (const answer of [{}, {}, REFUSED]) other.take(answer);
    assert.equal(other.judged.report([]).falseRefusals, 1);
  });

  it("takes a 503 that tells a share for a refusal of it, and any other for one of an outage alone", () => {
    const away = [{ fromMs: START_MS + 5_000, toMs: START_MS + 11_000 }];
    const { judged, take } = judge();
    take({ status: 503, limit: 2, retryAfterSeconds: 5 });
    take({ status: 503, retryAfterSeconds: 1 });
    const counts = (spans: typeof away) => {
      const { shareRefusals, otherAnswers, admitted } = judged.report(spans);
      return [shareRefusals, otherAnswers, admitted];
    };
    assert.deepEqual(counts(away), [2, 0, 0]);
    assert.deepEqual(counts([]), [1, 1, 0]);
    take({ status: 503, limit: 2, retryAfterSeconds: 6 });
    assert.deepEqual(counts(away), [2, 1, 0], "nobody waits so long for a share");
    const sentMs = START_MS + 10_510;
    for (const [agoMs, others] of [
      [4_900, 1],
      [5_100, 2],
    ] as const) {
      const over = [{ fromMs: sentMs - agoMs - 50, toMs: sentMs - agoMs }];
      assert.equal(counts(over)[1], others, `the outage ended ${agoMs} ms before`);
    }
  });

  it("knows a ban by its window, and finds who is admitted during one, or banned without cause", () => {
    const resetSeconds = START_MS / 1_000 + 13;
    const ban = { ...REFUSED, window: "ban", resetSeconds, retryAfterSeconds: 2 };
    const { judged, take } = judge();
    take(ban, { atMs: 0 });
    take({ remaining: 2 }, { atMs: 1_400 });
    assert.deepEqual([judged.report([]).bansIgnored, judged.report([]).untrueHeaders], [0, 0]);
    take({ remaining: 0 }, { atMs: 1_375 });
    for (const atMs of [-5, 3]) take({ remaining: 0 }, { atMs });
    assert.equal(judged.report([]).bansIgnored, 0, "at its end, and before it was seen");
    take({ remaining: 1 }, { atMs: 1_300 });
    const told = judged.report([]);
    assert.deepEqual([told.bansIgnored, told.bannedRefusals, told.falseRefusals], [1, 1, 0]);
    assert.ok(told.examples.includes("a was admitted during a ban"));
    const short = judge();
    short.take({ ...ban, retryAfterSeconds: 1 }, { atMs: 0 });
    assert.equal(short.judged.report([]).untrueHeaders, 1, "it ends within its last second");
    const sentMs = START_MS + 11_800;
    for (const [fromMs, ignored] of [
      [sentMs - 100, 0],
      [sentMs + 5, 0],
      [sentMs + 6, 1],
    ] as const) {
      const { bansIgnored } = judged.report([{ fromMs, toMs: fromMs + 100 }]);
      assert.equal(bansIgnored, ignored, "without its store a gateway may not know of the ban");
    }
    const patient = judge({ patient: true });
    patient.take({ ...ban, retryAfterSeconds: 4 }, { atMs: 0 });
    const found = patient.judged.report([]);
    assert.deepEqual([found.falseRefusals, found.untrueHeaders], [1, 1]);
    assert.ok(found.examples.includes("a was banned, and had waited as it was told"));
  });

  it("counts what is neither admitted nor refused, and who waited in vain", () => {
    const { judged, take } = judge();
    take({ status: 500 });
    judged.deniedAfterWaiting("a", 7);
    const told = judged.report([]);
    assert.deepEqual([told.otherAnswers, told.untrueHeaders], [1, 1]);
    assert.match(
      told.examples.join("\n"),
      /a waited the 7 s of Retry-After and was refused again$/,
    );
  });
});
