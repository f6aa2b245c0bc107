import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import type {
  QuotaDecision,
  QuotaRequest,
  WindowUsage,
} from "../../../../src/core/quota/decide.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { each } from "../../../support/each.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { account } from "../redis/redis-kit.ts";
import {
  AWAY,
  BAN,
  banAtOnce,
  called,
  DAY_END,
  EARNED,
  exhaust,
  openBatch,
  quotaRequest,
  spent,
} from "./queue-kit.ts";

const MOVING = new StoreFailure("TRYAGAIN", "the slot is in motion between two nodes", "no");

describe("a queue", () => {
  it("of which work precedes each call, again and again, waits for it no longer than for a call", async () => {
    using house = openBatch();
    house.gate.isNeverReady = true;
    house.gate.timeoutMs = 50;
    assert.deepEqual(await house.batch.charge(account("a1"), quotaRequest), { unavailable: true });
    assert.deepEqual([house.gate.decided, house.calls.length], [["a1"], 0]);
    house.gate.isNeverReady = false;
    await exhaust(house, "a1");
    assert.deepEqual(house.gate.decided, ["a1"]);
  });

  it("that was away while work preceded its call waits as long for that of its return", async () => {
    using house = openBatch();
    const { gate, batch } = house;
    gate.timeoutMs = 50;
    gate.isNeverReady = true;
    const first = batch.charge(account("a1"), quotaRequest);
    await sleep(10);
    gate.isShut = true;
    assert.deepEqual(await first, { unavailable: true });
    await sleep(60);
    Object.assign(gate, { isShut: false, timeoutMs: 10_000 });
    const second = batch.charge(account("a1"), quotaRequest);
    await sleep(20);
    assert.deepEqual(gate.decided, ["a1"]);
    gate.isNeverReady = false;
    await called(house, 1);
    house.calls[0]?.answer();
    assert.ok("admitted" in (await second));
  });

  it("of a slot that is moving gives up the calls in flight of that account, and no other", async () => {
    for (const [next, decided] of [
      ["a1", ["a1", "a1"]],
      ["b1", ["a1"]],
    ] as const) {
      using house = openBatch();
      house.gate.shares = true;
      const first = house.batch.charge(account("a1"), quotaRequest);
      await called(house, 1);
      const second = house.batch.charge(account(next), quotaRequest);
      await called(house, 2);
      house.calls[0]?.answer({ failure: MOVING });
      await first;
      house.calls[1]?.answer();
      await second;
      assert.deepEqual(house.gate.decided, decided);
    }
  });
});

describe("strikes of several lanes", () => {
  it("go one lane at a time, and each has its turn", async () => {
    using house = openBatch();
    for (const name of ["a1", "a2", "a3"]) await exhaust(house, name);
    house.calls.length = 0;
    const asked = ["a1", "a2", "a3"].map((name) => house.batch.charge(account(name), quotaRequest));
    await called(house, 3);
    assert.deepEqual(
      house.calls.map(({ names }) => names),
      [["a1"], ["a2"], ["a3"]],
    );
    for (const call of house.calls) call.answer();
    const answers = await Promise.all(asked);
    assert.ok(each(answers).every((answer) => "admitted" in answer && !answer.admitted));
  });

  it("wait while a lane has two calls under way, and go when one is answered", async () => {
    using house = openBatch();
    await exhaust(house, "a1");
    house.calls.length = 0;
    const busy = [house.batch.charge({ environment: "x", account: "b1" }, quotaRequest)];
    await called(house, 1);
    busy.push(house.batch.charge({ environment: "x", account: "c1" }, quotaRequest));
    await called(house, 2);
    const strike = house.batch.charge(account("a1"), quotaRequest);
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.equal(house.calls.length, 2, "the lane is full");
    house.calls[0]?.answer();
    await called(house, 3);
    assert.deepEqual(house.calls[2]?.names, ["a1"]);
    for (const call of house.calls) call.answer();
    await Promise.all([...busy, strike]);
  });

  it("that fail are refusals all the same, and the next one strikes again", async () => {
    using house = openBatch();
    const ask = banAtOnce;
    await exhaust(house, "a1", ask);
    house.calls.length = 0;
    const strike = house.batch.charge(account("a1"), ask);
    await called(house, 1);
    const meanwhile = await house.batch.charge(account("a1"), ask);
    assert.ok("admitted" in meanwhile && !meanwhile.admitted, "answered from memory");
    house.calls[0]?.answer({ failure: AWAY });
    const answer = await strike;
    assert.ok("admitted" in answer && !answer.admitted && answer.by === "memory");
    assert.deepEqual(house.gate.decided, [], "what is known needs no deciding");
    const next = house.batch.charge(account("a1"), ask);
    await called(house, 2);
    house.calls[1]?.answer();
    await next;
  });
});

