import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, it } from "vitest";
import { dayOf } from "../../../../src/core/quota/days.ts";
import { type Holds, meterPart } from "../../../../src/core/quota/meters.ts";
import { isMeter } from "../../../../src/core/quota/windows.ts";
import type { ChargeResult, QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { useProxiedRedis } from "../../../support/redis/redis-of-file.ts";
import { account, spend } from "../redis/redis-kit.ts";
import { type FallbackHouse, leave, openFallback } from "./fallback-kit.ts";

const { server, redis, proxy } = await useProxiedRedis();
const accountRef = account("metered");
/** A busy machine stalls for longer than 50 ms. */
const PATIENT = { storeTimeoutMs: 1_000 };
const part = meterPart("tokens");
const METER = { name: "tokens", hold: 4, max: 20, untold: 4, used: [] } as const;
/** No year of the real clock ends in the middle of a test. */
const ASK = {
  limits: [
    { window: "year", limit: 1_000 },
    { window: "year", limit: 100, part, hold: 4 },
  ],
  bans: undefined,
  requests: 1,
} as const;

/** A loss is told within this, once the store has said that it is no reset. */
const TOLD_MS = 1_000;

beforeEach(() => redis.flushall());

let number = 0;
const idsOf = new WeakMap<Holds, string>();

async function hold(store: QuotaStore): Promise<{ holds: Holds; result: ChargeResult }> {
  const result = await spend(store, accountRef, ASK);
  assert.equal(result.admitted, true);
  return { holds: holdsOf(result), result };
}

function holdsOf({ decision: { windows, nowMs: decidedMs } }: ChargeResult): Holds {
  number += 1;
  const id = `request-${number}`;
  const holds = { id, plan: "pro", meters: [METER], windows: windows.filter(isMeter), decidedMs };
  idsOf.set(holds, id);
  return holds;
}

const use = (units: number) => [{ name: "tokens", units }];

/** The counts of the year and of its tokens, and the tokens of the day by history. */
async function counts(store: QuotaStore): Promise<unknown> {
  const { windows } = await store.peek(accountRef, { ...ASK });
  const today = dayOf(Date.now());
  const [rows = []] = await store.history([accountRef], { from: today - 1, to: today });
  const tokens = rows.reduce((sum, { meters }) => sum + (meters?.tokens ?? 0), 0);
  return [...windows.map(({ used }) => used), tokens];
}

/** Puts a fault between the gateway and its settlements: `strike` says which of them lose their answer. */
function losing(strike: (call: number) => boolean) {
  const sent: string[] = [];
  const through = (quotaClient: QuotaClient): QuotaClient => ({
    ...quotaClient,
    runOnAccounts: async (script, keys, args, giveUpMs) => {
      const reply = await quotaClient.runOnAccounts(script, keys, args, giveUpMs);
      const text = String(args[1]);
      if (!text.includes("#tokens")) return reply;
      sent.push(text);
      if (!strike(sent.length)) return reply;
      throw new StoreFailure("unreachable", "the reply was lost", "unknown");
    },
  });
  return { sent, through };
}

describe("a settlement", () => {
  it("takes nothing back of a hold whose late charge is under way, as that may fail", async () => {
    let calls = 0;
    let fail = () => {};
    const failed = new Promise<void>((resolve) => {
      fail = resolve;
    });
    const through = (quotaClient: QuotaClient): QuotaClient => ({
      ...quotaClient,
      runOnAccounts: async (script, keys, args, giveUpMs) => {
        if (!String(args[1]).includes("#tokens"))
          return quotaClient.runOnAccounts(script, keys, args, giveUpMs);
        calls += 1;
        if (calls > 1) return quotaClient.runOnAccounts(script, keys, args, giveUpMs);
        await failed;
        throw new StoreFailure("LATE", "it came too late", "no");
      },
    });
    await using house = await openFallback(proxy, { policy: PATIENT, through });
    const { store } = house;
    await spend(store, account("another"), ASK);
    await leave(proxy, store);
    const { holds, result } = await hold(store);
    assert.equal(result.by, "local");
    await proxy.listen();
    await eventually(() => assert.equal(calls, 1));
    store.settle(accountRef, holds, use(1));
    // A call of its own would be sent in this time.
    await sleep(200);
    fail();
    await eventually(async () => assert.deepEqual(await counts(store), [1, 1, 1]), {
      withinMs: 10_000,
    });
  });

  it("is charged once though its call comes to a Redis that stood still until the gateway gave it up", async () => {
    const ended: string[] = [];
    let firstGiveUpMs = Number.POSITIVE_INFINITY;
    const through = (quotaClient: QuotaClient): QuotaClient => ({
      ...quotaClient,
      runOnAccounts: async (script, keys, args, giveUpMs = 0) => {
        const call = quotaClient.runOnAccounts(script, keys, args, giveUpMs);
        if (!String(args[1]).includes("#tokens")) return call;
        firstGiveUpMs = Math.min(firstGiveUpMs, giveUpMs);
        const end = (how: string) => void ended.push(how);
        call.then(
          () => end("charged"),
          () => end("failed"),
        );
        return call;
      },
    });
    await using house = await openFallback(server, { policy: PATIENT, through });
    const { store } = house;
    const { holds } = await hold(store);
    server.stop();
    try {
      store.settle(accountRef, holds, use(10));
      const isGivenUp = () => ended.length > 0 || performance.now() > firstGiveUpMs;
      await eventually(() => assert.ok(isGivenUp()));
    } finally {
      server.cont();
    }
    await eventually(() => assert.ok(ended.includes("charged")));
    assert.deepEqual(await counts(store), [1, 10, 10]);
  });

  it("goes with the late charges while the store is away: of holds admitted here, and of those of the store", async () => {
    await using house = await openFallback(proxy, { policy: PATIENT });
    const { store } = house;
    const [before, same] = [await hold(store), await hold(store)];
    await leave(proxy, store);
    const here = await hold(store);
    assert.equal(here.result.by, "local");
    store.settle(accountRef, before.holds, use(1));
    store.settle(accountRef, here.holds, use(9));
    store.settle(accountRef, same.holds, use(4));
    const open = await hold(store);
    await proxy.listen();
    await eventually(() => store.health().ok);
    await eventually(async () => assert.deepEqual(await counts(store), [4, 18, 18]), {
      withinMs: 10_000,
    });
    store.settle(accountRef, open.holds, use(0));
    await eventually(async () => assert.deepEqual(await counts(store), [4, 14, 14]));
    const isLoss = /^(?:settlement_lost|charges_|counter_)/;
    assert.deepEqual(
      house.told.filter(({ message }) => isLoss.test(message)),
      [],
    );
    assert.equal(store.charges().uncertainUnits, 0);
  });

  it("gives back to the share what its hold took from it, and nothing of a hold that the store decided", async () => {
    const policy = { ...PATIENT, expectedGateways: 2 };
    await using house = await openFallback(proxy, { policy });
    const { store } = house;
    const [before, same] = [await hold(store), await hold(store)];
    await leave(proxy, store);
    // The share is 46 of the 92 units that are left: 11 holds of 4.
    const remaining = async () => {
      const { windows } = (await hold(store)).result.decision;
      const [share] = windows.filter(isMeter);
      return (share?.limit ?? 0) - (share?.used ?? 0);
    };
    for (let i = 0; i < 20; i++) {
      const { holds, result } = await hold(store);
      assert.equal(result.by, "local");
      store.settle(accountRef, holds, use(i === 0 ? 1 : 0));
    }
    store.settle(accountRef, before.holds, use(0));
    store.settle(accountRef, same.holds, use(4));
    const left = [];
    for (let i = 0; i < 11; i++) left.push(await remaining());
    assert.deepEqual(
      left,
      Array.from({ length: 11 }, (_, i) => 46 - 1 - 4 * (i + 1)),
    );
    const refused = await spend(store, accountRef, ASK);
    assert.deepEqual([refused.admitted, refused.by], [false, "share"]);
    await proxy.listen();
    await eventually(async () => assert.deepEqual(await counts(store), [33, 49, 49]), {
      withinMs: 10_000,
    });
  });

  it("gives back to the share at once, though the call that settles has no answer yet", async () => {
    let sent = 0;
    const through = (quotaClient: QuotaClient): QuotaClient => ({
      ...quotaClient,
      runOnAccounts: async (script, keys, args, giveUpMs) => {
        if (!String(args[1]).includes("#tokens")) {
          return quotaClient.runOnAccounts(script, keys, args, giveUpMs);
        }
        sent += 1;
        return new Promise(() => {});
      },
    });
    await using house = await openFallback(proxy, { policy: PATIENT, through });
    const { store, gate } = house;
    await hold(store);
    // As after a call whose answer came late: the store has the hold, and so has the share.
    const here = gate.decide(accountRef, ASK);
    assert.ok(!("unavailable" in here) && here.admitted);
    gate.onLateDecision({ accountRef, quotaRequest: ASK }, { ...here.decision, granted: 1 });
    store.settle(accountRef, holdsOf(here), use(0));
    await eventually(() => assert.equal(sent, 1));
    const next = gate.decide(accountRef, ASK);
    assert.ok(!("unavailable" in next));
    assert.deepEqual(
      next.decision.windows.filter(isMeter).map(({ used }) => used),
      [4],
    );
  });

  it("to 0 of a hold that is owed after a late answer takes nothing from other requests", async () => {
    await using house = await openFallback(proxy, { policy: PATIENT });
    const { store, gate } = house;
    await hold(store);
    // As after one call without an answer: the store is not away, and the hold is owed to it.
    const here = gate.decide(accountRef, ASK);
    assert.ok(!("unavailable" in here) && here.admitted);
    store.settle(accountRef, holdsOf(here), use(0));
    await hold(store);
    await eventually(async () => assert.deepEqual(await counts(store), [3, 8, 8]));
  });

  it("that lowers and whose answer was lost is told and not repeated", async () => {
    const { sent, through } = losing((call) => call === 1);
    await using house = await openFallback(proxy, { through, policy: PATIENT });
    const { store } = house;
    const { holds } = await hold(store);
    store.settle(accountRef, holds, use(1));
    await eventually(() => assert.equal(house.told.length, 1));
    const [{ message, details } = { message: "", details: undefined }] = house.told;
    assert.deepEqual(
      [message, details?.id, details?.account, details?.meter, details?.units],
      ["settlement_lost", idsOf.get(holds), "metered", "tokens", -3],
    );
    const { holds: next } = await hold(store);
    store.settle(accountRef, next, use(5));
    await eventually(async () => assert.deepEqual(await counts(store), [2, 6, 6]));
    assert.equal(sent.filter((text) => text.includes(" -3")).length, 1, "it is sent once");
  });

  it("that raises and whose answer was lost is repeated, and told as uncertain", async () => {
    const { through } = losing((call) => call === 1);
    await using house = await openFallback(proxy, { through, policy: PATIENT });
    const { store } = house;
    const { holds } = await hold(store);
    store.settle(accountRef, holds, use(10));
    await hold(store);
    await eventually(async () => assert.deepEqual(await counts(store), [2, 20, 20]));
    const uncertain = house.told.filter(({ message }) => message === "charges_uncertain");
    assert.deepEqual(
      uncertain.map(({ details }) => [details?.units, details?.accounts]),
      [[0, "production:metered#tokens 6"]],
    );
  });

  it("is told as lost, with what the request used in all, if the gateway ends while the store is away", async () => {
    const house = await openFallback(proxy, { policy: PATIENT });
    const { store } = house;
    const before = await hold(store);
    await leave(proxy, store);
    const here = await hold(store);
    store.settle(accountRef, before.holds, use(1));
    store.settle(accountRef, here.holds, use(9));
    await house[Symbol.asyncDispose]();
    await proxy.listen();
    const lost = house.told.filter(({ message }) => message === "settlement_lost");
    assert.deepEqual(
      lost.map(({ details }) => [details?.id, details?.units]),
      [[`${idsOf.get(before.holds)} ${idsOf.get(here.holds)}`, -3 + 9]],
    );
  });

  it("is told as lost where the end waits no longer for the call that carries it, sent or not", async () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    let calls = 0;
    const through = (quotaClient: QuotaClient): QuotaClient => ({
      ...quotaClient,
      runOnAccounts: async (script, keys, args, giveUpMs) => {
        if (String(args[1]).includes("#tokens")) {
          calls += 1;
          await answered;
        }
        return quotaClient.runOnAccounts(script, keys, args, giveUpMs);
      },
    });
    await using house = await openFallback(proxy, { through, policy: PATIENT });
    const { store } = house;
    const [sent, next] = [await hold(store), await hold(store)];
    store.settle(accountRef, sent.holds, use(1));
    await eventually(() => assert.equal(calls, 1));
    store.settle(accountRef, next.holds, use(6));
    store.dropOwed();
    assert.deepEqual(
      house.told.map(({ message, details }) => [message, details?.id, details?.units]),
      [
        ["settlement_lost", idsOf.get(sent.holds), -3],
        ["settlement_lost", idsOf.get(next.holds), 2],
      ],
    );
    answer();
    await new Promise(setImmediate);
    assert.equal(calls, 1, "what was told as lost is not sent");
  });

  it("of many that end together shares calls with others, and each counts", async () => {
    const { sent, through } = losing(() => false);
    await using house = await openFallback(proxy, { through, policy: PATIENT });
    const { store } = house;
    const held = await Promise.all(Array.from({ length: 25 }, () => hold(store)));
    const calls = store.commandCount();
    for (const { holds } of held) store.settle(accountRef, holds, use(3));
    await eventually(async () => assert.deepEqual(await counts(store), [25, 75, 75]));
    assert.equal(sent.length, 1, "one call carries all");
    assert.ok(store.commandCount() - calls < 25);
  });

  it("of another gateway lets pass what this one knew to be refused, soon", async () => {
    await using one = await openFallback(proxy, { policy: PATIENT });
    await using other = await openFallback(proxy, { policy: PATIENT });
    const held = [];
    for (let i = 0; i < 25; i++) held.push(await hold(one.store));
    for (let i = 0; i < 2; i++)
      assert.equal((await spend(other.store, accountRef, ASK)).admitted, false);
    assert.equal((await spend(other.store, accountRef, ASK)).by, "memory");
    one.store.settle(accountRef, held[0]?.holds as Holds, use(0));
    await eventually(async () =>
      assert.equal((await spend(other.store, accountRef, ASK)).admitted, true),
    );
    assert.deepEqual([...one.told, ...other.told], [], "no lost count");
  });
});

