import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import type { Ask, BanPolicy, WindowStanding } from "../../src/core/quota.ts";
import { admittedStanding, refusalAt, retryAfterSeconds } from "../../src/core/standing.ts";
import type { Limit } from "../../src/core/windows.ts";
import type { AccountName, Answer, QuotaStore } from "../../src/stores/store.ts";
import { eventually } from "../support/poll.ts";

/** A store whose clock the test holds. Each opening is of an empty store, or of accounts of its own. */
export type OpenQuotaStore = (now: () => number) => Promise<QuotaStore>;

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 1_440 * MINUTE;
/** Ten seconds into a minute of a day of a month that has more of each before and after. */
const START = Date.UTC(2026, 6, 15, 12, 30, 10);
const BANS: BanPolicy = {
  strikes: 3,
  withinMs: MINUTE,
  graceMs: SECOND,
  durationMs: MINUTE,
  factor: 4,
  maxMs: 10 * MINUTE,
  forgetAfterMs: 20 * MINUTE,
};
const MINUTE_2_DAY_5 = [
  { window: "minute", limit: 2 },
  { window: "day", limit: 5 },
] as const;
const DAY_1 = [{ window: "day", limit: 1 }] as const;

/** The promises of QuotaStore: a new store calls this, a changed promise changes here. */
export function describeQuotaStore(engine: string, open: OpenQuotaStore): void {
  let nowMs = START;
  let count = 0;
  const opened: QuotaStore[] = [];
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
  });

  async function start(): Promise<{ store: QuotaStore; name: AccountName }> {
    nowMs = START;
    count += 1;
    const store = await open(() => nowMs);
    opened.push(store);
    return { store, name: { environment: "production", account: `acct_${count}` } };
  }

  describe(`${engine} charges`, () => {
    it("to the limit and no further, and every window or none", async () => {
      const { store, name } = await start();
      assert.deepEqual(await spendTimes(store, name, MINUTE_2_DAY_5, 4), [
        true,
        true,
        false,
        false,
      ]);
      assert.deepEqual(await used(store, name, MINUTE_2_DAY_5), [2, 2]);
      nowMs += MINUTE;
      assert.deepEqual(await spendTimes(store, name, MINUTE_2_DAY_5, 3), [true, true, false]);
      nowMs += MINUTE;
      assert.deepEqual(await spendTimes(store, name, MINUTE_2_DAY_5, 3), [true, false, false]);
      assert.deepEqual(await used(store, name, MINUTE_2_DAY_5), [1, 5]);
    });

    it("exactly the limit when 300 ask at once", async () => {
      const { store, name } = await start();
      const limits = [{ window: "day", limit: 117 }] as const;
      const asks = Array.from({ length: 300 }, async () => spend(store, name, limits));
      const answers = await Promise.all(asks);
      assert.equal(answers.filter(({ admitted }) => admitted).length, 117);
      assert.deepEqual(await used(store, name, limits), [117]);
    });

    it("each of a hundred accounts on its own, in two environments", async () => {
      const { store, name } = await start();
      const names = Array.from({ length: 100 }, (_, i) => {
        const environment = i % 2 === 0 ? "production" : "staging";
        return { environment, account: `${name.account}_${i >> 1}` };
      });
      const all = [...names, ...names].map((each) => spend(store, each, DAY_1));
      const admitted = (await Promise.all(all)).map((answer) => answer.admitted);
      assert.deepEqual(admitted.slice(0, 100), Array(100).fill(true));
      assert.deepEqual(admitted.slice(100), Array(100).fill(false));
    });

    it("anew in the next window and not a millisecond before it", async () => {
      const { store, name } = await start();
      await spend(store, name, [{ window: "minute", limit: 1 }]);
      nowMs = Date.UTC(2026, 6, 15, 12, 30, 59, 999);
      assert.deepEqual(await spendTimes(store, name, [{ window: "minute", limit: 1 }], 1), [false]);
      nowMs += 1;
      assert.deepEqual(await spendTimes(store, name, [{ window: "minute", limit: 1 }], 2), [
        true,
        false,
      ]);
    });

    it("a window to its end in UTC, of every length", async () => {
      const { store, name } = await start();
      const limits = (["second", "minute", "hour", "day", "month"] as const).map((window) => {
        return { window, limit: 9 };
      });
      const { verdict } = await spend(store, name, limits);
      assert.deepEqual(
        verdict.windows.map(({ resetMs }) => new Date(resetMs).toISOString()),
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
      const { store, name } = await start();
      await spendTimes(store, name, [{ window: "day", limit: 3 }], 4);
      store.forget();
      assert.deepEqual(await spendTimes(store, name, [{ window: "day", limit: 5 }], 3), [
        true,
        true,
        false,
      ]);
      store.forget();
      assert.deepEqual(await spendTimes(store, name, [{ window: "day", limit: 2 }], 1), [false]);
      assert.deepEqual(await used(store, name, [{ window: "day", limit: 2 }]), [5]);
    });

    it("no second time for a window when the clock goes back over its start", async () => {
      const { store, name } = await start();
      const limits = [{ window: "minute", limit: 2 }] as const;
      nowMs = Date.UTC(2026, 6, 15, 12, 31);
      assert.deepEqual(await spendTimes(store, name, limits, 1), [true]);
      nowMs -= 5 * SECOND;
      store.forget();
      assert.deepEqual(await spendTimes(store, name, limits, 2), [true, false]);
      const { verdict } = await spend(store, name, limits);
      assert.equal(verdict.windows[0]?.resetMs, Date.UTC(2026, 6, 15, 12, 32));
    });

    it("on in the present, and says so, when the clock had been a year ahead", async () => {
      const { store, name } = await start();
      nowMs += 365 * DAY;
      await spend(store, name, DAY_1);
      nowMs = START;
      store.forget();
      const { admitted, verdict } = await spend(store, name, DAY_1);
      assert.deepEqual([admitted, verdict.repaired], [false, true]);
      assert.equal(verdict.windows[0]?.resetMs, Date.UTC(2026, 6, 16));
    });
  });

  describe(`${engine} tells`, () => {
    it("an admitted request the window that refuses soonest, each its own remaining", async () => {
      const { store, name } = await start();
      const asks = [1, 2].map(() => spend(store, name, MINUTE_2_DAY_5));
      const told = (await Promise.all(asks)).map(({ verdict, unspent }) => {
        return admittedStanding(verdict, unspent);
      });
      const resetMs = Date.UTC(2026, 6, 15, 12, 31);
      assert.deepEqual(told, [
        { limit: 2, remaining: 1, resetMs },
        { limit: 2, remaining: 0, resetMs },
      ]);
    });

    it("a refused request the end of what refuses it, such that obeying it is enough", async () => {
      const { store, name } = await start();
      await spendTimes(store, name, MINUTE_2_DAY_5, 2);
      nowMs += 123;
      const { verdict } = await spend(store, name, MINUTE_2_DAY_5);
      const refusal = refusalAt(verdict, nowMs);
      assert.equal(refusal?.code, "rate_limited");
      const seconds = retryAfterSeconds(refusal?.standing.resetMs ?? 0, nowMs);
      nowMs += (seconds - 1) * SECOND;
      assert.deepEqual(await spendTimes(store, name, MINUTE_2_DAY_5, 1), [false]);
      nowMs += SECOND;
      assert.deepEqual(await spendTimes(store, name, MINUTE_2_DAY_5, 1), [true]);
    });

    it("by a look what an ask would find, and charges nothing for it", async () => {
      const { store, name } = await start();
      const ask = { limits: MINUTE_2_DAY_5, bans: BANS };
      assert.deepEqual(usedIn((await store.look(name, ask)).windows), [0, 0]);
      await spend(store, name, MINUTE_2_DAY_5);
      for (let i = 0; i < 5; i++) await store.look(name, ask);
      assert.deepEqual(usedIn((await store.look(name, ask)).windows), [1, 1]);
      nowMs += MINUTE;
      assert.deepEqual(usedIn((await store.look(name, ask)).windows), [0, 1]);
    });

    it("what it knows of an account, once there was an answer and until told to forget", async () => {
      const { store, name } = await start();
      assert.equal(store.lastKnown(name), undefined);
      await spend(store, name, MINUTE_2_DAY_5);
      assert.deepEqual(usedIn(store.lastKnown(name)?.windows ?? []), [1, 1]);
      assert.deepEqual(await used(store, name, MINUTE_2_DAY_5), [1, 1]);
      store.forget(name);
      assert.equal(store.lastKnown(name), undefined);
      await spend(store, name, MINUTE_2_DAY_5);
      store.forget();
      assert.equal(store.lastKnown(name), undefined);
      assert.deepEqual(await used(store, name, MINUTE_2_DAY_5), [2, 2]);
    });

    it("of itself that it is well", async () => {
      const { store } = await start();
      assert.deepEqual(store.health(), { ok: true });
    });
  });

  describe(`${engine} bans`, () => {
    it("after so many strikes, each more than a grace after the first refusal and spaced by it", async () => {
      const { store, name } = await start();
      await spend(store, name, DAY_1);
      const strikes: number[] = [];
      // 0: the first refusal. +1000: not more than the grace. +1001: a strike. +2000: too near to it.
      for (const atMs of [0, 1_000, 1_001, 2_000, 2_001]) {
        nowMs = START + atMs;
        strikes.push((await spend(store, name, DAY_1)).verdict.strikes);
      }
      assert.deepEqual(strikes, [0, 0, 1, 1, 2]);
      nowMs = START + 3_001;
      const { verdict } = await spend(store, name, DAY_1);
      assert.deepEqual(verdict.ban, {
        untilMs: nowMs + MINUTE,
        lengthMs: MINUTE,
        window: "day",
        offences: 1,
      });
      assert.equal(refusalAt(verdict, nowMs)?.code, "key_banned");
    });

    it("nobody for a burst of 200 at once on an exhausted window", async () => {
      const { store, name } = await start();
      await spend(store, name, DAY_1);
      const answers = await Promise.all(
        Array.from({ length: 200 }, () => spend(store, name, DAY_1)),
      );
      assert.ok(answers.every(({ admitted, verdict }) => !admitted && verdict.strikes === 0));
      const listed = await store.bans();
      assert.ok(listed.every(({ account }) => account !== name.account));
    });

    it("so that requests during a ban neither count nor make it longer", async () => {
      const { store, name } = await start();
      const limits = [{ window: "minute", limit: 1 }] as const;
      const untilMs = await earnBan(store, name, limits);
      for (const atMs of [untilMs - 40 * SECOND, untilMs - 1]) {
        nowMs = atMs;
        const { admitted, verdict } = await spend(store, name, limits);
        assert.deepEqual([admitted, verdict.ban?.untilMs], [false, untilMs]);
      }
      nowMs = untilMs;
      const { admitted, verdict } = await spend(store, name, limits);
      assert.deepEqual([admitted, verdict.ban], [true, undefined]);
    });

    it("longer each time, up to the longest, until offences are forgotten", async () => {
      const { store, name } = await start();
      const limits = [{ window: "minute", limit: 1 }] as const;
      const lengths: number[] = [];
      for (let i = 0; i < 4; i++) {
        nowMs = nextMinute(await earnBan(store, name, limits));
        lengths.push(lastLengthMs);
      }
      assert.deepEqual(lengths, [MINUTE, 4 * MINUTE, 10 * MINUTE, 10 * MINUTE]);
      nowMs += BANS.forgetAfterMs;
      await earnBan(store, name, limits);
      assert.equal(lastLengthMs, MINUTE);
    });

    it("as a further offence a millisecond before they are forgotten, and a first one then", async () => {
      for (const [afterMs, lengthMs] of [
        [-1, 4 * MINUTE],
        [0, MINUTE],
      ] as const) {
        const { store, name } = await start();
        const untilMs = await earnBan(store, name, DAY_1);
        nowMs = untilMs + BANS.forgetAfterMs + afterMs - 2 * SECOND;
        await spend(store, name, DAY_1);
        nowMs += SECOND;
        await spend(store, name, DAY_1);
        nowMs += SECOND;
        const { verdict } = await spend(store, name, DAY_1);
        assert.equal(verdict.ban?.lengthMs, lengthMs);
      }
    });

    it("and lists those in force with their account, and lifts one with its offences", async () => {
      const { store, name } = await start();
      assert.equal(await store.liftBan(name), false);
      await earnBan(store, name, DAY_1);
      const listed = (await store.bans()).filter(({ account }) => account === name.account);
      assert.deepEqual(
        listed.map(({ environment, account, ban }) => [environment, account, ban.offences]),
        [["production", name.account, 1]],
      );
      assert.equal(await store.liftBan(name), true);
      assert.equal(await store.liftBan(name), false);
      await eventually(async () => {
        assert.equal((await spend(store, name, DAY_1)).verdict.ban, undefined);
      });
      await earnBan(store, name, DAY_1);
      assert.equal(lastLengthMs, MINUTE);
    });

    it("nobody, and forgets strikes, where bans are off", async () => {
      const { store, name } = await start();
      for (let i = 0; i < 8; i++) {
        nowMs += 2 * SECOND;
        const { verdict } = await spend(store, name, DAY_1, "off");
        assert.deepEqual([verdict.ban, verdict.strikes], [undefined, 0]);
      }
    });

    it("not for strikes that are further apart than they count", async () => {
      const { store, name } = await start();
      for (let i = 0; i < 12; i++) {
        assert.equal((await spend(store, name, DAY_1)).verdict.ban, undefined);
        nowMs += 30 * SECOND;
      }
    });
  });

  let lastLengthMs = 0;

  /** Exhausts the window and goes on until banned; tells when that ends. */
  async function earnBan(store: QuotaStore, name: AccountName, limits: readonly Limit[]) {
    for (let i = 0; i < 10; i++) {
      const { ban } = (await spend(store, name, limits)).verdict;
      if (ban !== undefined) {
        lastLengthMs = ban.lengthMs;
        return ban.untilMs;
      }
      nowMs += SECOND + 1;
    }
    throw new assert.AssertionError({ message: "no ban was earned" });
  }
}

function nextMinute(atMs: number): number {
  return Math.ceil(atMs / MINUTE) * MINUTE;
}

async function spend(
  store: QuotaStore,
  name: AccountName,
  limits: readonly Limit[],
  bans: BanPolicy | "off" = BANS,
): Promise<Answer> {
  const ask: Ask = { limits, bans: bans === "off" ? undefined : bans, units: 1 };
  const answer = await store.spend(name, ask);
  assert.ok("verdict" in answer, "the store gave no answer");
  return answer;
}

async function spendTimes(
  store: QuotaStore,
  name: AccountName,
  limits: readonly Limit[],
  times: number,
): Promise<boolean[]> {
  const admitted: boolean[] = [];
  for (let i = 0; i < times; i++) admitted.push((await spend(store, name, limits)).admitted);
  return admitted;
}

async function used(store: QuotaStore, name: AccountName, limits: readonly Limit[]) {
  return usedIn((await store.look(name, { limits, bans: BANS })).windows);
}

function usedIn(windows: readonly WindowStanding[]): number[] {
  return windows.map((window) => window.used);
}
