import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { account } from "../redis/redis-kit.ts";
import { banAtOnce, called, exhaust, openBatch, quotaRequest, spent } from "./queue-kit.ts";

describe("strikes that wait for their turns", () => {
  it("are those of the other lanes first, though the one that went has more meanwhile", async () => {
    using house = openBatch();
    for (const name of ["a1", "a2"]) await exhaust(house, name);
    house.calls.length = 0;
    const strike = (name: string) => void house.batch.charge(account(name), quotaRequest);
    for (const name of ["a1", "a2"]) strike(name);
    await called(house, 1);
    house.calls[0]?.answer();
    await new Promise(setImmediate);
    strike("a1");
    await called(house, 3);
    assert.deepEqual(
      house.calls.map(({ names }) => names),
      [["a1"], ["a2"], ["a1"]],
    );
  });

  it("under two policies go in two turns, though no other refusal follows", async () => {
    using house = openBatch();
    for (const name of ["a1", "b1", "c1"])
      await exhaust(house, name, name === "b1" ? { ...quotaRequest, bans: undefined } : banAtOnce);
    house.calls.length = 0;
    const strikes = [house.batch.charge(account("a1"), banAtOnce)];
    const other = { window: "hour", limit: 3, part: { id: "op", name: "op" } } as const;
    const limits = [other, ...quotaRequest.limits];
    const asked = house.batch.charge(account("b1"), { ...quotaRequest, limits, bans: undefined });
    strikes.push(house.batch.charge(account("c1"), banAtOnce));
    await called(house, 2);
    assert.deepEqual(
      house.calls.map(({ names }) => names),
      [["a1", "c1"], ["b1"]],
    );
    for (const call of house.calls) call.answer();
    await Promise.all([asked, ...strikes]);
  });

  it("have a place beside the asks of any number of client addresses", async () => {
    using house = openBatch();
    const asked = { ...quotaRequest, bans: undefined };
    const charge = (name: string, one: QuotaRequest) => house.batch.charge(account(name), one);
    const names = Array.from({ length: 256 }, (_, i) => `addr:${i}`);
    for (const name of [names[0] as string, "own"]) await exhaust(house, name, asked);
    const first = names.map((name) => charge(name, asked));
    await called(house, 3);
    house.calls[2]?.answer();
    await Promise.all(first);
    const own = { window: "hour", limit: 3, part: { id: "op", name: "op" } } as const;
    const unknown = { ...asked, limits: [own, ...quotaRequest.limits] };
    for (const name of [...names, "own"]) void charge(name, unknown);
    await called(house, 4);
    assert.ok(house.calls[3]?.names.includes("own"));
  });

  it("are noted by the store when one was sent alone, so that the next one counts itself", async () => {
    using house = openBatch();
    const filled = house.batch.charge(account("a1"), quotaRequest);
    await called(house, 1);
    house.calls[0]?.answer({ ...spent(), granted: 1, strikes: 0 });
    await filled;
    const strikes = () => {
      const answer = house.batch.charge(account("a1"), quotaRequest);
      return "decision" in answer && answer.decision.strikes;
    };
    assert.equal(strikes(), 0, "the first refusal begins the grace");
    await called(house, 2);
    house.calls[1]?.answer({ ...spent(), strikes: 0 });
    await new Promise(setImmediate);
    assert.equal(strikes(), 1);
  });
});
