import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayOf, formatDay } from "../../../src/core/quota/days.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import { Bench, DAY, type OpenQuotaStore, spend } from "./quota-store-kit.ts";

const OCTOBER_30 = Date.UTC(2026, 9, 30);
const MONTH_1000 = [
  { window: "day", limit: 10 },
  { window: "month", limit: 1_000 },
] as const;

/** The rows of an account as text: `2026-10-30 3 7` for 3 requests of 7 units. */
async function rows(store: QuotaStore, accountRef: AccountRef): Promise<string[]> {
  const span = { from: dayOf(OCTOBER_30) - 40, to: dayOf(OCTOBER_30) + 40 };
  const [days = []] = await store.history([accountRef], span);
  return days.map(({ day, admitted, units }) => `${formatDay(day)} ${admitted} ${units}`);
}

/** The promises of QuotaStore about the usage by day: `open` gives a store that keeps it. */
export function describeHistory(engine: string, open: OpenQuotaStore): void {
  const bench = new Bench(open);

  describe(`${engine} keeps the usage by day`, () => {
    it("on both sides of midnight and of the end of a month", async () => {
      const { store, accountRef } = await bench.start();
      for (const [atMs, times] of [
        [OCTOBER_30 + DAY - 1, 2],
        [OCTOBER_30 + DAY, 3],
        [OCTOBER_30 + 2 * DAY - 1, 4],
        [OCTOBER_30 + 2 * DAY, 5],
      ] as const) {
        bench.nowMs = atMs;
        for (let i = 0; i < times; i++) await spend(store, accountRef, MONTH_1000);
      }
      assert.deepEqual(await rows(store, accountRef), [
        "2026-10-30 2 2",
        "2026-10-31 7 7",
        "2026-11-01 5 5",
      ]);
      const last = dayOf(OCTOBER_30) + 1;
      const [only = []] = await store.history([accountRef], { from: last, to: last });
      assert.deepEqual(
        only.map(({ day, units }) => [day, units]),
        [[last, 7]],
        "a day alone",
      );
    });

    it("of what was admitted, with its cost, and of nothing that was refused", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = OCTOBER_30;
      const quotaRequest = { limits: MONTH_1000, bans: undefined, requests: 1 };
      for (const cost of [4, 0, 4, 4, 1]) await store.charge(accountRef, { ...quotaRequest, cost });
      assert.deepEqual(await rows(store, accountRef), ["2026-10-30 4 9"]);
    });

    it("whatever is reset", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = OCTOBER_30;
      await spend(store, accountRef, MONTH_1000);
      await store.reset(accountRef);
      await spend(store, accountRef, MONTH_1000);
      assert.deepEqual(await rows(store, accountRef), ["2026-10-30 2 2"]);
    });

    it("with the plan of each day, whatever plan the account has later", async () => {
      const { store, accountRef } = await bench.start();
      const quotaRequest = { limits: MONTH_1000, bans: undefined, requests: 1 };
      for (const [days, plans] of [
        [0, ["free"]],
        [1, ["free", "pro"]],
        [2, ["pro"]],
        [4, ["pro", "free", "max"]],
        [5, ["free"]],
      ] as const) {
        bench.nowMs = OCTOBER_30 + days * DAY;
        for (const plan of plans) await store.charge(accountRef, { ...quotaRequest, plan });
      }
      const span = { from: dayOf(OCTOBER_30), to: dayOf(OCTOBER_30) + 9 };
      const [days = []] = await store.history([accountRef], span);
      assert.deepEqual(
        days.map(({ day, plan, units }) => `${formatDay(day)} ${plan} ${units}`),
        [
          "2026-10-30 free 1",
          "2026-10-31 pro 2",
          "2026-11-01 pro 1",
          "2026-11-03 max 3",
          "2026-11-04 free 1",
        ],
      );
    });

    it("with the later plan of two requests that wait together", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = OCTOBER_30;
      const quotaRequest = { limits: MONTH_1000, bans: undefined, requests: 1 };
      await Promise.all(
        ["free", "pro"].map((plan) => store.charge(accountRef, { ...quotaRequest, plan })),
      );
      const span = { from: dayOf(OCTOBER_30), to: dayOf(OCTOBER_30) };
      const [days = []] = await store.history([accountRef], span);
      assert.deepEqual(
        days.map(({ plan, units }) => [plan, units]),
        [["pro", 2]],
      );
    });

    it("with no plan where no request named one", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = OCTOBER_30;
      await spend(store, accountRef, MONTH_1000);
      const span = { from: dayOf(OCTOBER_30), to: dayOf(OCTOBER_30) };
      const [days = []] = await store.history([accountRef], span);
      assert.deepEqual(
        days.map((row) => "plan" in row),
        [false],
      );
    });

    it("of each account by itself, and of no address", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = OCTOBER_30;
      const visitor = { environment: "production", account: "addr:192.0.2.1" };
      await spend(store, accountRef, MONTH_1000);
      await spend(store, visitor, MONTH_1000);
      const other = { environment: "staging", account: accountRef.account };
      await spend(store, other, MONTH_1000);
      await spend(store, other, MONTH_1000);
      const all = await Promise.all([accountRef, other, visitor].map((one) => rows(store, one)));
      assert.deepEqual(all, [["2026-10-30 1 1"], ["2026-10-30 2 2"], []]);
    });

    it("from the moment that a reload says so, and no longer", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = OCTOBER_30;
      const policy = { onStoreFailure: "deny", expectedGateways: 1, storeTimeoutMs: 50 } as const;
      store.reconfigure?.({ ...policy, historyMs: undefined, bans: undefined });
      await spend(store, accountRef, MONTH_1000);
      store.reconfigure?.({ ...policy, historyMs: DAY, bans: undefined });
      await spend(store, accountRef, MONTH_1000);
      assert.deepEqual(await rows(store, accountRef), ["2026-10-30 1 1"]);
    });
  });
}