it("a ban is told to one of the requests that a call refuses, the first of them", async () => {
  using house = openBatch();
  const two: QuotaRequest = { ...quotaRequest, limits: [{ window: "day", limit: 2 }] };
  const answers = Array.from({ length: 5 }, () => house.batch.charge(account("a1"), two));
  await called(house, 1);
  house.calls[0]?.answer({ ...spent(), granted: 2, ban: BAN, newBan: EARNED });
  const told = await Promise.all(answers);
  assert.deepEqual(
    told.map((answer) => "earned" in answer && answer.earned === EARNED),
    [false, false, true, false, false],
  );
});

describe("a strike that cannot be the one that bans", () => {
  it("is refused at once, and goes to the store as a strike that charges nothing", async () => {
    using house = openBatch();
    await exhaust(house, "a1");
    const answer = house.batch.charge(account("a1"), quotaRequest);
    assert.ok("admitted" in answer && !answer.admitted && answer.by === "memory");
    await called(house, 2);
    const [sent] = house.calls[1]?.requests ?? [];
    assert.deepEqual([sent?.quotaRequest.requests, sent?.quotaRequest.strikesOnly], [1, true]);
    house.calls[1]?.answer();
  });

  it("waits from the one on that could be, and is told of the ban", async () => {
    using house = openBatch();
    await exhaust(house, "a1", banAtOnce);
    const answer = house.batch.charge(account("a1"), banAtOnce);
    assert.ok(answer instanceof Promise);
    await called(house, 2);
    const [sent] = house.calls[1]?.requests ?? [];
    assert.deepEqual([sent?.quotaRequest.requests, sent?.quotaRequest.strikesOnly], [1, false]);
    house.calls[1]?.answer({ ...spent(), ban: BAN, newBan: EARNED });
    const told = await answer;
    assert.ok("earned" in told && told.earned === EARNED);
  });

  it("leaves a ban that it earned all the same to be told to the next refused, once", async () => {
    using house = openBatch();
    await exhaust(house, "a1");
    void house.batch.charge(account("a1"), quotaRequest);
    await called(house, 2);
    house.calls[1]?.answer({ ...spent(), ban: BAN, newBan: EARNED });
    await new Promise(setImmediate);
    const [next, last] = [1, 2].map(() => house.batch.charge(account("a1"), quotaRequest));
    assert.ok(next && "earned" in next && next.earned === EARNED);
    assert.ok(last && !("earned" in last));
  });

  it("that is lost admits nobody later, and the next one strikes again", async () => {
    using house = openBatch();
    await exhaust(house, "a1");
    void house.batch.charge(account("a1"), quotaRequest);
    await called(house, 2);
    const month = { counter: "month", startMs: Date.UTC(2026, 5), endMs: undefined, used: 1 };
    house.decisionCache.learnCounts(account("a1"), [month], DAY_END - 43_200_000);
    house.calls[1]?.answer({ failure: new StoreFailure("unreachable", "cut", "unknown") });
    await new Promise(setImmediate);
    assert.deepEqual([house.gate.decided, house.uncertain], [[], []]);
    house.gate.isShut = true;
    const away = house.batch.charge(account("a1"), quotaRequest);
    assert.ok("decision" in away && away.decision.strikes === 1, "the lost one is not counted");
    house.gate.isShut = false;
    const next = house.batch.charge(account("a1"), quotaRequest);
    assert.ok("decision" in next && next.decision.strikes === 2);
    await called(house, 3);
    house.calls[2]?.answer();
  });
});

