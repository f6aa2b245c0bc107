import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { AccountRecord } from "../../../src/core/keys/records.ts";
import { dayOf } from "../../../src/core/quota/days.ts";
import { type HistoryFilter, readHistory } from "../../../src/stores/queries/read-history.ts";
import { createMemoryQuotaStore } from "../../../src/stores/quotas/memory/create-memory-quota-store.ts";

const DAY_MS = 86_400_000;
const OCTOBER_1 = Date.UTC(2026, 9, 1);
const LIMITS = [{ window: "month", limit: 1_000 }] as const;
const RECORD = { id: "acme", environment: "production", plan: "max" } as AccountRecord;

/** Rows of an account that asked on each plan for a day, and is on plan `max` now. */
async function rows(plans: readonly (string | undefined)[], filter: HistoryFilter = {}) {
  let nowMs = OCTOBER_1;
  const report = () => undefined;
  const store = await createMemoryQuotaStore({ now: () => nowMs, report, historyMs: 90 * DAY_MS });
  for (const plan of plans) {
    const quotaRequest = { limits: LIMITS, bans: undefined, requests: 1 };
    await store.charge(
      { environment: "production", account: "acme" },
      plan === undefined ? quotaRequest : { ...quotaRequest, plan },
    );
    nowMs += DAY_MS;
  }
  const span = { from: dayOf(OCTOBER_1), to: dayOf(nowMs) };
  const told: string[] = [];
  for await (const some of readHistory(store, [RECORD], () => [span], filter)) {
    told.push(...some.map(({ day, plan }) => `${day} ${plan}`));
  }
  await store.close();
  return told;
}

describe("a row of history", () => {
  it("keeps the plan of its day when the account is upgraded", async () => {
    assert.deepEqual(await rows(["free", "pro"]), ["2026-10-01 free", "2026-10-02 pro"]);
  });

  it("has the plan of the account now where its day knows none", async () => {
    assert.deepEqual(await rows([undefined, "pro"]), ["2026-10-01 max", "2026-10-02 pro"]);
  });

  it("is chosen by the plan of its day", async () => {
    const plans = ["free", "pro", "free"];
    assert.deepEqual(await rows(plans, { plan: "free" }), ["2026-10-01 free", "2026-10-03 free"]);
    assert.deepEqual(await rows(plans, { plan: "max" }), []);
  });
});
