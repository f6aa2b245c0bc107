import assert from "node:assert/strict";
import { it } from "vitest";
import { describeUnlisted, readUsage } from "../../../src/stores/queries/read-usage.ts";
import { createMemoryQuotaStore } from "../../../src/stores/quotas/memory/create-memory-quota-store.ts";

it("an account that has used exactly this much of a limit is among those over it, whatever the percentage", async () => {
  const store = await createMemoryQuotaStore({ now: () => 0, report: () => undefined });
  for (const [used, limit, over] of [
    [29, 100, 29],
    [57, 100, 57],
    [58, 100, 58],
    [7, 10_000, 0.07],
    [29, 200, 14.5],
    [100, 100, 100],
  ] as const) {
    const record = { id: `used ${over} %`, environment: "production", plan: "free", limits: [] };
    const limits = [{ window: "day", limit }] as const;
    const accountRef = { environment: "production", account: record.id };
    await store.charge(accountRef, { limits, bans: undefined, requests: used });
    const plans = new Map([["free", limits]]);
    const terms = { plans, planBounds: new Map(), bans: undefined, environments: [] };
    const found = async (percent: number) => {
      const filter = { over: percent };
      return (await readUsage(store, [record as never], terms, filter)).length;
    };
    assert.deepEqual([await found(over), await found(over + 0.001)], [1, 0], record.id);
  }
  await store.close();
});

it("accounts that have used the same share are in the order of their names, below those that used more", async () => {
  const store = await createMemoryQuotaStore({ now: () => 0, report: () => undefined });
  const limits = [{ window: "day", limit: 10 }] as const;
  const plans = new Map([["free", limits]]);
  const terms = { plans, planBounds: new Map(), bans: undefined, environments: [] };
  const accounts = ["c", "a", "most", "b"].map((id) => {
    return { id, environment: "production", plan: "free", limits: [] };
  });
  const accountRef = { environment: "production", account: "most" };
  await store.charge(accountRef, { limits, bans: undefined, requests: 1 });
  const found = await readUsage(store, accounts as never, terms, { top: 3 });
  assert.deepEqual(
    found.map(({ account }) => account),
    ["most", "a", "b"],
  );
  await store.close();
});

it("accounts without limits are named where their keys work in an environment of the file, as the filter has it", () => {
  const account = (id: string, more: object = {}) => {
    return { id, environment: "production", plan: "gone", limits: [], ...more };
  };
  const accounts = [
    account("acme"),
    account("limited", { plan: "free" }),
    account("ended"),
    account("elsewhere", { environment: "staging" }),
    account("other", { plan: "custom" }),
  ];
  const keys = accounts.map(({ id, environment }) => {
    return { id: `k_${id}`, account: id, environment, ...(id === "ended" && { revokedMs: 0 }) };
  });
  const limits = [{ window: "day", limit: 9 }];
  const plans = new Map<string, readonly object[]>([["free", limits]]);
  const terms = { plans: plans.set("custom", []), environments: [{ name: "production" }] };
  const named = (filter: object) => {
    const records = { keys, accounts };
    const told = describeUnlisted(terms as never, records as never, { filter, nowMs: 1 });
    return told?.split(": no limits")[0];
  };
  assert.equal(named({}), "accounts acme other");
  assert.equal(named({ plan: "gone", environment: "production", over: 0 }), "account acme");
  const none = [{ plan: "free" }, { environment: "staging" }, { over: 0.1 }].map(named);
  assert.deepEqual(none, [undefined, undefined, undefined]);
});
