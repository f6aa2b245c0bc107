import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import type { QuotaRequest } from "../../../src/core/quota/decide.ts";
import { crossedLimits, rateLimitRefusal } from "../../../src/core/quota/rate-limit-info.ts";
import { type Limit, mergeLimits } from "../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { ChargeResult, QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import {
  BANS,
  type Bench,
  DAY_1,
  MINUTE,
  MINUTE_2_DAY_5,
  SECOND,
  spend,
  spendTimes,
  used,
} from "./quota-store-kit.ts";

const CREATE = { id: "1z141z3", name: "createPet" };
const plan = [{ window: "day", limit: 10 }] as const;
const create: readonly Limit[] = [{ window: "minute", limit: 2, part: CREATE }];
const both = mergeLimits(plan, { operation: create });

async function ask(
  store: QuotaStore,
  accountRef: AccountRef,
  given: Partial<QuotaRequest>,
): Promise<ChargeResult> {
  const answer = await store.charge(accountRef, {
    limits: plan,
    bans: BANS,
    requests: 1,
    ...given,
  });
  assert.ok("decision" in answer, "the store gave no answer");
  return answer;
}

/** Costs, windows of operations, limits that are only observed, and resets. */
export function describeAsks(engine: string, bench: Bench): void {
  describe(`${engine} charges a cost`, () => {
    it("to all windows or none, and leaves what is too little for it to others", async () => {
      const { store, accountRef } = await bench.start();
      const admitted = [];
      for (const cost of [4, 4, 4, 2, 1, 0]) {
        admitted.push((await ask(store, accountRef, { cost })).admitted);
      }
      assert.deepEqual(admitted, [true, true, false, true, false, true]);
      assert.deepEqual(await used(store, accountRef, plan), [10]);
    });

    it("to nothing where no window is asked about, and looks for the ban alone", async () => {
      const { store, accountRef } = await bench.start();
      const look = () => store.peek(accountRef, { limits: [], bans: BANS });
      const before = await look();
      assert.deepEqual([before.windows, before.ban], [[], undefined]);
      await store.ban(accountRef, {
        lengthMs: 60_000,
        window: "day",
        keptMs: 0,
        plan: "free",
        reason: "",
      });
      assert.equal((await look()).ban?.lengthMs, 60_000);
    });

    it("in the order of the asks, whichever came together", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.integer({ min: 0, max: 7 }), { maxLength: 12 }),
          async (costs) => {
            const { store, accountRef } = await bench.start();
            const answers = await Promise.all(
              costs.map((cost) => ask(store, accountRef, { cost, bans: undefined })),
            );
            let count = 0;
            const expected = costs.map((cost) => {
              const fits = cost === 0 || count + cost <= 10;
              if (fits) count += cost;
              return fits;
            });
            assert.deepEqual(
              answers.map(({ admitted }) => admitted),
              expected,
            );
            const left = answers.map(({ admitted, decision, requestsAfter }, i) => {
              const after = requestsAfter * (costs[i] ?? 0);
              return admitted ? 10 - (decision.windows[0]?.used ?? 0) + after : undefined;
            });
            let spent = 0;
            costs.forEach((cost, i) => {
              if (!expected[i]) return;
              spent += cost;
              assert.equal(left[i], 10 - spent, "each is told what it left");
            });
            assert.deepEqual(await used(store, accountRef, plan), [count]);
          },
        ),
        { numRuns: 25 },
      );
    });

    it("of nothing to a banned account no more than any other", async () => {
      const { store, accountRef } = await bench.start();
      await spendTimes(store, accountRef, DAY_1, 2);
      for (let i = 0; i < 3; i++) {
        bench.nowMs += SECOND + 1;
        await spend(store, accountRef, DAY_1);
      }
      const result = await ask(store, accountRef, { limits: DAY_1, cost: 0 });
      assert.equal(result.admitted, false);
      assert.ok(result.decision.ban);
    });
  });

  describe(`${engine} limits an operation`, () => {
    it("beside the account, whose other operations go on", async () => {
      const { store, accountRef } = await bench.start();
      const admitted = [];
      for (let i = 0; i < 3; i++)
        admitted.push((await ask(store, accountRef, { limits: both })).admitted);
      assert.deepEqual(admitted, [true, true, false]);
      const refused = await ask(store, accountRef, { limits: both });
      const refusal = rateLimitRefusal(refused.decision, bench.nowMs);
      assert.equal(refusal?.rateLimitInfo.window, "createPet.minute");
      assert.equal((await ask(store, accountRef, {})).admitted, true);
      assert.deepEqual(await used(store, accountRef, both), [2, 3]);
      bench.nowMs += MINUTE;
      assert.equal((await ask(store, accountRef, { limits: both })).admitted, true);
      assert.deepEqual(await used(store, accountRef, both), [1, 4]);
    });

    it("and keeps the count over asks that do not have it", async () => {
      const { store, accountRef } = await bench.start();
      await ask(store, accountRef, { limits: both });
      for (let i = 0; i < 3; i++) await ask(store, accountRef, {});
      assert.deepEqual(await used(store, accountRef, both), [1, 4]);
    });

    it("to a ban that its own refusals earn", async () => {
      const { store, accountRef } = await bench.start();
      for (let i = 0; i < 3; i++) await ask(store, accountRef, { limits: both });
      let earned: ChargeResult["earned"];
      const struckMs: number[] = [];
      for (let i = 0; i < 3; i++) {
        bench.nowMs += SECOND + 1;
        struckMs.push(bench.nowMs);
        earned = (await ask(store, accountRef, { limits: both })).earned;
      }
      assert.deepEqual([earned?.window, earned?.operation], ["minute", CREATE.id]);
      assert.deepEqual(earned?.strikesMs, struckMs, "each strike is told by its instant");
      assert.equal(
        (await store.peek(accountRef, { limits: both, bans: BANS })).ban?.operation,
        CREATE.id,
      );
      const [listed] = (await store.bans()).filter(({ account }) => account === accountRef.account);
      assert.equal(listed?.ban.operation, CREATE.id);
    });
  });

  describe(`${engine} observes`, () => {
    it("a limit without refusing, and counts a window that the plan lacks", async () => {
      const { store, accountRef } = await bench.start();
      const observe: readonly Limit[] = [
        { window: "minute", limit: 1 },
        { window: "day", limit: 2 },
      ];
      const limits = mergeLimits(plan, { observe });
      const crossed = [];
      for (let i = 0; i < 3; i++) {
        const { admitted, decision, requestsAfter } = await ask(store, accountRef, { limits });
        assert.equal(admitted, true);
        crossed.push(crossedLimits(decision, observe, { requestsAfter }));
      }
      assert.deepEqual(crossed, [[], ["minute"], ["minute", "day"]]);
      const inPlan = [{ window: "minute", limit: 3 }, ...plan] as const;
      assert.equal(
        (await ask(store, accountRef, { limits: inPlan })).admitted,
        false,
        "counts go on",
      );
    });

    it("a ban without keeping it, and tells each once its strikes are made", async () => {
      const { store, accountRef } = await bench.start();
      const bans = { ...BANS, observe: true };
      await spendTimes(store, accountRef, DAY_1, 1);
      const earned = [];
      for (let i = 0; i < 8; i++) {
        const result = await ask(store, accountRef, { limits: DAY_1, bans });
        assert.equal(result.decision.ban, undefined);
        earned.push(result.earned?.offences);
        bench.nowMs += SECOND + 1;
      }
      const none = undefined;
      assert.deepEqual(earned, [none, none, none, 1, none, none, 1, none]);
      const banned = (await store.bans()).map(({ account }) => account);
      assert.ok(!banned.includes(accountRef.account));
    });
  });

  describe(`${engine} resets`, () => {
    it("every running window and its first refusal, and tells what it had counted", async () => {
      const { store, accountRef } = await bench.start();
      await spendTimes(store, accountRef, MINUTE_2_DAY_5, 4);
      bench.nowMs += MINUTE;
      await spendTimes(store, accountRef, MINUTE_2_DAY_5, 1);
      const reset = await store.reset(accountRef);
      assert.deepEqual(
        reset.toSorted((a, b) => a.units - b.units),
        [
          { counter: "minute", units: 1 },
          { counter: "day", units: 3 },
        ],
      );
      assert.deepEqual(await used(store, accountRef, MINUTE_2_DAY_5), [0, 0]);
      const known = store.lastKnown(accountRef)?.windows ?? [];
      assert.ok(!known.some((window) => window.used !== 0));
      bench.nowMs += SECOND + 1;
      assert.deepEqual(await spendTimes(store, accountRef, MINUTE_2_DAY_5, 3), [true, true, false]);
      assert.equal((await spend(store, accountRef, MINUTE_2_DAY_5)).decision.strikes, 0);
      assert.deepEqual(await store.reset({ ...accountRef, account: "nobody" }), []);
    });

    it("the windows that are named, an operation's among them, and leaves strikes and bans", async () => {
      const { store, accountRef } = await bench.start();
      for (let i = 0; i < 3; i++) await ask(store, accountRef, { limits: both });
      bench.nowMs += SECOND + 1;
      assert.equal((await ask(store, accountRef, { limits: both })).decision.strikes, 1);
      const counter = `${CREATE.id}.minute`;
      assert.deepEqual(await store.reset(accountRef, { counters: [counter] }), [
        { counter, units: 2 },
      ]);
      assert.deepEqual(await used(store, accountRef, both), [0, 2]);
      const { admitted, decision } = await ask(store, accountRef, { limits: both });
      assert.deepEqual([admitted, decision.strikes], [true, 1]);
      assert.deepEqual(await store.reset(accountRef, { counters: [] }), []);
    });

    it("nothing of a window that is over", async () => {
      const { store, accountRef } = await bench.start();
      await spendTimes(store, accountRef, MINUTE_2_DAY_5, 2);
      bench.nowMs += MINUTE;
      assert.deepEqual(await store.reset(accountRef), [{ counter: "day", units: 2 }]);
    });
  });
}
