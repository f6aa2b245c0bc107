import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type Calendar, changeAnchor } from "../../../src/core/quota/calendar.ts";
import { rateLimitRefusal, retryAfterSeconds } from "../../../src/core/quota/rate-limit-info.ts";
import { type Limit, mergeLimits } from "../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import { BANS, type Bench, DAY, SECOND, spend, spendTimes } from "./quota-store-kit.ts";

const FROM_15: Calendar = [{ day: 15, fromMs: 0 }];
const FROM_31: Calendar = [{ day: 31, fromMs: 0 }];
const at = (text: string) => Date.parse(text);
const monthly = (limit: number, calendar?: Calendar): readonly Limit[] => {
  return mergeLimits([{ window: "month", limit }], { calendar });
};
const endOf = async (store: QuotaStore, accountRef: AccountRef, limits: readonly Limit[]) => {
  const { windows } = await store.peek(accountRef, { limits, bans: BANS });
  return windows.map(({ used, resetMs }) => [used, new Date(resetMs).toISOString().slice(0, 10)]);
};

/** Months that begin on a day of the account's own, in any store. */
export function describeAnchors(engine: string, bench: Bench): void {
  describe(`${engine} counts months from an anchor`, () => {
    it("to the next anchor day and not a millisecond less, with the whole limit again after it", async () => {
      const { store, accountRef } = await bench.start();
      const limits = monthly(2, FROM_15);
      bench.nowMs = at("2026-07-14T23:59:59Z");
      assert.deepEqual(await spendTimes(store, accountRef, limits, 3), [true, true, false]);
      bench.nowMs = at("2026-07-14T23:59:59.999Z");
      assert.deepEqual(await spendTimes(store, accountRef, limits, 1), [false]);
      bench.nowMs += 1;
      assert.deepEqual(await spendTimes(store, accountRef, limits, 3), [true, true, false]);
      bench.nowMs = at("2026-08-01T00:00:00Z");
      assert.deepEqual(await spendTimes(store, accountRef, limits, 1), [false]);
      assert.deepEqual(await endOf(store, accountRef, limits), [[2, "2026-08-15"]]);
    });

    it("on the last day of a month that lacks the day", async () => {
      const { store, accountRef } = await bench.start();
      const limits = monthly(1, FROM_31);
      for (const [day, end] of [
        ["2028-01-31", "2028-02-29"],
        ["2028-02-29", "2028-03-31"],
        ["2028-03-31", "2028-04-30"],
        ["2028-04-30", "2028-05-31"],
      ] as const) {
        bench.nowMs = at(day);
        assert.deepEqual(await spendTimes(store, accountRef, limits, 2), [true, false], day);
        assert.deepEqual(await endOf(store, accountRef, limits), [[1, end]]);
      }
    });

    it("so that obeying Retry-After is enough and one second less is not, through a change", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = at("2026-11-22T12:00:00.123Z");
      const changed = changeAnchor(undefined, 15, bench.nowMs);
      assert.ok("calendar" in changed);
      const limits = monthly(1, changed.calendar);
      await spendTimes(store, accountRef, monthly(1), 1);
      for (const end of ["2026-12-01", "2026-12-15", "2027-01-15", "2027-02-15"]) {
        const { admitted, decision } = await spend(store, accountRef, limits);
        assert.equal(admitted, false);
        const refusal = rateLimitRefusal(decision, bench.nowMs);
        assert.equal(new Date(refusal?.rateLimitInfo.resetMs ?? 0).toISOString().slice(0, 10), end);
        const seconds = retryAfterSeconds(refusal?.rateLimitInfo.resetMs ?? 0, bench.nowMs);
        bench.nowMs += (seconds - 1) * SECOND;
        assert.deepEqual(await spendTimes(store, accountRef, limits, 1), [false]);
        bench.nowMs += SECOND;
        assert.deepEqual(await spendTimes(store, accountRef, limits, 1), [true]);
      }
    });

    it("from the same start, whether a gateway knows the change of the anchor yet or not", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = at("2026-11-30T23:59:59Z");
      const changed = changeAnchor(undefined, 15, bench.nowMs);
      assert.ok("calendar" in changed);
      const [old, fresh] = [monthly(4), monthly(4, changed.calendar)];
      assert.deepEqual(await spendTimes(store, accountRef, old, 1), [true]);
      assert.deepEqual(await spendTimes(store, accountRef, fresh, 1), [true]);
      assert.deepEqual(await endOf(store, accountRef, fresh), [[2, "2026-12-01"]]);
      bench.nowMs = at("2026-12-01T00:00:00Z");
      for (const limits of [old, fresh, old, fresh]) {
        assert.deepEqual(await spendTimes(store, accountRef, limits, 1), [true]);
      }
      store.invalidate(accountRef);
      assert.deepEqual(await spendTimes(store, accountRef, fresh, 1), [false]);
      assert.deepEqual(await endOf(store, accountRef, fresh), [[4, "2026-12-15"]]);
    });

    it("for operations and keys too, beside years and days of UTC", async () => {
      const { store, accountRef } = await bench.start();
      const own: readonly Limit[] = [
        { window: "day", limit: 9 },
        { window: "month", limit: 9, part: { id: "@3", name: "key" } },
        { window: "year", limit: 9 },
      ];
      const operation = [{ window: "month", limit: 9, part: { id: "1z1", name: "list" } }] as const;
      const limits = mergeLimits(own, { operation, calendar: FROM_15 });
      bench.nowMs = at("2026-07-20T10:00:00Z");
      await spend(store, accountRef, limits);
      const { decision } = await spend(store, accountRef, limits);
      const named = (await store.peek(accountRef, { limits, bans: BANS })).windows;
      assert.deepEqual(decision.windows, named);
      assert.deepEqual(
        named.map(({ window, part, used, resetMs }) => {
          return [part?.name, window, used, new Date(resetMs).toISOString().slice(0, 10)];
        }),
        [
          [undefined, "day", 2, "2026-07-21"],
          ["key", "month", 2, "2026-08-15"],
          ["list", "month", 2, "2026-08-15"],
          [undefined, "year", 2, "2027-01-01"],
        ],
      );
    });

    it("that another request without them leaves alone, and that a reset finds while they run", async () => {
      const { store, accountRef } = await bench.start();
      const limits = monthly(5, FROM_15);
      bench.nowMs = at("2026-07-20T10:00:00Z");
      await spendTimes(store, accountRef, limits, 3);
      bench.nowMs = at("2026-08-10T10:00:00Z");
      await spendTimes(store, accountRef, [{ window: "day", limit: 5 }], 1);
      assert.deepEqual(await endOf(store, accountRef, limits), [[3, "2026-08-15"]]);
      const reset = await store.reset(accountRef, { calendar: FROM_15, counters: ["month"] });
      assert.deepEqual(reset, [{ counter: "month", units: 3 }]);
      assert.deepEqual(await endOf(store, accountRef, limits), [[0, "2026-08-15"]]);
      await spendTimes(store, accountRef, limits, 2);
      bench.nowMs = at("2026-08-15T00:00:00Z");
      assert.deepEqual(
        await store.reset(accountRef, { calendar: FROM_15, counters: ["month"] }),
        [],
      );
    });

    it("for accounts with different anchors that ask at once", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs = at("2026-07-14T00:00:00Z") - DAY;
      const calendars = [undefined, FROM_15, FROM_31, FROM_15, undefined];
      const accounts = calendars.map((calendar, i) => {
        return {
          limits: monthly(2, calendar),
          name: { ...accountRef, account: `${accountRef.account}_${i}` },
        };
      });
      const ask = async () => {
        const all = [...accounts, ...accounts, ...accounts].map((one) => {
          return spend(store, one.name, one.limits, "off");
        });
        const admitted = (await Promise.all(all)).map((result) => result.admitted);
        return accounts.map((_, i) => [0, 5, 10].filter((more) => admitted[i + more]).length);
      };
      assert.deepEqual(await ask(), [2, 2, 2, 2, 2]);
      bench.nowMs = at("2026-07-15T00:00:00Z");
      assert.deepEqual(await ask(), [0, 2, 0, 2, 0]);
      bench.nowMs = at("2026-07-31T00:00:00Z");
      assert.deepEqual(await ask(), [0, 0, 2, 0, 0]);
      bench.nowMs = at("2026-08-01T00:00:00Z");
      assert.deepEqual(await ask(), [2, 0, 0, 0, 2]);
    });
  });
}
