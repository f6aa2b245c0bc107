import assert from "node:assert/strict";
import { it } from "vitest";
import { readUsage } from "../../../src/stores/queries/read-usage.ts";
import { createMemoryQuotaStore } from "../../../src/stores/quotas/memory/memory-quota-store.ts";

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
