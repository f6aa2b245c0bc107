import assert from "node:assert/strict";
import { afterEach, describe, it } from "vitest";
import { dayOf } from "../../../src/core/quota/days.ts";
import { type Holds, meterPart } from "../../../src/core/quota/meters.ts";
import { isMeter } from "../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { ChargeResult, QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import { eventually } from "../../support/poll.ts";
import { BANS, DAY, MINUTE, START } from "./quota-store-kit.ts";

export type MeteredStore = {
  readonly store: QuotaStore;
  /** Lines of the log, and counts that rose by settlements. */
  readonly told: readonly { message: string; details: Record<string, unknown> | undefined }[];
  readonly late: readonly { usage: { window: string; from: number; used: number } }[];
};

const part = meterPart("tokens");
const MINUTE_10 = { window: "minute", limit: 10, part } as const;
const MONTH_25 = { window: "month", limit: 25, part } as const;
const PLAN = { window: "day", limit: 100 } as const;
const METER = { name: "tokens", hold: 4, max: 9, untold: 4, used: [] } as const;
const limitsOf = (hold: number) => [{ ...MINUTE_10, hold }, PLAN, { ...MONTH_25, hold }] as const;
/** The same lists again, as the gateway gives them. */
const LISTS = new Map([0, 4, 9].map((hold) => [hold, limitsOf(hold)]));

