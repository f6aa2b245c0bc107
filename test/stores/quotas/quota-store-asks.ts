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
  name: AccountRef,
  given: Partial<QuotaRequest>,
): Promise<ChargeResult> {
  const answer = await store.charge(name, { limits: plan, bans: BANS, requests: 1, ...given });
  assert.ok("verdict" in answer, "the store gave no answer");
  return answer;
}

/** Costs, windows of operations, limits that are only observed, and resets. */
export function describeAsks(engine: string, bench: Bench): void {
  describe(`${engine} charges a cost`, () => {
    it("to all windows or none, and leaves what is too little for it to others", async () => {
      const { store, name } = await bench.start();
      const admitted = [];
      for (const cost of [4, 4, 4, 2, 1, 0]) {
        admitted.push((await ask(store, name, { cost })).admitted);
      }
      assert.deepEqual(admitted, [true, true, false, true, false, true]);
      assert.deepEqual(await used(store, name, plan), [10]);
    });

    it("to nothing where no window is asked about, and looks for the ban alone", async () => {
      const { store, name } = await bench.start();
      const look = () => store.peek(name, { limits: [], bans: BANS });
      const before = await look();
      assert.deepEqual([before.windows, before.ban], [[], undefined]);
      await store.ban(name, {
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
            const { store, name } = await bench.start();
            const answers = await Promise.all(
              costs.map((cost) => ask(store, name, { cost, bans: undefined })),
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
            const left = answers.map(({ admitted, verdict, unspent }, i) => {
              const after = unspent * (costs[i] ?? 0);
              return admitted ? 10 - (verdict.windows[0]?.used ?? 0) + after : undefined;
            });
            let spent = 0;
            costs.forEach((cost, i) => {
              if (!expected[i]) return;
              spent += cost;
              assert.equal(left[i], 10 - spent, "each is told what it left");
            });
            assert.deepEqual(await used(store, name, plan), [count]);
          },
        ),
        { numRuns: 25 },
      );
    });

    it("of nothing to a banned account no more than any other", async () => {
      const { store, name } = await bench.start();
      await spendTimes(store, name, DAY_1, 2);
      for (let i = 0; i < 3; i++) {
        bench.nowMs += SECOND + 1;
        await spend(store, name, DAY_1);
      }
      const answer = await ask(store, name, { limits: DAY_1, cost: 0 });
      assert.equal(answer.admitted, false);
      assert.ok(answer.verdict.ban);
    });
  });

  describe(`${engine} limits an operation`, () => {
    it("beside the account, whose other operations go on", async () => {
      const { store, name } = await bench.start();
      const admitted = [];
      for (let i = 0; i < 3; i++)
        admitted.push((await ask(store, name, { limits: both })).admitted);
      assert.deepEqual(admitted, [true, true, false]);
      const refused = await ask(store, name, { limits: both });
      const refusal = rateLimitRefusal(refused.verdict, bench.nowMs);
      assert.equal(refusal?.standing.window, "createPet.minute");
      assert.equal((await ask(store, name, {})).admitted, true);
      assert.deepEqual(await used(store, name, both), [2, 3]);
      bench.nowMs += MINUTE;
      assert.equal((await ask(store, name, { limits: both })).admitted, true);
      assert.deepEqual(await used(store, name, both), [1, 4]);
    });

    it("and keeps the count over asks that do not have it", async () => {
      const { store, name } = await bench.start();
      await ask(store, name, { limits: both });
      for (let i = 0; i < 3; i++) await ask(store, name, {});
      assert.deepEqual(await used(store, name, both), [1, 4]);
    });

    it("to a ban that its own refusals earn", async () => {
      const { store, name } = await bench.start();
      for (let i = 0; i < 3; i++) await ask(store, name, { limits: both });
      let earned: ChargeResult["earned"];
      const struckMs: number[] = [];
      for (let i = 0; i < 3; i++) {
        bench.nowMs += SECOND + 1;
        struckMs.push(bench.nowMs);
        earned = (await ask(store, name, { limits: both })).earned;
      }
      assert.deepEqual([earned?.window, earned?.operation], ["minute", CREATE.id]);
      assert.deepEqual(earned?.strikesMs, struckMs, "each strike is told by its instant");
      assert.equal(
        (await store.peek(name, { limits: both, bans: BANS })).ban?.operation,
        CREATE.id,
      );
      const [listed] = (await store.bans()).filter(({ account }) => account === name.account);
      assert.equal(listed?.ban.operation, CREATE.id);
    });
  });

  describe(`${engine} observes`, () => {
    it("a limit without refusing, and counts a window that the plan lacks", async () => {
      const { store, name } = await bench.start();
      const observe: readonly Limit[] = [
        { window: "minute", limit: 1 },
        { window: "day", limit: 2 },
      ];
      const limits = mergeLimits(plan, { observe });
      const crossed = [];
      for (let i = 0; i < 3; i++) {
        const { admitted, verdict, unspent } = await ask(store, name, { limits });
        assert.equal(admitted, true);
        crossed.push(crossedLimits(verdict, observe, { unspent }));
      }
      assert.deepEqual(crossed, [[], ["minute"], ["minute", "day"]]);
      const inPlan = [{ window: "minute", limit: 3 }, ...plan] as const;
      assert.equal((await ask(store, name, { limits: inPlan })).admitted, false, "counts go on");
    });

    it("a ban without keeping it, and tells each once its strikes are made", async () => {
      const { store, name } = await bench.start();
      const bans = { ...BANS, observe: true };
      await spendTimes(store, name, DAY_1, 1);
      const earned = [];
      for (let i = 0; i < 8; i++) {
        const answer = await ask(store, name, { limits: DAY_1, bans });
        assert.equal(answer.verdict.ban, undefined);
        earned.push(answer.earned?.offences);
        bench.nowMs += SECOND + 1;
      }
      const none = undefined;
      assert.deepEqual(earned, [none, none, none, 1, none, none, 1, none]);
      const banned = (await store.bans()).map(({ account }) => account);
      assert.ok(!banned.includes(name.account));
    });
  });

  describe(`${engine} resets`, () => {
    it("every running window and its first refusal, and tells what it had counted", async () => {
      const { store, name } = await bench.start();
      await spendTimes(store, name, MINUTE_2_DAY_5, 4);
      bench.nowMs += MINUTE;
      await spendTimes(store, name, MINUTE_2_DAY_5, 1);
      const reset = await store.reset(name);
      assert.deepEqual(
        reset.toSorted((a, b) => a.units - b.units),
        [
          { counter: "minute", units: 1 },
          { counter: "day", units: 3 },
        ],
      );
      assert.deepEqual(await used(store, name, MINUTE_2_DAY_5), [0, 0]);
      const known = store.lastKnown(name)?.windows ?? [];
      assert.ok(!known.some((window) => window.used !== 0));
      bench.nowMs += SECOND + 1;
      assert.deepEqual(await spendTimes(store, name, MINUTE_2_DAY_5, 3), [true, true, false]);
      assert.equal((await spend(store, name, MINUTE_2_DAY_5)).verdict.strikes, 0);
      assert.deepEqual(await store.reset({ ...name, account: "nobody" }), []);
    });

    it("the windows that are named, an operation's among them, and leaves strikes and bans", async () => {
      const { store, name } = await bench.start();
      for (let i = 0; i < 3; i++) await ask(store, name, { limits: both });
      bench.nowMs += SECOND + 1;
      assert.equal((await ask(store, name, { limits: both })).verdict.strikes, 1);
      const counter = `${CREATE.id}.minute`;
      assert.deepEqual(await store.reset(name, { counters: [counter] }), [{ counter, units: 2 }]);
      assert.deepEqual(await used(store, name, both), [0, 2]);
      const { admitted, verdict } = await ask(store, name, { limits: both });
      assert.deepEqual([admitted, verdict.strikes], [true, 1]);
      assert.deepEqual(await store.reset(name, { counters: [] }), []);
    });

    it("nothing of a window that is over", async () => {
      const { store, name } = await bench.start();
      await spendTimes(store, name, MINUTE_2_DAY_5, 2);
      bench.nowMs += MINUTE;
      assert.deepEqual(await store.reset(name), [{ counter: "day", units: 2 }]);
    });

    it("what is known elsewhere, where it is told to forget", async () => {
      const { store, name } = await bench.start();
      await spendTimes(store, name, DAY_1, 2);
      await store.invalidateEverywhere([name, { ...name, account: "other" }]);
      assert.equal(store.lastKnown(name), undefined);
    });
  });
}
