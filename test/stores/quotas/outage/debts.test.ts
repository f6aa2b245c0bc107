import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { Debts } from "../../../../src/stores/quotas/outage/debts.ts";
import { account } from "../redis/redis-kit.ts";
import { asking, NOON, toldBy } from "./local-kit.ts";

const quotaRequest = asking({ window: "day", limit: 10 });

function owe(debts: Debts, name: string, requests: number): void {
  const { windows } = toldBy(quotaRequest, 1, NOON);
  for (let i = 0; i < requests; i++) debts.add(account(name), quotaRequest, windows, NOON);
}

describe("the sum of what is owed", () => {
  it("has the debts of an account whose slot is moving, also after those of others were charged", () => {
    const debts = new Debts(10);
    owe(debts, "moving", 5);
    debts.defer(debts.take());
    owe(debts, "other", 3);
    assert.equal(debts.owedUnits, 8);
    debts.take();
    assert.equal(debts.owedUnits, 5);
    const retried = debts.takeDeferred(10);
    assert.equal(debts.owedUnits, 5, "a call charges them now");
    debts.defer(retried);
    debts.endRetry(retried);
    assert.equal(debts.owedUnits, 5, "the slot is still moving");
    const charged = debts.takeDeferred(10);
    debts.release(charged);
    debts.endRetry(charged);
    assert.equal(debts.owedUnits, 0);
  });
});

it("a day that is owed has the plan of its last request, whatever is taken back after that", () => {
  const debts = new Debts(10);
  const told = toldBy(quotaRequest, 1, NOON);
  for (const plan of ["free", "pro"]) {
    debts.add(account("a"), { ...quotaRequest, plan }, told.windows, NOON);
  }
  debts.subtract(account("a"), quotaRequest, told);
  const [owed] = debts.take();
  assert.deepEqual(
    owed?.days.map(({ requests, plan }) => [requests, plan]),
    [[1, "pro"]],
  );
});
