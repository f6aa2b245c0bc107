import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { accountId } from "../../../../src/stores/quotas/account-ref.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { account } from "../redis/redis-kit.ts";
import {
  AWAY,
  BAN,
  called,
  DAY_END,
  exhaust,
  NOON,
  openBatch,
  quotaRequest,
  spent,
} from "./queue-kit.ts";

describe("a request of an account that a message said is banned", () => {
  const open = {
    ...spent(),
    windows: [{ window: "day", limit: 3, used: 0, resetMs: DAY_END }],
  } as const;

  it("is not asked to be admitted, and not merged with one that may be", async () => {
    using house = openBatch();
    const { batch, decisionCache } = house;
    const before = batch.charge(account("a1"), quotaRequest);
    decisionCache.learnBan(account("a1"), BAN, NOON);
    const after = batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    const asks = () =>
      house.calls.flatMap(({ requests }) => requests.map((one) => one.quotaRequest));
    await eventually(() => {
      assert.deepEqual(
        asks().map(({ strikesOnly }) => strikesOnly),
        [false, true],
      );
    });
    for (const call of house.calls) call.answer({ ...spent(), ban: BAN });
    for (const answer of [await before, await after]) {
      assert.ok("decision" in answer && !answer.admitted);
      assert.equal(answer.decision.ban, BAN);
    }
  });

  it("is held by a ban that was read, and by none that was only told, has ended or was lifted", () => {
    using house = openBatch();
    const { decisionCache, gate } = house;
    for (const name of ["a1", "a2", "a3"]) decisionCache.learnBan(account(name), BAN, NOON);
    decisionCache.learnBan(account("a2"), BAN, NOON, 0);
    decisionCache.keepCounts(account("a3"));
    const held = (...stored: string[]) =>
      decisionCache.heldBans(new Set(stored)).map(({ account: name, ban }) => [name, ban]);
    assert.deepEqual(held(), [["a1", BAN]]);
    assert.deepEqual(held(accountId(account("a1"))), [], "the store has one");
    assert.equal(decisionCache.heldBan(account("a1")), BAN);
    decisionCache.distrust();
    assert.deepEqual(held(), [], "a message that lifted it may have been missed");
    decisionCache.learnBan(account("a1"), BAN, NOON);
    assert.deepEqual(held(), [["a1", BAN]]);
    gate.nowMs = BAN.untilMs;
    assert.deepEqual([held(), decisionCache.heldBan(account("a1"))], [[], undefined]);
  });

  it("is held by none that was there before bans were distrusted, though its counts are kept", () => {
    using house = openBatch();
    const { decisionCache } = house;
    decisionCache.learnBan(account("a1"), BAN, NOON);
    decisionCache.outdate(account("a1"));
    assert.equal(decisionCache.heldBan(account("a1")), BAN, "its windows alone have changed");
    decisionCache.distrust();
    assert.equal(decisionCache.heldBan(account("a1")), undefined);
  });

  it("is held by its ban alone after a change of its counts, until bans are distrusted", () => {
    using house = openBatch();
    const { decisionCache } = house;
    const [a1, day] = [account("a1"), { counter: "day", startMs: NOON - 43_200_000, used: 1 }];
    decisionCache.learnBan(a1, BAN, NOON);
    decisionCache.learnCounts(a1, [{ ...day, endMs: DAY_END }], NOON);
    for (const change of ["outdate", "invalidate"] as const) {
      decisionCache.keepBan(a1);
      assert.equal(decisionCache.heldBan(a1), BAN);
      assert.equal(decisionCache.countOf(a1, day.counter, day.startMs), 0);
      if (change === "outdate") decisionCache.outdate(a1);
      else decisionCache.invalidate();
    }
    decisionCache.keepBan(a1);
    assert.equal(decisionCache.heldBan(a1), BAN, "no message of a lift was missed");
    decisionCache.distrust();
    decisionCache.keepBan(a1);
    assert.equal(decisionCache.heldBan(a1), undefined);
  });

  it("pushes no account out when bans are listed", () => {
    using house = openBatch();
    const { decisionCache } = house;
    const names = Array.from({ length: 200_000 }, (_, i) => `a${i}`);
    for (const name of names) decisionCache.learnBan(account(name), BAN, NOON);
    assert.equal(decisionCache.heldBans(new Set()).length, names.length);
    assert.equal(decisionCache.heldBans(new Set()).length, names.length);
  });

  it("is asked again if the ban is lifted before the answer", async () => {
    using house = openBatch();
    const { batch, decisionCache } = house;
    decisionCache.learnBan(account("a1"), BAN, NOON);
    const asked = batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    decisionCache.keepCounts(account("a1"));
    house.calls[0]?.answer({ ...open, strikes: 0 });
    await called(house, 2);
    assert.equal(house.calls[1]?.requests[0]?.quotaRequest.strikesOnly, false);
    house.calls[1]?.answer({ ...open, strikes: 0, granted: 1 });
    const answer = await asked;
    assert.ok("decision" in answer && answer.admitted);
  });

  it("is decided without the store as one that may be admitted, if the ban is over when the call fails", async () => {
    using house = openBatch();
    const { batch, decisionCache, gate } = house;
    decisionCache.learnBan(account("a1"), BAN, NOON);
    const asked = batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    assert.equal(house.calls[0]?.requests[0]?.quotaRequest.strikesOnly, true);
    gate.nowMs = BAN.untilMs;
    house.calls[0]?.answer({ failure: AWAY });
    await asked;
    assert.deepEqual(
      gate.askedAlone.map(({ strikesOnly }) => strikesOnly ?? false),
      [false],
    );
  });

  it("is refused by the ban too where a strike was on its way and its answer has none", async () => {
    using house = openBatch();
    const { batch, decisionCache } = house;
    await exhaust(house, "a1");
    await batch.charge(account("a1"), quotaRequest);
    await called(house, 2);
    decisionCache.learnBan(account("a1"), BAN, NOON);
    house.calls[1]?.answer();
    await eventually(() =>
      assert.equal(decisionCache.get("production:a1")?.refusal?.pending, undefined),
    );
    const answer = await batch.charge(account("a1"), quotaRequest);
    assert.ok("decision" in answer && answer.decision.ban === BAN);
  });

  it("leaves no uncertain charge if its call may have run, as one that may be admitted does", async () => {
    using house = openBatch();
    const { batch, decisionCache, uncertain } = house;
    const lost = { failure: new StoreFailure("late", "late", "unknown") };
    const before = batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    house.calls[0]?.answer(lost);
    await before;
    assert.deepEqual(uncertain, [1]);
    decisionCache.learnBan(account("a1"), BAN, NOON);
    const after = batch.charge(account("a1"), quotaRequest);
    await called(house, 2);
    house.calls[1]?.answer(lost);
    const answer = await after;
    assert.ok("decision" in answer && answer.decision.ban === BAN);
    assert.deepEqual(uncertain, [1]);
  });

  it("waits for the store, which refuses or admits it, where another gateway alone told the ban", async () => {
    using house = openBatch();
    const { batch, decisionCache } = house;
    decisionCache.learnBan(account("a1"), BAN, NOON, 0);
    const day = { counter: "day", startMs: NOON - 43_200_000, endMs: DAY_END, used: 1 };
    decisionCache.learnCounts(account("a1"), [day], NOON);
    const asked = batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    house.calls[0]?.answer({ ...open, strikes: 0 });
    await called(house, 2);
    house.calls[1]?.answer({ ...open, strikes: 0, granted: 1 });
    const answer = await asked;
    assert.ok("decision" in answer && answer.admitted);
  });

  it("is not asked to be admitted either where a window of it is unknown", async () => {
    using house = openBatch();
    const { batch, decisionCache } = house;
    await exhaust(house, "a1");
    decisionCache.learnBan(account("a1"), BAN, NOON);
    const limits = [...quotaRequest.limits, { window: "hour", limit: 9 }] as const;
    const asked = batch.charge(account("a1"), { ...quotaRequest, limits });
    await called(house, 2);
    assert.equal(house.calls[1]?.requests[0]?.quotaRequest.strikesOnly, true);
    house.calls[1]?.answer({ ...spent(), ban: BAN });
    const answer = await asked;
    assert.ok("decision" in answer && answer.decision.ban === BAN);
  });
});
