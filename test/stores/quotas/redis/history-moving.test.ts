import assert from "node:assert/strict";
import { it } from "vitest";
import { bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { startCluster } from "../../../support/redis/redis-engines.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

const DAY_MS = 86_400_000;
const NOVEMBER_1 = Date.UTC(2026, 10);
const TODAY = NOVEMBER_1 / DAY_MS;

/** So many accounts whose keys are in one slot: it moves them in an order of its own. */
function accountsOfOneSlot(count: number) {
  const bucket = bucketOf(account("first"));
  const accountRefs = Array.from({ length: 1_000 }, (_, i) => account(`a${i}`));
  return accountRefs.filter((accountRef) => bucketOf(accountRef) === bucket).slice(0, count);
}

it("usage by day misses nothing, and counts nothing twice, while its slot moves at the end of a month", async (t) => {
  const cluster = await startCluster(3);
  t.onTestFinished(() => cluster.close());
  let nowMs = NOVEMBER_1 - 1_000;
  const options = { historyMs: 400 * DAY_MS, now: () => nowMs };
  const { store } = await open(cluster.address, options);
  const accountRefs = accountsOfOneSlot(8);
  assert.equal(accountRefs.length, 8);
  const spent = [0, 0];
  const spendAll = async () => {
    const month = nowMs < NOVEMBER_1 ? 0 : 1;
    spent[month] = (spent[month] ?? 0) + 1;
    for (const accountRef of accountRefs) {
      const { by, decision } = await spend(store, accountRef, { ...perDay(1_000), cost: 3 });
      assert.deepEqual([by, decision.granted], ["store", 1]);
    }
  };
  await spendAll();
  const keys = accountRefs.map((accountRef) => accountKey("tg", accountRef));
  const slot = Number(await cluster.clients[0]?.call("CLUSTER", "KEYSLOT", String(keys[0])));
  const source = cluster.clients[cluster.ownerOf(slot)];
  // A slot gives its newest key first: of each second account the days, of the others the account.
  for (const [i, key] of keys.entries()) {
    if (i % 2 === 0) continue;
    await source?.rename(key, `${key}!`);
    await source?.rename(`${key}!`, key);
  }
  let steps = 0;
  await cluster.move(slot, (cluster.ownerOf(slot) + 1) % 3, async () => {
    // Two keys of each account are there at first: midnight comes when half of them have moved.
    if (++steps === 9) nowMs = NOVEMBER_1 + 1_000;
    await spendAll();
  });
  await spendAll();
  assert.ok(steps >= 18, `${steps} steps`);
  const told = [
    { day: TODAY - 1, admitted: spent[0], units: 3 * (spent[0] ?? 0), refused: 0 },
    { day: TODAY, admitted: spent[1], units: 3 * (spent[1] ?? 0), refused: 0 },
  ];
  const days = await store.history(accountRefs, { from: TODAY - 1, to: TODAY });
  assert.deepEqual(
    days,
    accountRefs.map(() => told),
  );
  const target = cluster.clients[(cluster.ownerOf(slot) + 1) % 3];
  for (const key of keys) {
    assert.equal(await target?.hget(key, "y"), null, "none waits any more");
  }
  await store.close();
});
