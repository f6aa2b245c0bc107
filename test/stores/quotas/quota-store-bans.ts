import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { rateLimitRefusal } from "../../../src/core/quota/rate-limit-info.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import { each } from "../../support/each.ts";
import { eventually } from "../../support/poll.ts";
import { BANS, type Bench, DAY, DAY_1, MINUTE, SECOND, START, spend } from "./quota-store-kit.ts";

/** The claims about strikes and bans that every store keeps. */
export function describeBans(engine: string, bench: Bench): void {
  describe(`${engine} bans`, () => {
    it("after so many strikes, each more than a grace after the first refusal and spaced by it", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, DAY_1);
      const strikes: number[] = [];
      // 0: the first refusal. +1000: not more than the grace. +1001: a strike. +2000: too near to it.
      for (const atMs of [0, 1_000, 1_001, 2_000, 2_001]) {
        bench.nowMs = START + atMs;
        strikes.push((await spend(store, accountRef, DAY_1)).decision.strikes);
      }
      assert.deepEqual(strikes, [0, 0, 1, 1, 2]);
      bench.nowMs = START + 3_001;
      const { decision } = await spend(store, accountRef, DAY_1);
      assert.deepEqual(decision.ban, {
        untilMs: bench.nowMs + MINUTE,
        lengthMs: MINUTE,
        window: "day",
        offences: 1,
      });
      assert.equal(rateLimitRefusal(decision, bench.nowMs)?.code, "key_banned");
    });

    it("nobody for a burst of 200 at once on an exhausted window", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, DAY_1);
      const answers = await Promise.all(
        Array.from({ length: 200 }, () => spend(store, accountRef, DAY_1)),
      );
      assert.ok(
        each(answers).every(({ admitted, decision }) => !admitted && decision.strikes === 0),
      );
      const listed = await store.bans();
      assert.ok(!listed.some(({ account }) => account === accountRef.account));
    });

    it("so that requests during a ban neither count nor make it longer", async () => {
      const { store, accountRef } = await bench.start();
      const limits = [{ window: "minute", limit: 1 }] as const;
      const untilMs = await earnBan(store, accountRef, limits);
      for (const atMs of [untilMs - 40 * SECOND, untilMs - 1]) {
        bench.nowMs = atMs;
        const { admitted, decision: verdict } = await spend(store, accountRef, limits);
        assert.deepEqual([admitted, verdict.ban?.untilMs], [false, untilMs]);
      }
      bench.nowMs = untilMs;
      const { admitted, decision } = await spend(store, accountRef, limits);
      assert.deepEqual([admitted, decision.ban], [true, undefined]);
    });

    it("longer each time, up to the longest, until offences are forgotten", async () => {
      const { store, accountRef } = await bench.start();
      const limits = [{ window: "minute", limit: 1 }] as const;
      const lengths: number[] = [];
      for (let i = 0; i < 4; i++) {
        bench.nowMs = nextMinute(await earnBan(store, accountRef, limits));
        lengths.push(lastLengthMs);
      }
      assert.deepEqual(lengths, [MINUTE, 4 * MINUTE, 10 * MINUTE, 10 * MINUTE]);
      bench.nowMs += BANS.forgetAfterMs;
      await earnBan(store, accountRef, limits);
      assert.equal(lastLengthMs, MINUTE);
    });

    it("as a further offence a millisecond before they are forgotten, and a first one then", async () => {
      for (const [afterMs, lengthMs] of [
        [-1, 4 * MINUTE],
        [0, MINUTE],
      ] as const) {
        const { store, accountRef } = await bench.start();
        const untilMs = await earnBan(store, accountRef, DAY_1);
        bench.nowMs = untilMs + BANS.forgetAfterMs + afterMs - 2 * SECOND;
        await spend(store, accountRef, DAY_1);
        bench.nowMs += SECOND;
        await spend(store, accountRef, DAY_1);
        bench.nowMs += SECOND;
        const { decision } = await spend(store, accountRef, DAY_1);
        assert.equal(decision.ban?.lengthMs, lengthMs);
      }
    });

    it("and lists those in force with their account, and lifts one with its offences", async () => {
      const { store, accountRef } = await bench.start();
      assert.equal(await store.liftBan(accountRef), false);
      await earnBan(store, accountRef, DAY_1);
      const listed = (await store.bans()).filter(({ account }) => account === accountRef.account);
      assert.deepEqual(
        listed.map(({ environment, account, ban }) => [environment, account, ban.offences]),
        [["production", accountRef.account, 1]],
      );
      assert.equal(await store.liftBan(accountRef), true);
      assert.equal(await store.liftBan(accountRef), false);
      await eventually(async () => {
        assert.equal((await spend(store, accountRef, DAY_1)).decision.ban, undefined);
      });
      await earnBan(store, accountRef, DAY_1);
      assert.equal(lastLengthMs, MINUTE);
    });

    it("and lists them as requests find them after the clock went back: for their own length from now", async () => {
      const { store, accountRef } = await bench.start();
      const fromMs = await earnBan(store, accountRef, DAY_1);
      bench.nowMs -= 2 * MINUTE;
      const listed = (await store.bans()).find(({ account }) => account === accountRef.account);
      const { ban, moved } = await store.peek(accountRef, { limits: DAY_1, bans: BANS });
      assert.deepEqual(moved, [{ at: "ban", fromMs }]);
      assert.deepEqual([listed?.ban, listed?.leftMs], [ban, MINUTE]);
      assert.equal(ban?.untilMs, bench.nowMs + MINUTE);
    });

    it("whoever is named, for as long as is said, as no offence, and known to every asker", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, DAY_1);
      const imposed = {
        ...({ lengthMs: 2 * MINUTE, window: "day" } as const),
        ...{ keptMs: MINUTE, plan: "free", reason: "" },
      };
      const ban = await store.ban(accountRef, imposed);
      assert.deepEqual([ban.offences, ban.lengthMs, ban.window], [0, 2 * MINUTE, "day"]);
      await eventually(async () => {
        const { decision, admitted } = await spend(store, accountRef, DAY_1);
        assert.deepEqual([admitted, decision.ban?.untilMs], [false, ban.untilMs]);
      });
      const listed = (await store.bans()).find(({ account }) => account === accountRef.account);
      assert.deepEqual(listed?.ban, ban);
      bench.nowMs += 2 * MINUTE;
      await earnBan(store, accountRef, DAY_1);
      assert.equal(lastLengthMs, MINUTE, "the first that it earns itself");
    });

    it("whoever is named with the offences that are not forgotten, and none of those that are", async () => {
      for (const [afterMs, offences, lengthMs] of [
        [-1, 1, 4 * MINUTE],
        [0, 0, MINUTE],
      ] as const) {
        const { store, accountRef } = await bench.start();
        bench.nowMs = (await earnBan(store, accountRef, DAY_1)) + BANS.forgetAfterMs + afterMs;
        const imposed = { window: "day", keptMs: BANS.forgetAfterMs, plan: "free" } as const;
        const ban = await store.ban(accountRef, { ...imposed, lengthMs: SECOND, reason: "" });
        assert.equal(ban.offences, offences);
        bench.nowMs = ban.untilMs + SECOND;
        await eventually(async () => {
          assert.equal((await spend(store, accountRef, DAY_1)).decision.ban, undefined);
        });
        await earnBan(store, accountRef, DAY_1);
        assert.equal(lastLengthMs, lengthMs);
      }
    });

    it("and remembers the strikes that earned a ban, until it is lifted", async () => {
      const { store, accountRef } = await bench.start();
      assert.equal(await store.banCause(accountRef), undefined);
      const untilMs = await earnBan(store, accountRef, DAY_1);
      const strikesMs = [2, 1, 0].map((back) => bench.nowMs - back * (SECOND + 1));
      const { nowMs: atMs } = bench;
      const cause = { untilMs, atMs, imposed: false, reason: "", strikesMs };
      assert.deepEqual(await store.banCause(accountRef), cause);
      bench.nowMs = untilMs - 1;
      await spend(store, accountRef, DAY_1);
      assert.deepEqual(await store.banCause(accountRef), cause, "requests change nothing");
      await store.liftBan(accountRef);
      assert.equal(await store.banCause(accountRef), undefined);
    });

    it("and remembers that people imposed one, and why, also after one that was earned", async () => {
      const { store, accountRef } = await bench.start();
      await earnBan(store, accountRef, DAY_1);
      const { nowMs: atMs } = bench;
      for (const reason of ["", "abuse {of} 7 \u00e9 'x'"]) {
        const imposed = { lengthMs: MINUTE, window: "day", keptMs: MINUTE, plan: "free" } as const;
        const { untilMs } = await store.ban(accountRef, { ...imposed, reason });
        const cause = { untilMs, atMs, imposed: true, reason, strikesMs: [] };
        assert.deepEqual(await store.banCause(accountRef), cause);
      }
      bench.nowMs = START + 2 * MINUTE;
      const untilMs = await earnBan(store, accountRef, DAY_1);
      const { strikesMs, ...cause } = (await store.banCause(accountRef)) ?? assert.fail("no cause");
      assert.deepEqual(cause, { untilMs, atMs: bench.nowMs, imposed: false, reason: "" });
      assert.equal(strikesMs.length, BANS.strikes);
    });

    it("and remembers of one that is moved, as the clock went back, that people imposed it, and why", async () => {
      const { store, accountRef } = await bench.start();
      const imposed = { lengthMs: MINUTE, window: "day", keptMs: MINUTE, plan: "free" } as const;
      const reason = "unpaid 1795861147661";
      await store.ban(accountRef, { ...imposed, reason });
      bench.nowMs -= 3 * MINUTE;
      const { nowMs: atMs } = bench;
      const { ban } = await store.peek(accountRef, { limits: DAY_1, bans: BANS });
      const cause = { untilMs: atMs + MINUTE, atMs, imposed: true, reason, strikesMs: [] };
      assert.equal(ban?.untilMs, cause.untilMs);
      assert.deepEqual(await store.banCause(accountRef), cause);
      bench.nowMs += SECOND;
      store.invalidate();
      const { decision } = await spend(store, accountRef, DAY_1);
      assert.equal(decision.ban?.untilMs, cause.untilMs, "it ends when it was told to end");
      assert.deepEqual(await store.banCause(accountRef), cause);
    });

    it("and remembers the strikes that earned one that is moved, each as long before it as it was", async () => {
      const { store, accountRef } = await bench.start();
      await earnBan(store, accountRef, DAY_1);
      bench.nowMs -= 2 * DAY;
      store.invalidate();
      assert.equal((await spend(store, accountRef, DAY_1)).decision.repaired, true);
      const { nowMs: atMs } = bench;
      const strikesMs = [2, 1, 0].map((back) => atMs - back * (SECOND + 1));
      const told = { imposed: false, reason: "", strikesMs };
      assert.deepEqual(await store.banCause(accountRef), { untilMs: atMs + MINUTE, atMs, ...told });
    });

    it("also after the clock went back behind the first refusal of a window, from the next refusal on", async () => {
      const { store, accountRef } = await bench.start();
      await spend(store, accountRef, DAY_1);
      await spend(store, accountRef, DAY_1);
      bench.nowMs -= 3 * 60 * MINUTE;
      store.invalidate();
      const strikes: number[] = [];
      for (const laterMs of [0, SECOND, 1, SECOND, SECOND]) {
        bench.nowMs += laterMs;
        await store.peek(accountRef, { limits: DAY_1, bans: BANS });
        strikes.push((await spend(store, accountRef, DAY_1)).decision.strikes);
      }
      assert.deepEqual(strikes, [0, 0, 1, 2, 0]);
      const listed = (await store.bans()).find(({ account }) => account === accountRef.account);
      assert.equal(listed?.leftMs, MINUTE);
    });

    it("and remembers nothing of a ban that is only observed", async () => {
      const { store, accountRef } = await bench.start();
      for (let i = 0; i < 5; i++) {
        await spend(store, accountRef, DAY_1, { ...BANS, observe: true });
        bench.nowMs += SECOND + 1;
      }
      assert.equal(await store.banCause(accountRef), undefined);
    });

    it("nobody, and forgets strikes, where bans are off", async () => {
      const { store, accountRef } = await bench.start();
      for (let i = 0; i < 8; i++) {
        bench.nowMs += 2 * SECOND;
        const { decision } = await spend(store, accountRef, DAY_1, "off");
        assert.deepEqual([decision.ban, decision.strikes], [undefined, 0]);
      }
    });

    it("not for strikes that are further apart than they count", async () => {
      const { store, accountRef } = await bench.start();
      for (let i = 0; i < 12; i++) {
        assert.equal((await spend(store, accountRef, DAY_1)).decision.ban, undefined);
        bench.nowMs += 30 * SECOND;
      }
    });
  });

  let lastLengthMs = 0;

  /** Exhausts the window and goes on until banned; tells when that ends. */
  async function earnBan(store: QuotaStore, accountRef: AccountRef, limits: readonly Limit[]) {
    for (let i = 0; i < 10; i++) {
      const { ban } = (await spend(store, accountRef, limits)).decision;
      if (ban !== undefined) {
        lastLengthMs = ban.lengthMs;
        return ban.untilMs;
      }
      bench.nowMs += SECOND + 1;
    }
    throw new assert.AssertionError({ message: "no ban was earned" });
  }
}

function nextMinute(atMs: number): number {
  return Math.ceil(atMs / MINUTE) * MINUTE;
}