/** The promises of QuotaStore about meters. `open` gives a store that keeps the usage by day. */
export function describeMeters(
  engine: string,
  open: (now: () => number) => Promise<MeteredStore>,
): void {
  let nowMs = START;
  let count = 0;
  const opened: QuotaStore[] = [];
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
  });

  const start = async () => {
    nowMs = START;
    const house = await open(() => nowMs);
    opened.push(house.store);
    count += 1;
    return { ...house, accountRef: { environment: "production", account: `metered_${count}` } };
  };
  const ask = async (
    store: QuotaStore,
    accountRef: AccountRef,
    hold = 4,
  ): Promise<ChargeResult> => {
    const limits = LISTS.get(hold) ?? [];
    const answer = await store.charge(accountRef, { limits, bans: BANS, requests: 1, plan: "pro" });
    assert.ok("decision" in answer);
    return answer;
  };
  const holdsOf = ({ decision }: ChargeResult, hold = 4): Holds => {
    const windows = decision.windows.filter(isMeter);
    const meters = [{ ...METER, hold }];
    return { id: "01J", plan: "pro", meters, windows, decidedMs: decision.nowMs };
  };
  const used = async (store: QuotaStore, accountRef: AccountRef) => {
    const { windows } = await store.peek(accountRef, { limits: limitsOf(4), bans: BANS });
    return windows.map((one) => one.used);
  };
  /** Settles, and waits until the store shows it. */
  const settle = async (
    { store, accountRef }: { store: QuotaStore; accountRef: AccountRef },
    holds: Holds,
    units: number,
    expected: readonly number[],
  ) => {
    store.settle(accountRef, holds, [{ name: "tokens", units }]);
    await eventually(async () => assert.deepEqual(await used(store, accountRef), expected));
  };
  const dayUnits = async (store: QuotaStore, accountRef: AccountRef) => {
    const day = dayOf(START);
    const [rows = []] = await store.history([accountRef], { from: day, to: day + 1 });
    return rows.map(({ admitted, units, meters }) => [admitted, units, meters?.tokens]);
  };

  describe(`${engine} counts meters`, () => {
    it("by holds, together with the plan or not at all, and without strikes", async () => {
      const { store, accountRef } = await start();
      assert.equal((await ask(store, accountRef)).admitted, true);
      assert.equal((await ask(store, accountRef)).admitted, true);
      for (let i = 0; i < 6; i++) {
        nowMs += 2_000;
        const { admitted, decision } = await ask(store, accountRef);
        assert.deepEqual([admitted, decision.strikes, decision.ban], [false, 0, undefined]);
      }
      assert.deepEqual(await used(store, accountRef), [8, 2, 8]);
      assert.deepEqual(await dayUnits(store, accountRef), [[2, 2, 8]]);
    });

    it("of requests that come together each by its own hold", async () => {
      const { store, accountRef } = await start();
      const answers = await Promise.all([4, 0, 4, 0].map((hold) => ask(store, accountRef, hold)));
      assert.deepEqual(
        answers.map(({ admitted }) => admitted),
        [true, true, true, true],
      );
      assert.deepEqual(await used(store, accountRef), [8, 4, 8]);
    });

    it("with what requests used beyond their holds, also where their window was moved as the clock went back", async () => {
      const house = await start();
      const { store, accountRef } = house;
      const [more, less] = [await ask(store, accountRef), await ask(store, accountRef)];
      nowMs -= 3 * MINUTE;
      store.invalidate();
      await ask(store, accountRef, 0);
      assert.deepEqual(await used(store, accountRef), [8, 3, 8]);
      await settle(house, holdsOf(more), 9, [13, 3, 13]);
      await settle(house, holdsOf(less), 1, [13, 3, 10]);
    });

    it("as full for a hold of 0 from the limit on, and not before", async () => {
      const house = await start();
      const { store, accountRef } = house;
      const first = await ask(store, accountRef);
      await settle(house, holdsOf(first), 9, [9, 1, 9]);
      const one = await ask(store, accountRef, 0);
      assert.equal(one.admitted, true, "9 of 10");
      await settle(house, holdsOf(one, 0), 1, [10, 2, 10]);
      assert.equal((await ask(store, accountRef, 0)).admitted, false);
    });

    it("by what was used once that is known: more or less than the hold, in each window and the day", async () => {
      const house = await start();
      const { store, accountRef } = house;
      const [one, other] = [await ask(store, accountRef), await ask(store, accountRef)];
      await settle(house, holdsOf(one), 1, [5, 2, 5]);
      await settle(house, holdsOf(other), 9, [10, 2, 10]);
      assert.deepEqual(await dayUnits(store, accountRef), [[2, 2, 10]]);
      assert.deepEqual(
        house.late.map(({ usage }) => [usage.window, usage.from, usage.used]),
        [
          ["minute", 5, 10],
          ["month", 5, 10],
        ],
        "events can follow it",
      );
    });

    it("so that a settlement lets pass at once what its own gateway knew to be refused", async () => {
      const house = await start();
      const { store, accountRef } = house;
      const [one] = [await ask(store, accountRef), await ask(store, accountRef)];
      assert.equal((await ask(store, accountRef)).admitted, false);
      const again = await ask(store, accountRef);
      assert.equal(again.admitted, false, "from memory, where there is one");
      await settle(house, holdsOf(one), 0, [4, 2, 4]);
      const passed = await ask(store, accountRef);
      assert.equal(passed.admitted, true);
      assert.deepEqual(
        passed.decision.windows.map(({ loweredFrom }) => loweredFrom),
        [8, undefined, 8],
        "the mark of the lowered count, for events and lost counts",
      );
      const next = await ask(store, accountRef, 0);
      assert.deepEqual(
        next.decision.windows.map(({ loweredFrom }) => loweredFrom),
        [undefined, undefined, undefined],
        "it is as high again",
      );
      assert.deepEqual(house.told, []);
    });

    it("with the hold in a window that is over or was reset, and below 0 in none", async () => {
      const house = await start();
      const { store, accountRef } = house;
      const [one, two, three] = [
        await ask(store, accountRef),
        await ask(store, accountRef),
        await ask(store, accountRef, 0),
      ];
      await store.reset(accountRef, { counters: ["#tokens.minute"] });
      await settle(house, holdsOf(one), 0, [0, 3, 4]);
      nowMs += MINUTE;
      await settle(house, holdsOf(two), 9, [0, 3, 9]);
      assert.equal((await ask(store, accountRef)).admitted, true);
      await settle(house, holdsOf(three, 0), 2, [4, 4, 15]);
      await store.reset(accountRef);
      nowMs += 1;
      const last = await ask(store, accountRef);
      await store.reset(accountRef, { counters: ["#tokens.month"] });
      await settle(house, holdsOf(last), 0, [0, 1, 0]);
      assert.deepEqual(await dayUnits(store, accountRef), [[5, 5, 15]], "resets change no day");
    });

    it("on the day of the decision until it closes; then more on the day of its charge, and less is told", async () => {
      const house = await start();
      const { store, accountRef } = house;
      nowMs = START - (START % DAY) + DAY - 1_000;
      const [one, two, three] = [
        await ask(store, accountRef),
        await ask(store, accountRef),
        await ask(store, accountRef, 0),
      ];
      nowMs += 1_000 + 15 * MINUTE - 1;
      await settle(house, holdsOf(one), 5, [0, 0, 9]);
      nowMs += 1;
      await settle(house, holdsOf(two), 0, [0, 0, 5]);
      await eventually(() => assert.equal(house.told.length, 1));
      const { message, details } = house.told[0] ?? {};
      assert.deepEqual(
        [message, details?.id, details?.account, details?.meter, details?.units, details?.day],
        ["settlement_lost", "01J", accountRef.account, "tokens", -4, "2026-07-15"],
      );
      await settle(house, holdsOf(three, 0), 2, [0, 0, 7]);
      assert.deepEqual(await dayUnits(store, accountRef), [
        [3, 3, 9],
        [0, 0, 2],
      ]);
    });
  });
}
