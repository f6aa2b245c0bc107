import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, it } from "vitest";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { useProxiedRedis } from "../../../support/redis/redis-of-file.ts";
import { account, perDay, spend } from "../redis/redis-kit.ts";
import { admit, BOTH, counted, leave, openFallback } from "./fallback-kit.ts";

afterEach(async () => {
  await redis.config("SET", "maxmemory", "0");
  await redis.call("ACL", "SETUSER", "default", "allkeys", "allcommands");
});
const { redis, proxy } = await useProxiedRedis();

const NOON = Date.UTC(2026, 6, 15, 12);
const accountRef = account("a");
/** No minute of the real clock ends in the middle of a test. */
const DAY = perDay(1_000, undefined);

describe("what was admitted here", () => {
  it("is charged once to its own windows when the store is back, and decided there from then on", async () => {
    let nowMs = NOON + 59_000;
    await using house = await openFallback(proxy, { now: () => nowMs });
    await admit(house.store, 10);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 100), 50, "what was left of the minute");
    nowMs = NOON + 60_000;
    assert.equal(await admit(house.store, 7), 7, "of the next minute");
    assert.deepEqual(await counted(redis), { m: 10, d: 10 });
    await proxy.listen();
    await eventually(() => house.gate.health().ok);
    await eventually(async () => assert.deepEqual(await counted(redis), { m: 7, d: 67 }));
    const { by, decision } = await spend(house.store, accountRef, BOTH);
    assert.equal(by, "store");
    assert.deepEqual(
      decision.windows.map(({ used, limit }) => [used, limit]),
      [
        [8, 60],
        [68, 1000],
      ],
    );
    assert.deepEqual(house.changes(), ["store_away", "store_back"]);
  });

  it("while calls failed that were not executed is charged by the next that is answered", async () => {
    await using house = await openFallback(proxy);
    await admit(house.store, 1);
    await eventually(async () => assert.equal((await counted(redis)).d, 1));
    await redis.config("SET", "maxmemory", "1");
    assert.equal(await admit(house.store, 3), 3);
    assert.equal((await counted(redis)).d, 1, "OOM: nothing was executed");
    await redis.config("SET", "maxmemory", "0");
    assert.equal(await admit(house.store, 1), 1);
    await eventually(async () => assert.equal((await counted(redis)).d, 5));
    assert.deepEqual(house.changes(), [], "three failures are no absence");
    assert.deepEqual(house.told, [], "nothing is uncertain");
  });

  it("counts twice at most where a call ran and its answer was lost, and is told", async () => {
    await using house = await openFallback(proxy);
    await admit(house.store, 1, DAY);
    const { answered } = proxy.bytes();
    proxy.behave({ swallowReplies: true });
    assert.equal(await admit(house.store, 2, DAY), 2, "decided here, though Redis charged them");
    await eventually(() => proxy.bytes().answered > answered);
    proxy.behave({});
    proxy.reset();
    await eventually(() => assert.ok(Number(house.store.charges().uncertainUnits) > 0));
    await eventually(async () => {
      const { d = 0 } = await counted(redis);
      // Redis charges nothing in a call that it runs too late, as it does on a busy machine.
      const most = 3 + Number(house.store.charges().uncertainUnits);
      assert.ok(d >= 3 && d <= most, `${d} of ${most}: each is told`);
    });
    assert.ok((house.store.charges().uncertainUnits ?? 0) <= 3);
    const [line] = house.told.filter(({ message }) => message === "charges_uncertain");
    assert.deepEqual([line?.details?.units, line?.details?.accounts], [1, "production:a 1"]);
  });

  it("is owed again after a charge that was refused", async () => {
    await using house = await openFallback(proxy);
    await admit(house.store, 1, DAY);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 9, DAY), 9);
    await redis.call("ACL", "SETUSER", "default", "resetkeys", "~tg:{0}:gateways");
    await proxy.listen();
    await eventually(() => /permission/.test(house.gate.health().why ?? ""));
    assert.equal(await admit(house.store, 5, DAY), 5);
    await redis.call("ACL", "SETUSER", "default", "allkeys");
    await eventually(async () => assert.equal((await counted(redis)).d, 15));
    await eventually(() => house.gate.health().ok);
    assert.deepEqual(await counted(redis), { d: 15 });
    assert.deepEqual(house.changes(), ["store_away", "store_back"]);
  });

  it("is charged once after a right was missing before the first charge, and told as certain", async () => {
    // Redis refuses at once: no call is late on a busy machine, and uncertain for that.
    await using house = await openFallback(proxy, { policy: { storeTimeoutMs: 5_000 } });
    await admit(house.store, 1, DAY);
    await redis.call("ACL", "SETUSER", "default", "-hset");
    assert.equal(await admit(house.store, 4, DAY), 4);
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    await eventually(() => house.gate.health().ok);
    await admit(house.store, 1, DAY);
    assert.deepEqual(await counted(redis), { d: 6 });
    assert.equal(house.store.charges().uncertainUnits, 0);
  });

  it("is charged once while the right to HLEN is missing, which only the first charge of a day uses late", async () => {
    await using house = await openFallback(proxy, { policy: { storeTimeoutMs: 5_000 } });
    await redis.call("ACL", "SETUSER", "default", "-hlen");
    assert.equal(await admit(house.store, 4, DAY), 4);
    await eventually(async () => assert.ok((await counted(redis)).d));
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    await eventually(() => house.gate.health().ok);
    await admit(house.store, 1, DAY);
    assert.deepEqual(await counted(redis), { d: 5 });
  });

  it("is charged again when the charge itself got no answer, and told as uncertain", async () => {
    let lost = 0;
    const losing = (quotaClient: QuotaClient): QuotaClient => ({
      ...quotaClient,
      runOnAccounts: async (script, keys, args, giveUpMs) => {
        const reply = await quotaClient.runOnAccounts(script, keys, args, giveUpMs);
        if (!/^\d+ \d+ \d+;;d /.test(String(args[1])) || lost++ > 0) return reply;
        throw new StoreFailure("unreachable", "the reply was lost", "unknown");
      },
    });
    // Connections are refused at once: no call is late on a busy machine, and charged besides.
    const policy = { storeTimeoutMs: 5_000 };
    await using house = await openFallback(proxy, { through: losing, policy });
    await admit(house.store, 1, DAY);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 9, DAY), 9);
    await proxy.listen();
    await eventually(() => house.gate.health().ok);
    assert.equal(lost, 2);
    await admit(house.store, 1, DAY);
    await eventually(async () => assert.deepEqual(await counted(redis), { d: 20 }));
    assert.equal(house.store.charges().uncertainUnits, 9);
  });

  it("is exactly what was left, when one gateway that knew the count goes through an outage under load", async () => {
    await using house = await openFallback(proxy);
    const quotaRequest = perDay(2_000, undefined);
    let [admitted, running] = [await admit(house.store, 500, quotaRequest), true];
    await leave(proxy, house.store);
    const load = Array.from({ length: 16 }, async () => {
      while (running) {
        const result = await spend(house.store, accountRef, quotaRequest);
        if (result.admitted) admitted += 1;
        await sleep(4);
      }
    });
    await eventually(() => admitted > 900);
    await proxy.listen();
    await eventually(() => house.gate.health().ok);
    await eventually(() => house.store.lastKnown(accountRef)?.windows[0]?.used === 2_000);
    running = false;
    await Promise.all(load);
    assert.equal(admitted, 2_000);
    assert.deepEqual(await counted(redis), { d: 2_000 });
  });

  it("is known in a second absence, of which no answer told before it began", async () => {
    await using house = await openFallback(proxy);
    const quotaRequest = perDay(60, undefined);
    await admit(house.store, 10, quotaRequest);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 30, quotaRequest), 30);
    await proxy.listen();
    await eventually(() => house.gate.health().ok);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 60, quotaRequest), 20);
  });
});