describe("a known refusal in a window of which nothing is known", () => {
  const hourOf = (id: string) => ({ window: "hour", limit: 3, part: { id, name: id } }) as const;
  const at = (id: string): QuotaRequest => {
    return { ...quotaRequest, limits: [hourOf(id), ...quotaRequest.limits] };
  };
  const answerOf = (id: string): QuotaDecision => {
    const hour = { ...hourOf(id), used: 3, resetMs: DAY_END - 11 * 3_600_000 };
    return { ...spent(), windows: [hour, ...spent().windows] };
  };
  /** Each window that an answer tells, as its use or as unknown. */
  const told = (answer: Awaited<ReturnType<ReturnType<typeof openBatch>["batch"]["charge"]>>) => {
    assert.ok("decision" in answer && !answer.admitted);
    const windows = answer.decision.windows.map(({ used, isUnknown }) => isUnknown ?? used);
    return [answer.by, ...windows];
  };

  it("asks the store for it once, one request of the account at a time", async () => {
    using house = openBatch();
    await exhaust(house, "a1");
    const first = house.batch.charge(account("a1"), at("op1"));
    const others = Array.from({ length: 99 }, (_, i) => {
      return house.batch.charge(account("a1"), at(`op${i + 2}`));
    });
    assert.ok(first instanceof Promise);
    const atOnce = each(others).map((answer) => answer instanceof Promise || told(answer));
    assert.deepEqual(atOnce, Array(99).fill(["memory", true, 1]));
    await called(house, 2);
    assert.deepEqual([house.calls[1]?.names, house.calls[1]?.requests.length], [["a1"], 1]);
    house.calls[1]?.answer({ ...answerOf("op1"), strikeDueMs: DAY_END });
    assert.deepEqual(told(await first), ["store", 3, 1]);
    const again = house.batch.charge(account("a1"), at("op1"));
    assert.deepEqual(again instanceof Promise || told(again), ["memory", 3, 1]);
    assert.ok(house.batch.charge(account("a1"), at("op2")) instanceof Promise, "the next one");
    await called(house, 3);
    house.calls[2]?.answer(answerOf("op2"));
  });

  it("is told as unknown if that call fails or the store is away, and a count of 0 once it answers", async () => {
    using house = openBatch();
    await exhaust(house, "a1");
    const asked = { ...at("op1") };
    const first = house.batch.charge(account("a1"), asked);
    await called(house, 2);
    house.calls[1]?.answer({ failure: AWAY });
    assert.deepEqual(told(await first), ["memory", true, 1]);
    house.gate.isShut = true;
    assert.deepEqual(told(await house.batch.charge(account("a1"), asked)), ["memory", true, 1]);
    house.gate.isShut = false;
    const last = house.batch.charge(account("a1"), asked);
    await called(house, 3);
    const [hour, ...others] = answerOf("op1").windows;
    const windows = [{ ...hour, used: 0 } as WindowUsage, ...others];
    house.calls[2]?.answer({ ...spent(), windows, strikeDueMs: DAY_END });
    assert.deepEqual(told(await last), ["store", 0, 1]);
    const known = house.batch.charge(account("a1"), asked);
    assert.deepEqual(known instanceof Promise || told(known), ["memory", 0, 1]);
    assert.deepEqual(house.gate.decided, []);
  });

  it("is told as unknown if its turn does not come in the time of a call", async () => {
    using house = openBatch();
    for (const name of ["a1", "b1"]) await exhaust(house, name);
    void house.batch.charge(account("a1"), at("op1"));
    await called(house, 3);
    house.gate.timeoutMs = 20;
    const late = told(await house.batch.charge(account("b1"), at("op1")));
    assert.deepEqual([...late, house.calls.length], ["memory", true, 1, 3]);
  });

  it("asks for it during a ban too", async () => {
    using house = openBatch();
    const first = house.batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    house.calls[0]?.answer({ ...spent(), ban: BAN });
    await first;
    assert.ok(!(house.batch.charge(account("a1"), quotaRequest) instanceof Promise));
    const asked = house.batch.charge(account("a1"), at("op1"));
    assert.ok(asked instanceof Promise);
    await called(house, 2);
    house.calls[1]?.answer({ ...answerOf("op1"), ban: BAN });
    assert.deepEqual(told(await asked), ["store", 3, 1]);
  });
});

