import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayOf } from "../../../src/core/quota/days.ts";
import type { DeprecatedCall } from "../../../src/telemetry/history/deprecated-calls.ts";
import { Bench, type OpenQuotaStore, START } from "./quota-store-kit.ts";

const TODAY = dayOf(START);
const OLD = { environment: "production", method: "GET", route: "/v1/old" };
const OLDER = { ...OLD, route: "/v1/older" };

function call(account: string, requests: number, last: number, of = OLD): DeprecatedCall {
  return { ...of, account, requests, last };
}

/** The promises of Notes: `open` gives a store that keeps days. */
export function describeNotes(engine: string, open: OpenQuotaStore): void {
  const bench = new Bench(open);

  describe(`${engine} takes notes`, () => {
    it("of refused requests, beside what was admitted that day", async () => {
      const { store, accountRef } = await bench.start();
      const other = { ...accountRef, account: `${accountRef.account}x` };
      await store.charge(accountRef, {
        limits: [{ window: "day", limit: 9 }],
        bans: undefined,
        requests: 1,
      });
      for (const requests of [2, 5]) {
        const left = await store.activity.addRefused([
          { accountRef, day: TODAY, requests },
          { accountRef: other, day: TODAY, requests: 1 },
        ]);
        assert.deepEqual(left, []);
      }
      const [days, others] = await store.history([accountRef, other], { from: TODAY, to: TODAY });
      assert.deepEqual(days, [{ day: TODAY, admitted: 1, units: 1, refused: 7 }]);
      assert.deepEqual(others, [{ day: TODAY, admitted: 0, units: 0, refused: 2 }]);
    });

    it("of the last day of each key, which never goes back", async () => {
      const { store } = await bench.start();
      const { activity: activityStore } = store;
      await activityStore.addUsed([
        { key: "k_one", day: TODAY },
        { key: "k_two", day: TODAY - 1 },
      ]);
      await activityStore.addUsed([
        { key: "k_one", day: TODAY - 1 },
        { key: "k_two", day: TODAY },
      ]);
      const found = await activityStore.lastUsed(["k_two", "k_one", "k_none"]);
      assert.deepEqual(
        [...found],
        [
          ["k_two", TODAY],
          ["k_one", TODAY],
        ],
      );
    });

    it("of calls by account and operation, added up, with the last instant", async () => {
      const { store } = await bench.start();
      const { activity: activityStore } = store;
      const both = [call("a", 2, 100), call("b", 1, 90, OLDER)];
      assert.deepEqual(await activityStore.addCalls(both), { sums: both, left: [] });
      assert.deepEqual(await activityStore.addCalls([call("b", 1, 95), call("a", 3, 80)]), {
        sums: [call("b", 1, 95), call("a", 5, 100)],
        left: [],
      });
      const told = [...(await activityStore.calls([OLD]))].sort((a, b) =>
        a.account < b.account ? -1 : 1,
      );
      assert.deepEqual(told, [call("a", 5, 100), call("b", 1, 95)]);
      assert.deepEqual(await activityStore.calls([OLDER]), [call("b", 1, 90, OLDER)]);
      assert.deepEqual(await activityStore.calls([]), []);
      const asked = [call("none", 0, 0), call("b", 0, 0), call("b", 0, 0, OLDER)];
      assert.deepEqual(await activityStore.addCalls(asked), {
        sums: [call("none", 0, 0), call("b", 1, 95), call("b", 1, 90, OLDER)],
        left: [],
      });
      assert.equal((await activityStore.calls([OLD])).length, 2, "to ask adds no account");
    });

    it("of at most 10,000 accounts an operation", async () => {
      const { store } = await bench.start();
      const many = Array.from({ length: 10_001 }, (_, i) => call(`a${i}`, 1, i));
      await store.activity.addCalls(many);
      assert.equal((await store.activity.calls([OLD])).length, 10_000);
    });

    it("and of 1,000 addresses, which take no place of an account", async () => {
      const { store } = await bench.start();
      const { activity } = store;
      const addresses = Array.from({ length: 12_000 }, (_, i) => call(`addr:10.0.${i}`, 1, i));
      await activity.addCalls(addresses);
      const accounts = Array.from({ length: 10_000 }, (_, i) => call(`a${i}`, 1, i));
      const { sums } = await activity.addCalls([...addresses.slice(0, 3), ...accounts]);
      assert.equal(sums.length, 10_003);
      const kept = (await activity.calls([OLD])).map(({ account }) => account);
      const isAddress = (account: string) => account.startsWith("addr:");
      assert.equal(kept.filter(isAddress).length, 1_000);
      assert.equal(kept.filter((account) => !isAddress(account)).length, 10_000);
    });
  });
}
