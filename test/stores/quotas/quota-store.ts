import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  admittedRateLimit,
  rateLimitRefusal,
  retryAfterSeconds,
} from "../../../src/core/quota/rate-limit-info.ts";
import { eventually } from "../../support/poll.ts";
import { describeAnchors } from "./quota-store-anchors.ts";
import { describeAsks } from "./quota-store-asks.ts";
import { describeBans } from "./quota-store-bans.ts";
import { describeCaps } from "./quota-store-caps.ts";
import {
  BANS,
  Bench,
  DAY,
  DAY_1,
  MINUTE,
  MINUTE_2_DAY_5,
  type OpenQuotaStore,
  SECOND,
  START,
  spend,
  spendTimes,
  used,
  usedIn,
} from "./quota-store-kit.ts";
import { describeMixed } from "./quota-store-mixed.ts";

/** The promises of QuotaStore: a new store calls this, a changed promise changes here. */
export function describeQuotaStore(engine: string, open: OpenQuotaStore): void {
  const bench = new Bench(open);
  describe(`${engine} charges`, () => {
    it("to the limit and no further, and every window or none", async () => {
      const { store, accountRef } = await bench.start();
      assert.deepEqual(await spendTimes(store, accountRef, MINUTE_2_DAY_5, 4), [
        true,
        true,
        false,
        false,
      ]);
      assert.deepEqual(await used(store, accountRef, MINUTE_2_DAY_5), [2, 2]);
      bench.nowMs += MINUTE;
      assert.deepEqual(await spendTimes(store, accountRef, MINUTE_2_DAY_5, 3), [true, true, false]);
      bench.nowMs += MINUTE;
      assert.deepEqual(await spendTimes(store, accountRef, MINUTE_2_DAY_5, 3), [
        true,
        false,
        false,
      ]);
      assert.deepEqual(await used(store, accountRef, MINUTE_2_DAY_5), [1, 5]);
    });

    it("exactly the limit when 300 ask at once", async () => {
      const { store, accountRef } = await bench.start();
      const limits = [{ window: "day", limit: 117 }] as const;
      const asks = Array.from({ length: 300 }, async () => spend(store, accountRef, limits));
      const answers = await Promise.all(asks);
      assert.equal(answers.filter(({ admitted }) => admitted).length, 117);
      assert.deepEqual(await used(store, accountRef, limits), [117]);
    });

    it("each of a hundred accounts on its own, in two environments", async () => {
      const { store, accountRef } = await bench.start();
      const accountRefs = Array.from({ length: 100 }, (_, i) => {
        const environment = i % 2 === 0 ? "production" : "staging";
        return { environment, account: `${accountRef.account}_${i >> 1}` };
      });
      const all = [...accountRefs, ...accountRefs].map((each) => spend(store, each, DAY_1));
      const admitted = (await Promise.all(all)).map((result) => result.admitted);
      assert.deepEqual(admitted.slice(0, 100), Array(100).fill(true));
      assert.deepEqual(admitted.slice(100), Array(100).fill(false));
    });

    it("anew in the next window and not a millisecond before it", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, [{ window: "minute", limit: 1 }]);
      bench.nowMs = Date.UTC(2026, 6, 15, 12, 30, 59, 999);
      assert.deepEqual(await spendTimes(store, accountRef, [{ window: "minute", limit: 1 }], 1), [
        false,
      ]);
      bench.nowMs += 1;
      assert.deepEqual(await spendTimes(store, accountRef, [{ window: "minute", limit: 1 }], 2), [
        true,
        false,
      ]);
    });

    it("a window to its end in UTC, of every length", async () => {
      const { store, accountRef } = await bench.start();
      const limits = (["second", "minute", "hour", "day", "month"] as const).map((window) => {
        return { window, limit: 9 };
      });
      const { decision } = await spend(store, accountRef, limits);
      assert.deepEqual(
        decision.windows.map(({ resetMs }) => new Date(resetMs).toISOString()),
        [
          "2026-07-15T12:30:11.000Z",
          "2026-07-15T12:31:00.000Z",
          "2026-07-15T13:00:00.000Z",
          "2026-07-16T00:00:00.000Z",
          "2026-08-01T00:00:00.000Z",
        ],
      );
    });

    it("on, with the count kept, when the limit changes in a running window", async () => {
      const { store, accountRef } = await bench.start();
      await spendTimes(store, accountRef, [{ window: "day", limit: 3 }], 4);
      store.invalidate();
      assert.deepEqual(await spendTimes(store, accountRef, [{ window: "day", limit: 5 }], 3), [
        true,
        true,
        false,
      ]);
      store.invalidate();
      assert.deepEqual(await spendTimes(store, accountRef, [{ window: "day", limit: 2 }], 1), [
        false,
      ]);
      assert.deepEqual(await used(store, accountRef, [{ window: "day", limit: 2 }]), [5]);
    });

    it("no second time for a window when the clock goes back over its start", async () => {
      const { store, accountRef } = await bench.start();
      const limits = [{ window: "minute", limit: 2 }] as const;
      bench.nowMs = Date.UTC(2026, 6, 15, 12, 31);
      assert.deepEqual(await spendTimes(store, accountRef, limits, 1), [true]);
      bench.nowMs -= 5 * SECOND;
      store.invalidate();
      assert.deepEqual(await spendTimes(store, accountRef, limits, 2), [true, false]);
      const { decision } = await spend(store, accountRef, limits);
      assert.equal(decision.windows[0]?.resetMs, Date.UTC(2026, 6, 15, 12, 32));
    });

    it("on in the present, and says so, when the clock had been a year ahead", async () => {
      const { store, accountRef } = await bench.start();
      bench.nowMs += 365 * DAY;
      await spend(store, accountRef, DAY_1);
      bench.nowMs = START;
      store.invalidate();
      const { admitted, decision } = await spend(store, accountRef, DAY_1);
      assert.deepEqual([admitted, decision.repaired], [false, true]);
      assert.deepEqual(decision.moved, [{ at: 0, fromMs: Date.UTC(2027, 6, 15) }]);
      assert.equal(decision.windows[0]?.resetMs, Date.UTC(2026, 6, 16));
    });
  });

  describe(`${engine} tells`, () => {
    it("an admitted request the window that refuses soonest, each its own remaining", async () => {
      const { store, accountRef } = await bench.start();
      const asks = [1, 2].map(() => spend(store, accountRef, MINUTE_2_DAY_5));
      const told = (await Promise.all(asks)).map(({ decision, requestsAfter }) => {
        return admittedRateLimit(decision, { requestsAfter });
      });
      const resetMs = Date.UTC(2026, 6, 15, 12, 31);
      assert.deepEqual(told, [
        { window: "minute", limit: 2, remaining: 1, resetMs },
        { window: "minute", limit: 2, remaining: 0, resetMs },
      ]);
    });

    it("a refused request the end of what refuses it, such that obeying it is enough", async () => {
      const { store, accountRef } = await bench.start();
      await spendTimes(store, accountRef, MINUTE_2_DAY_5, 2);
      bench.nowMs += 123;
      const { decision } = await spend(store, accountRef, MINUTE_2_DAY_5);
      const refusal = rateLimitRefusal(decision, bench.nowMs);
      assert.equal(refusal?.code, "rate_limited");
      const seconds = retryAfterSeconds(refusal?.rateLimitInfo.resetMs ?? 0, bench.nowMs);
      bench.nowMs += (seconds - 1) * SECOND;
      assert.deepEqual(await spendTimes(store, accountRef, MINUTE_2_DAY_5, 1), [false]);
      bench.nowMs += SECOND;
      assert.deepEqual(await spendTimes(store, accountRef, MINUTE_2_DAY_5, 1), [true]);
    });

    it("by a look what an ask would find, and charges nothing for it", async () => {
      const { store, accountRef } = await bench.start();
      const quotaRequest = { limits: MINUTE_2_DAY_5, bans: BANS };
      assert.deepEqual(usedIn((await store.peek(accountRef, quotaRequest)).windows), [0, 0]);
      await spend(store, accountRef, MINUTE_2_DAY_5);
      for (let i = 0; i < 5; i++) await store.peek(accountRef, quotaRequest);
      assert.deepEqual(usedIn((await store.peek(accountRef, quotaRequest)).windows), [1, 1]);
      bench.nowMs += MINUTE;
      assert.deepEqual(usedIn((await store.peek(accountRef, quotaRequest)).windows), [0, 1]);
    });

    it("what it knows of an account, once there was an answer and until told to forget", async () => {
      const { store, accountRef } = await bench.start();
      assert.equal(store.lastKnown(accountRef), undefined);
      await spend(store, accountRef, MINUTE_2_DAY_5);
      assert.deepEqual(usedIn(store.lastKnown(accountRef)?.windows ?? []), [1, 1]);
      assert.deepEqual(await used(store, accountRef, MINUTE_2_DAY_5), [1, 1]);
      store.invalidate(accountRef);
      assert.equal(store.lastKnown(accountRef), undefined);
      await spend(store, accountRef, MINUTE_2_DAY_5);
      store.invalidate();
      assert.equal(store.lastKnown(accountRef), undefined);
      const counts = store.lastKnown(accountRef, MINUTE_2_DAY_5)?.windows ?? [];
      assert.deepEqual(usedIn(counts), [2, 2], "counts stay as they are, whatever keys change");
      assert.deepEqual(await used(store, accountRef, MINUTE_2_DAY_5), [2, 2]);
    });

    it("of itself that it is well", async () => {
      const { store } = await bench.start();
      await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    });
  });

  describeAnchors(engine, bench);
  describeAsks(engine, bench);
  describeBans(engine, bench);
  describeCaps(engine, bench);
  describeMixed(engine, bench, 25);
}
