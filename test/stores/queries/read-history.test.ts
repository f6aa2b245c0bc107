import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { AccountRecord } from "../../../src/core/keys/records.ts";
import { dayOf } from "../../../src/core/quota/days.ts";
import {
  type DayReport,
  type HistoryFilter,
  readHistory,
} from "../../../src/stores/queries/read-history.ts";
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

const INCLUDED = 100;

/** The rows of December, with 4 units on each day from `first` on, as they are told on 5 January. */
async function december(historyDays: number, first: number, createdMs: number) {
  const at = (day: number) => Date.UTC(2026, 11, day, 12);
  let nowMs = at(first);
  const now = () => nowMs;
  const historyMs = historyDays * DAY_MS;
  await using things = new AsyncDisposableStack();
  const store = await createMemoryQuotaStore({ now, report: () => undefined, historyMs });
  things.defer(() => store.close());
  const quotaRequest = { limits: LIMITS, bans: undefined, requests: 1, cost: 4, plan: "max" };
  for (let day = first; day <= 31; day++) {
    nowMs = at(day);
    await store.charge({ environment: "production", account: "acme" }, quotaRequest);
  }
  nowMs = at(31 + 5);
  const span = { from: dayOf(at(1)), to: dayOf(at(31)) };
  const filter = { includedOf: () => INCLUDED };
  const told: DayReport[] = [];
  const account = { ...RECORD, createdMs };
  for await (const some of readHistory(store, [account], () => [span], filter)) told.push(...some);
  return told;
}

describe("the overage of a month", () => {
  const sumOf = (rows: readonly DayReport[]) => {
    return rows.reduce((sum, { overage = Number.NaN }) => sum + overage, 0);
  };

  it("is told while all days of the month are kept", async () => {
    assert.equal(sumOf(await december(62, 1, 0)), 24);
  });

  it("is not told too low where days of the month are no longer kept, but the reason", async () => {
    const rows = await december(30, 1, 0);
    assert.ok(rows.length >= 26);
    for (const { overage, overageUnknown } of rows) {
      assert.equal(overage, undefined);
      assert.equal(overageUnknown, "days of its month before 2026-12-06 are no longer kept");
    }
  });

  it("is told as long as the oldest day that is kept is the first one of the month", async () => {
    assert.equal(sumOf(await december(35, 1, 0)), 24);
    assert.equal(sumOf(await december(34, 1, 0)), Number.NaN);
  });

  it("is not told of an account that began on the oldest day, by a clock that may be ahead", async () => {
    assert.equal(sumOf(await december(30, 6, Date.UTC(2026, 11, 6))), Number.NaN);
    assert.equal(sumOf(await december(30, 6, Date.UTC(2026, 11, 7))), Number.NaN);
  });

  it("is not told of an account that was there before and used nothing on the days that are left", async () => {
    assert.equal(sumOf(await december(30, 7, 0)), Number.NaN);
  });

  it("is told of an account that began after the days that are no longer kept", async () => {
    const rows = await december(30, 7, Date.UTC(2026, 11, 7));
    assert.deepEqual([rows.length, sumOf(rows)], [25, 0]);
  });

  it("is not told of an account whose record is younger than its usage", async () => {
    const rows = await december(30, 1, Date.UTC(2027, 0, 4));
    assert.deepEqual(new Set(rows.map(({ overage }) => overage)), new Set([undefined]));
  });
});