describe("a settlement that raises a count tells", () => {
  const lostOf = ({ told }: Pick<FallbackHouse, "told">) => {
    return told.filter(({ message }) => message === "counter_regression");
  };

  it("no loss where the window of its hold was reset, as nothing is added then", async () => {
    await using house = await openFallback(proxy, { policy: PATIENT });
    const { store } = house;
    const { holds } = await hold(store);
    await store.reset(accountRef);
    await hold(store);
    store.settle(accountRef, holds, use(10));
    await eventually(async () => assert.deepEqual(await counts(store), [1, 4, 14]));
    await sleep(TOLD_MS);
    assert.deepEqual(lostOf(house), []);
  });

  it("what the store has lost, and what is counted by now", async () => {
    await using house = await openFallback(proxy, { policy: PATIENT });
    const { store } = house;
    const { holds } = await hold(store);
    for (let i = 0; i < 4; i++) await hold(store);
    await redis.flushall();
    // Answers of one millisecond of the store's clock tell no loss.
    await sleep(5);
    store.settle(accountRef, holds, use(10));
    await eventually(() => assert.equal(lostOf(house).length, 1));
    const [{ details } = { details: undefined }] = lostOf(house);
    assert.deepEqual([details?.window, details?.used, details?.was], ["tokens.year", 6, 20]);
  });
});

it("a gateway that is killed leaves its holds standing, and nothing takes them away", async () => {
  await using house = await openFallback(proxy, { policy: PATIENT });
  {
    // Its process ends: nothing of it is settled any more.
    await using gone = await openFallback(proxy, { policy: PATIENT });
    for (let i = 0; i < 3; i++) await hold(gone.store);
  }
  await hold(house.store);
  assert.deepEqual(await counts(house.store), [4, 16, 16]);
});