describe("more accounts than a call carries", () => {
  it("are all decided without the store, once that is known to be away", async () => {
    using house = openBatch();
    const first = ["b1", "c1"].map((name) => house.batch.charge(account(name), quotaRequest));
    await called(house, 1);
    const second = house.batch.charge(account("d1"), quotaRequest);
    await called(house, 2);
    const waiting = Array.from({ length: 300 }, (_, i) => {
      return house.batch.charge({ environment: `e${i}`, account: "a1" }, quotaRequest);
    });
    house.gate.isShut = true;
    for (const call of house.calls) call.answer({ failure: AWAY });
    const answers = await Promise.all([...first, second, ...waiting]);
    assert.ok(each(answers).every((answer) => "unavailable" in answer));
    assert.equal(house.calls.length, 2, "nothing else was asked of it");
  });

  it("under policies that differ in the length of a ban alone are two calls", async () => {
    using house = openBatch();
    const longer = {
      ...quotaRequest,
      bans: { ...DEFAULT_BANS, durationMs: DEFAULT_BANS.durationMs + 1 },
    };
    const asked = [
      house.batch.charge({ environment: "x", account: "a1" }, quotaRequest),
      house.batch.charge({ environment: "y", account: "a1" }, longer),
    ];
    await called(house, 2);
    assert.deepEqual(
      house.calls.map(({ names }) => names.length),
      [1, 1],
    );
    for (const call of house.calls) call.answer();
    await Promise.all(asked);
  });
});

describe("more strikes than a call carries", () => {
  it("are refused from memory at once: nobody waits for the call after the next", async () => {
    using house = openBatch();
    const accountRefs = Array.from({ length: 257 }, (_, i) => ({
      environment: `e${i}`,
      account: "a1",
    }));
    const ask = banAtOnce;
    const first = accountRefs.map((accountRef) => house.batch.charge(accountRef, ask));
    await called(house, 2);
    for (const call of house.calls) call.answer();
    await Promise.all(first);
    const answers = accountRefs.map((accountRef) => house.batch.charge(accountRef, ask));
    const waiting = answers.filter((answer) => answer instanceof Promise);
    assert.equal(waiting.length, 256);
    await called(house, 3);
    house.calls[2]?.answer();
    await Promise.all(waiting);
  });
});

describe("a call that nobody waits for any more", () => {
  const granted = (count: number): QuotaDecision => ({
    ...spent(),
    granted: count,
    windows: [{ window: "day", limit: 9, used: count, resetMs: DAY_END }],
  });
  const LOST = new StoreFailure("unreachable", "cut", "unknown");
  const turns = () => new Promise((resolve) => setTimeout(resolve, 20));

  it("leaves its requests to be decided without it, and what it charged is taken off", async () => {
    using house = openBatch();
    house.gate.timeoutMs = 20;
    const asked = [
      house.batch.charge(account("a1"), quotaRequest),
      house.batch.charge(account("a1"), quotaRequest),
    ];
    await called(house, 1);
    const answers = await Promise.all(asked);
    assert.ok(each(answers).every((answer) => "unavailable" in answer));
    assert.deepEqual(house.gate.decided, ["a1", "a1"]);
    house.calls[0]?.answer(granted(2));
    await turns();
    assert.deepEqual([house.gate.released, house.uncertain], [[2], []]);
  });

  it("and was lost with its connection is told as uncertain, once", async () => {
    using house = openBatch();
    house.gate.timeoutMs = 20;
    const asked = house.batch.charge(account("a1"), { ...quotaRequest, cost: 7 });
    await called(house, 1);
    await asked;
    house.calls[0]?.answer({ failure: LOST });
    await turns();
    assert.deepEqual([house.gate.released, house.uncertain], [[], [7]]);
  });

  for (const shares of [true, false]) {
    it(`${shares ? "takes" : "leaves"} the other call of its queue ${shares ? "along" : "alone"} where requests are ${shares ? "" : "not "}admitted from shares`, async () => {
      using house = openBatch();
      house.gate.shares = shares;
      const first = house.batch.charge(account("a1"), quotaRequest);
      await called(house, 1);
      const second = house.batch.charge({ environment: "x", account: "b1" }, quotaRequest);
      await called(house, 2);
      house.calls[0]?.answer({ failure: AWAY });
      assert.ok("unavailable" in (await first));
      house.calls[1]?.answer(granted(1));
      const answer = await second;
      assert.equal("unavailable" in answer, shares);
      await turns();
      assert.deepEqual(house.gate.released, shares ? [1] : []);
    });
  }
});