describe("a debt", () => {
  it("is charged at the end of a gateway that met one failure and no request since", async () => {
    const house = await openFallback(proxy);
    await admit(house.store, 1, DAY);
    await redis.config("SET", "maxmemory", "1");
    assert.equal(await admit(house.store, 1, DAY), 1);
    await redis.config("SET", "maxmemory", "0");
    await house.store.close();
    assert.deepEqual(await counted(redis), { d: 2 });
    assert.equal(house.store.charges().lostUnits, 0);
  });

  it("is lost, and told, at the end of a gateway whose store is away", async () => {
    const house = await openFallback(proxy);
    await admit(house.store, 1, DAY);
    await eventually(async () => assert.equal((await counted(redis)).d, 1));
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 4, DAY), 4);
    await house.store.close();
    assert.equal(house.store.charges().lostUnits, 4);
    const lines = house.told.filter(({ message }) => message === "charges_lost");
    assert.deepEqual(
      lines.map(({ details }) => details),
      [{ units: 4, accounts: "production:a 4" }],
    );
    await proxy.listen();
  });

  it("is told as lost once where the end waits no longer for the call that charges it", async () => {
    const house = await openFallback(proxy);
    await admit(house.store, 1, DAY);
    await eventually(async () => assert.equal((await counted(redis)).d, 1));
    proxy.behave({ latencyMs: 200 });
    await eventually(async () => {
      await admit(house.store, 1, DAY);
      assert.equal(house.gate.health().ok, false);
    });
    assert.equal(await admit(house.store, 4, DAY), 4);
    await eventually(() => assert.equal(proxy.holds(":production:a"), false));
    const { owedUnits } = house.store.charges();
    assert.ok(owedUnits >= 4, `${owedUnits}`);
    const closing = house.store.close();
    await eventually(() => assert.equal(proxy.holds(":production:a"), true), { everyMs: 5 });
    house.store.dropOwed();
    const lost = () => house.told.filter(({ message }) => message === "charges_lost");
    assert.deepEqual(
      lost().map(({ details }) => details?.units),
      [owedUnits],
    );
    const { owedUnits: left, lostUnits } = house.store.charges();
    assert.deepEqual([left, lostUnits], [0, owedUnits], "what is lost is owed no more");
    await closing;
    assert.deepEqual([lost().length, house.store.charges().lostUnits], [1, owedUnits]);
    proxy.behave({});
  });

  it("of more accounts than are remembered is lost, and told by its units when the store is back or the gateway ends", async () => {
    for (const isBack of [true, false]) {
      const house = await openFallback(proxy, { accountsMax: 10 });
      await leave(proxy, house.store);
      for (let i = 0; i < 20; i++) await house.store.charge(account(`n${i}`), DAY);
      const lost = () => house.told.filter(({ message }) => message === "charges_lost");
      assert.deepEqual(lost(), []);
      if (isBack) {
        await proxy.listen();
        await eventually(() => house.told.some(({ message }) => message === "store_back"));
      }
      const told = lost().length;
      await house.store.close();
      const unnamed = lost().filter(({ details }) => details?.accounts === undefined);
      const units = isBack ? house.store.charges().lostUnits : 10;
      assert.ok(units >= 10, `${units}`);
      assert.deepEqual([told, unnamed[0]?.details, unnamed.length], [isBack ? 1 : 0, { units }, 1]);
      if (!isBack) await proxy.listen();
    }
  });

  it("of more accounts than fit in a call is kept whole when the first call fails, and is owed until its own call is answered", async () => {
    let fails = true;
    const owed = new Set<number>();
    const failing = (quotaClient: QuotaClient): QuotaClient => ({
      ...quotaClient,
      runOnAccounts: async (...call) => {
        if (fails) throw new StoreFailure("LOADING", "it is loading its data", "no");
        owed.add(house.store.charges().owedUnits);
        return quotaClient.runOnAccounts(...call);
      },
    });
    await using house = await openFallback(proxy, { through: failing });
    await leave(proxy, house.store);
    const ids = Array.from({ length: 600 }, (_, i) => `many${i}`);
    for (const id of ids) assert.equal(await admit(house.store, 1, DAY, id), 1);
    await proxy.listen();
    await sleep(1_200);
    assert.equal(house.store.charges().owedUnits, 600, "not twice");
    fails = false;
    await eventually(() => house.gate.health().ok);
    assert.ok(owed.has(600) && [...owed].some((units) => units > 0 && units < 600), `${[...owed]}`);
    assert.equal(house.store.charges().owedUnits, 0);
    for (const id of ids) assert.deepEqual(await counted(redis, id), { d: 1 }, id);
  });
});

describe("a second absence in one window", () => {
  it("starts from what is known then: the first one's share is not admitted again", async () => {
    await using house = await openFallback(proxy);
    const quotaRequest = perDay(60, undefined);
    await redis.config("SET", "maxmemory", "1");
    assert.equal(await admit(house.store, 1, quotaRequest), 1);
    await redis.config("SET", "maxmemory", "0");
    assert.equal(await admit(house.store, 58, quotaRequest), 58);
    // Units that were admitted without the store are charged behind an answer; the look comes after
    // that.
    await eventually(async () => assert.deepEqual(await counted(redis), { d: 59 }));
    await house.store.peek(accountRef, quotaRequest);
    await leave(proxy, house.store);
    assert.equal(await admit(house.store, 60, quotaRequest), 1);
  });
});
