import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { rateLimitRefusal } from "../../../src/core/quota/rate-limit-info.ts";
import { type Limit, mergeLimits, sortByLength } from "../../../src/core/quota/windows.ts";
import type { ChargeResult } from "../../../src/stores/quotas/quota-store.ts";
import { BANS, type Bench, DAY, MINUTE, SECOND, spend } from "./quota-store-kit.ts";

const PLAN: readonly Limit[] = [{ window: "day", limit: 10 }];

/** The limits of a key with this number and cap, beside those of its account. */
function capped(
  number: number,
  limit: number,
  window: Limit["window"] = "minute",
): readonly Limit[] {
  const cap = { window, limit, part: { id: `@${number}`, name: "key" } };
  return mergeLimits(sortByLength([...PLAN, cap]), {});
}

const usedOf = ({ decision }: ChargeResult) => decision.windows.map(({ used }) => used);
const refusalOf = ({ decision }: ChargeResult) => {
  const { code, rateLimitInfo } = rateLimitRefusal(decision, decision.nowMs) ?? {};
  return [code, rateLimitInfo?.window];
};

/** Limits of one key inside its account. */
export function describeCaps(engine: string, bench: Bench): void {
  describe(`${engine} counts caps of keys`, () => {
    const [one, other] = [capped(1, 2), capped(17, 3)];

    it("each by itself, and all of them in the account", async () => {
      const { store, accountRef } = await bench.start();
      for (const limits of [one, other, one])
        assert.ok((await spend(store, accountRef, limits)).admitted);
      const refused = await spend(store, accountRef, one);
      assert.deepEqual([refused.admitted, usedOf(refused)], [false, [2, 3]]);
      assert.deepEqual(refusalOf(refused), ["rate_limited", "key.minute"]);
      assert.deepEqual(usedOf(await spend(store, accountRef, other)), [2, 4]);
      assert.deepEqual(usedOf(await spend(store, accountRef, PLAN)), [5]);
    });

    it("all or none: a request that the account refuses takes nothing of the cap, nor the reverse", async () => {
      const { store, accountRef } = await bench.start();
      const wide = capped(1, 100);
      for (let i = 0; i < 10; i++) assert.ok((await spend(store, accountRef, wide)).admitted);
      const refused = await spend(store, accountRef, wide);
      assert.deepEqual([refused.admitted, usedOf(refused)], [false, [10, 10]]);
      assert.deepEqual(refusalOf(refused), ["rate_limited", "day"]);
    });

    it("without a strike: a key that runs against its cap for long is not banned, nor its account", async () => {
      const { store, accountRef } = await bench.start();
      const daily = capped(1, 1, "day");
      await spend(store, accountRef, daily);
      for (let i = 0; i < 60; i++) {
        bench.nowMs += 2 * SECOND;
        const { admitted, decision } = await spend(store, accountRef, daily);
        assert.deepEqual([admitted, decision.strikes, decision.ban], [false, 0, undefined]);
      }
      assert.ok((await spend(store, accountRef, PLAN)).admitted);
      const banned = (await store.bans()).map(({ account }) => account);
      assert.ok(!banned.includes(accountRef.account));
    });

    it("with strikes where the account's own window is used up as well", async () => {
      const { store, accountRef } = await bench.start();
      const limits = capped(1, 10, "day");
      for (let i = 0; i < 10; i++) await spend(store, accountRef, limits);
      let last = await spend(store, accountRef, limits);
      for (let i = 0; i < BANS.strikes + 1 && last.decision.ban === undefined; i++) {
        bench.nowMs += 2 * SECOND;
        last = await spend(store, accountRef, limits);
      }
      assert.ok(last.decision.ban !== undefined);
    });

    it("anew in each of their windows, whatever the other window does", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, one);
      await spend(store, accountRef, one);
      bench.nowMs += MINUTE;
      assert.deepEqual(usedOf(await spend(store, accountRef, one)), [1, 3]);
      bench.nowMs += DAY;
      assert.deepEqual(usedOf(await spend(store, accountRef, one)), [1, 1]);
    });

    it("on, through a peek, which charges nothing, and a reset sets them to 0 with the account", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, one);
      const peeked = await store.peek(accountRef, { limits: one, bans: BANS });
      assert.deepEqual(
        peeked.windows.map(({ used }) => used),
        [1, 1],
      );
      const reset = await store.reset(accountRef);
      assert.deepEqual(reset.map(({ counter, units }) => [counter, units]).sort(), [
        ["@1.minute", 1],
        ["day", 1],
      ]);
      assert.deepEqual(usedOf(await spend(store, accountRef, one)), [1, 1]);
      assert.deepEqual(
        (await store.reset(accountRef, { counters: ["day"] })).map(({ counter }) => counter),
        ["day"],
      );
      assert.deepEqual(usedOf(await spend(store, accountRef, one)), [2, 1]);
    });

    it("on when others are reset by name, and each cap that is named goes back to 0 with its figures", async () => {
      const { store, accountRef } = await bench.start();
      for (const limits of [one, other, other]) await spend(store, accountRef, limits);
      const reset = await store.reset(accountRef, { counters: ["@17.minute", "@2.minute"] });
      assert.deepEqual(reset, [{ counter: "@17.minute", units: 2 }]);
      assert.deepEqual(usedOf(await spend(store, accountRef, other)), [1, 4]);
      assert.deepEqual(usedOf(await spend(store, accountRef, one)), [2, 5]);
    });
  });
}
