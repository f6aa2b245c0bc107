import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayOf } from "../../../src/core/quota/days.ts";
import { Bench, DAY, MINUTE, type OpenQuotaStore, START } from "./quota-store-kit.ts";

const TODAY = dayOf(START);

/** The promises of UsageMarks: `open` gives a store that keeps days. */
export function describeUsageMarks(engine: string, open: OpenQuotaStore): void {
  const bench = new Bench(open);

  describe(`${engine} marks usage events`, () => {
    it("by account and environment, and no mark goes back", async () => {
      const { store, accountRef } = await bench.start();
      const { usageMarks } = store;
      const elsewhere = { ...accountRef, environment: "staging" };
      await usageMarks.raise([
        { accountRef, day: TODAY - 3 },
        { accountRef: elsewhere, day: TODAY - 9 },
      ]);
      await usageMarks.raise([{ accountRef, day: TODAY - 5 }]);
      await usageMarks.raise([]);
      const none = { ...accountRef, account: "none" };
      const marks = await usageMarks.read([none, elsewhere, accountRef]);
      assert.deepEqual(
        marks.map((mark) => mark?.day),
        [undefined, TODAY - 9, TODAY - 3],
      );
      assert.deepEqual(await usageMarks.read([]), []);
    });

    it("of 2,500 accounts at once", async () => {
      const { store } = await bench.start();
      const accountRefs = Array.from({ length: 2_500 }, (_, i) => {
        return { environment: "production", account: `a_${i}` };
      });
      await store.usageMarks.raise(accountRefs.map((accountRef, i) => ({ accountRef, day: i })));
      const marks = await store.usageMarks.read(accountRefs);
      assert.deepEqual(
        marks.map((mark) => mark?.day),
        accountRefs.map((_, i) => i),
      );
    });

    it("and closes a day 15 minutes after its end, by the clock of the store", async () => {
      const { store, accountRef } = await bench.start();
      const midnight = TODAY * DAY;
      for (const [atMs, closed] of [
        [midnight, TODAY - 2],
        [midnight + 15 * MINUTE - 1, TODAY - 2],
        [midnight + 15 * MINUTE, TODAY - 1],
        [midnight + DAY + 15 * MINUTE - 1, TODAY - 1],
      ] as const) {
        bench.nowMs = atMs;
        const [mark] = await store.usageMarks.read([accountRef]);
        assert.equal(mark?.closedDay, closed, String(atMs - midnight));
      }
    });

    it("and lets a gateway claim as often as it wants", async () => {
      const { store } = await bench.start();
      assert.deepEqual(
        [await store.usageMarks.claim(60_000), await store.usageMarks.claim(60_000)],
        [true, true],
      );
      await store.usageMarks.release();
      assert.equal(await store.usageMarks.claim(60_000), true);
    });
  });
}
