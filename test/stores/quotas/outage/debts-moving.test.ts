import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { meterPart } from "../../../../src/core/quota/meters.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { StoreFailure, withTimeout } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { startCluster, type TestCluster } from "../../../support/redis/redis-engines.ts";
import { countedIn, moveKeys, moveMeters, namesOf } from "../redis/moving-slot.ts";
import { account, perDay, spend } from "../redis/redis-kit.ts";
import { openFallback } from "./fallback-kit.ts";

const LIMIT = 10;
const PLAIN = perDay(LIMIT, undefined);
const METERED: QuotaRequest = {
  ...PLAIN,
  limits: [...PLAIN.limits, { window: "year", limit: 1_000, part: meterPart("tokens"), hold: 1 }],
};
/** A busy machine stalls for longer than 50 ms. */
const PATIENT = { storeTimeoutMs: 5_000 };

describe("while a slot moves and a meter is on the other node than its account", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  const calls = async () => {
    const counts = await Promise.all(cluster.nodes.map((node) => node.calls("evalsha")));
    return counts.reduce((sum, count) => sum + count, 0);
  };

  /** Asks for so many requests, one after the other; gives how many were admitted, and by whom. */
  async function ask(store: QuotaStore, name: string, quotaRequest: QuotaRequest, count: number) {
    let admitted = 0;
    const by = new Set<string>();
    for (let i = 0; i < count; i++) {
      const answer = await withTimeout(spend(store, account(name), quotaRequest), 3_000);
      by.add(String(answer.by));
      if (answer.admitted) admitted += 1;
    }
    return { admitted, by: [...by] };
  }

  it("every request is answered at once, by a few calls, and each unit is charged once in the end", async () => {
    await using house = await openFallback(cluster, { policy: PATIENT });
    const { store, gate } = house;
    const [moving, other] = namesOf([2], 2, "once") as [string, string];
    for (const name of [moving, other]) await spend(store, account(name), METERED);
    const finish = await moveMeters(cluster, 2, [moving]);
    const before = await calls();
    assert.deepEqual(await ask(store, moving, METERED, 6), { admitted: 6, by: ["local"] });
    assert.deepEqual(await ask(store, moving, PLAIN, 1), { admitted: 1, by: ["store"] });
    assert.deepEqual(await ask(store, other, PLAIN, 5), { admitted: 5, by: ["store"] });
    const sent = (await calls()) - before;
    assert.ok(sent < 60, `${sent} calls`);
    assert.deepEqual([gate.owedUnits(), await countedIn(cluster, moving)], [6, 2]);
    await finish();
    await eventually(() => assert.equal(gate.owedUnits(), 0), { withinMs: 10_000 });
    assert.deepEqual(
      [await countedIn(cluster, moving), await countedIn(cluster, other)],
      [1 + 6 + 1, 1 + 5],
    );
    const { windows } = await store.peek(account(moving), METERED);
    assert.deepEqual(
      windows.map(({ used }) => used),
      [8, 7],
    );
    assert.deepEqual(house.changes(), []);
    assert.equal((await ask(store, moving, METERED, 3)).admitted, 2);
  });

  it("what is owed leaves no more than the rest of the limit to the store", async () => {
    await using house = await openFallback(cluster, { policy: PATIENT });
    const { store, gate } = house;
    const [moving] = namesOf([3], 1, "bound") as [string];
    await spend(store, account(moving), METERED);
    const finish = await moveMeters(cluster, 3, [moving]);
    assert.deepEqual(await ask(store, moving, METERED, 4), { admitted: 4, by: ["local"] });
    assert.equal((await ask(store, moving, PLAIN, 8)).admitted, LIMIT - 1 - 4);
    assert.equal((await ask(store, moving, METERED, 3)).admitted, 0);
    await finish();
    await eventually(() => assert.equal(gate.owedUnits(), 0), { withinMs: 10_000 });
    assert.equal(await countedIn(cluster, moving), LIMIT);
  });

  it("a gateway admits one share however often other accounts are answered between, and these get their whole limit", async () => {
    const policy = { ...PATIENT, expectedGateways: 2 };
    await using house = await openFallback(cluster, { policy });
    await using _peer = await openFallback(cluster, { policy });
    const [moving, other] = namesOf([5], 2, "share") as [string, string];
    for (const name of [moving, other]) await spend(house.store, account(name), METERED);
    const finish = await moveMeters(cluster, 5, [moving]);
    const share = Math.ceil((LIMIT - 1) / 2);
    assert.equal((await ask(house.store, moving, METERED, LIMIT)).admitted, share);
    await eventually(
      async () => {
        await ask(house.store, other, PLAIN, 1);
        assert.equal(await countedIn(cluster, other), LIMIT);
      },
      { withinMs: 10_000 },
    );
    assert.equal((await ask(house.store, moving, METERED, LIMIT)).admitted, 0);
    await finish();
    await eventually(() => assert.equal(house.gate.owedUnits(), 0), { withinMs: 10_000 });
    assert.equal(await countedIn(cluster, moving), 1 + share);
  });

  it("no bucket is away whose heartbeats the two nodes cannot answer, its accounts have their whole limit, and it is away once it takes no writes", async () => {
    const policy = { ...PATIENT, expectedGateways: 2 };
    await using house = await openFallback(cluster, { policy });
    const [name] = namesOf([0], 1, "beats") as [string];
    const source = cluster.clients[cluster.ownerOf(bucketSlot(0))];
    const refused = async () => {
      const text = String(await source?.info("errorstats"));
      return Number(/errorstat_TRYAGAIN:count=(\d+)/.exec(text)?.[1] ?? 0);
    };
    const before = await refused();
    await eventually(async () => assert.equal(await source?.exists("tg:{0}:peers"), 1));
    const finish = await moveKeys(cluster, 0, ["tg:{0}:peers"]);
    // Two heartbeats in a row that nobody answered would be an outage, and its probes follow.
    await eventually(async () => assert.ok((await refused()) >= before + 3), { withinMs: 20_000 });
    assert.deepEqual([house.gate.health(), house.changes()], [{ ok: true }, []]);
    const asked = await ask(house.store, name, PLAIN, LIMIT + 1);
    assert.equal(asked.admitted, LIMIT);
    await source?.config("SET", "maxmemory", "1");
    await eventually(() => assert.match(`${house.gate.health().why}`, /out of memory/));
    await source?.config("SET", "maxmemory", "0");
    await eventually(() => assert.deepEqual(house.changes(), ["store_away", "store_back"]));
    await finish();
  });

  it("a bucket that is away meanwhile is back as soon as it answers, not when the slot has moved", async () => {
    await using house = await openFallback(cluster, { policy: PATIENT });
    const [name] = namesOf([7], 1, "blip") as [string];
    await ask(house.store, name, PLAIN, 1);
    const finish = await moveKeys(cluster, 7, []);
    const failure = new StoreFailure("late", "no answer", "unknown");
    for (let i = 0; i < 5; i++) house.gate.onCallEnd(7, failure);
    await eventually(() => assert.deepEqual(house.changes(), ["store_away", "store_back"]));
    assert.deepEqual(await ask(house.store, name, PLAIN, 1), { admitted: 1, by: ["store"] });
    await finish();
  });

  it("a gateway that ends charges what it owes if the slot has moved, and tells it as lost if not", async () => {
    const lost = async (bucket: number, isMoved: boolean) => {
      const house = await openFallback(cluster, { policy: PATIENT });
      const [moving] = namesOf([bucket], 1, "ends") as [string];
      await spend(house.store, account(moving), METERED);
      const finish = await moveMeters(cluster, bucket, [moving]);
      await ask(house.store, moving, METERED, 3);
      if (isMoved) await finish();
      await house.store.close();
      if (!isMoved) await finish();
      const lines = house.told.filter(({ message }) => message === "charges_lost");
      return [await countedIn(cluster, moving), lines.map(({ details }) => details?.units)];
    };
    assert.deepEqual(await lost(6, true), [4, []]);
    assert.deepEqual(await lost(8, false), [1, [3]]);
  });
});
