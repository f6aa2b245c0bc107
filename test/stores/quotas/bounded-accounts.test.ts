import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { BoundedAccounts } from "../../../src/stores/quotas/bounded-accounts.ts";
import { LocalQuotas } from "../../../src/stores/quotas/outage/local-quotas.ts";
import { asking, terms } from "./outage/local-kit.ts";

describe("a bounded place for accounts", () => {
  it("drops the oldest account for a new one, and for one that it has nothing", () => {
    const places = new BoundedAccounts<number>(2);
    assert.equal(places.add("production:a", 1), undefined);
    assert.equal(places.add("production:b", 2), undefined);
    places.replace("production:a", 3);
    assert.equal(places.add("production:c", 4), 3);
    assert.deepEqual(places.values(), [2, 4]);
  });

  it("drops an address for an address, never an account, and no address for an account", () => {
    const places = new BoundedAccounts<number>(20);
    for (let i = 0; i < 20; i++) places.add(`production:a${i}`, i);
    const dropped = [1, 2, 3].map((i) => places.add(`production:addr:192.0.2.${i}`, i));
    assert.deepEqual(dropped, [undefined, undefined, 1]);
    assert.equal(places.get("production:a0"), 0);
    assert.equal(places.add("production:late", 9), 0);
    assert.equal(places.get("production:addr:192.0.2.2"), 2);
    assert.equal(places.size, 22);
  });
});

describe("addresses in an outage", () => {
  it("take no debt and no share of an account", () => {
    const accounts = new LocalQuotas(10);
    const quotaRequest = asking({ window: "minute", limit: 1 });
    const customer = { environment: "production", account: "customer" };
    assert.equal(accounts.decide(customer, quotaRequest, terms()).outcome, "admitted");
    for (let i = 0; i < 50; i++) {
      const address = { environment: "production", account: `addr:192.0.2.${i}` };
      assert.equal(accounts.decide(address, quotaRequest, terms()).outcome, "admitted");
    }
    assert.equal(accounts.decide(customer, quotaRequest, terms()).outcome, "exhausted");
    const owed = accounts.debts.take().map(({ accountRef }) => accountRef.account);
    assert.ok(owed.includes("customer"));
    assert.equal(owed.length, 2, "all addresses share a tenth of the places");
  });
});
