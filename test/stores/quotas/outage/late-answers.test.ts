import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import type { QuotaDecider } from "../../../../src/stores/quotas/quota-store.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { openTcpProxy, type TcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { account, perDay } from "../redis/redis-kit.ts";
import { counted, type FallbackHouse, openFallback } from "./fallback-kit.ts";

const { server, redis } = await useRedis();
const quotaRequest = perDay(1_000_000, undefined);

/** Ten clients, one request after the other, until they are told to stop; gives the units admitted. */
function load(store: QuotaDecider) {
  let isOver = false;
  const client = async () => {
    let admitted = 0;
    while (!isOver) {
      const answer = await store.charge(account("a"), quotaRequest);
      if ("admitted" in answer && answer.admitted) admitted += 1;
      await sleep(1);
    }
    return admitted;
  };
  const clients = Promise.all(Array.from({ length: 10 }, client));
  const stop = async () => {
    isOver = true;
    return (await clients).reduce((sum, admitted) => sum + admitted, 0);
  };
  return { stop };
}

it("answers that come later than anybody waits for them charge no unit twice", async () => {
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy);
  await house.store.charge(account("a"), quotaRequest);
  const { stop } = load(house.store);
  for (let i = 0; i < 8; i++) {
    proxy.behave({ answerLatencyMs: 70 });
    await sleep(120);
    proxy.behave({});
    await sleep(100);
  }
  await eventually(() => house.gate.health().ok, { withinMs: 60_000 });
  const admitted = 1 + (await stop());
  await eventually(async () => {
    const [used] = Object.values(await counted(redis));
    assert.equal(used, admitted);
    return true;
  });
  assert.deepEqual(
    house.told.filter(({ message }) => message === "charges_uncertain"),
    [],
  );
});

it("takes back what a late answer charged for requests that were answered 503", async () => {
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy, { policy: { onStoreFailure: "deny" } });
  const accountRef = account("refused");
  const one = async () => {
    const answer = await house.store.charge(accountRef, quotaRequest);
    return "admitted" in answer && answer.admitted ? 1 : 0;
  };
  let admitted: number = await one();
  let refused = 0;
  for (let i = 0; i < 6; i++) {
    proxy.behave({ answerLatencyMs: 90 });
    const answers = await Promise.all([one(), one(), one()]);
    refused += answers.filter((answer) => answer === 0).length;
    admitted += answers.reduce<number>((sum, answer) => sum + answer, 0);
    proxy.behave({});
    await sleep(150);
    admitted += await one();
  }
  assert.ok(refused > 0, "no answer was late");
  await eventually(async () => {
    assert.equal(Object.values(await counted(redis, "refused"))[0], admitted);
  });
  const { uncertainUnits, lostUnits } = house.store.charges();
  assert.deepEqual([uncertainUnits, lostUnits], [0, 0]);
});

it("gives nothing back to a window that was reset since, and nothing below 0", async () => {
  await using proxy = await openTcpProxy(server);
  // Redis has to run the call in time, also on a busy machine: only the answer may be late.
  const policy = { onStoreFailure: "deny", storeTimeoutMs: 500 } as const;
  await using house = await openFallback(proxy, { policy });
  const accountRef = account("reset");
  await house.store.charge(accountRef, quotaRequest);
  proxy.behave({ answerLatencyMs: 1_500 });
  const late = house.store.charge(accountRef, quotaRequest);
  assert.deepEqual(await late, { unavailable: true });
  await using other = await openFallback(server);
  const [window] = await other.store.reset(accountRef);
  assert.equal(window?.units, 2, "the late call ran before the reset");
  for (let i = 0; i < 3; i++) await other.store.charge(accountRef, quotaRequest);
  proxy.behave({});
  await eventually(() => house.gate.health().ok);
  await eventually(async () => {
    const answer = await house.store.charge(accountRef, { ...quotaRequest, cost: 0 });
    assert.ok("decision" in answer);
  });
  const [used] = (await other.store.peek(accountRef, quotaRequest)).windows;
  assert.equal(used?.used, 3);
});

it("tells the counts that a late charge brought, once, and not those that it takes back", async () => {
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy, { policy: { storeTimeoutMs: 2_000 } });
  const accountRef = account("told");
  const few = { ...quotaRequest, limits: [{ window: "day", limit: 10 } as const], plan: "free" };
  await house.store.charge(accountRef, few);
  await proxy.refuse();
  await eventually(() => !house.store.health().ok);
  for (let i = 0; i < 8; i++) await house.store.charge(accountRef, few);
  await proxy.listen();
  await eventually(() => house.gate.health().ok);
  const told = house.late.map(({ plan, usage: { window, from, used, limit } }) => {
    return [plan, window, from, used, limit];
  });
  assert.deepEqual(told, [["free", "day", 1, 9, 10]]);
});

it("owes what it admitted until the store has answered that it charged it", async () => {
  await using proxy = await openTcpProxy(server);
  let answer = () => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await using house = await openFallback(proxy, {
    policy: { storeTimeoutMs: 2_000 },
    through: (quotaClient) => {
      const runOnAccounts: QuotaClient["runOnAccounts"] = async (...call) => {
        const reply = await quotaClient.runOnAccounts(...call);
        await held;
        return reply;
      };
      return { ...quotaClient, runOnAccounts };
    },
  });
  const accountRef = account("owing");
  await house.store.charge(accountRef, quotaRequest);
  await proxy.refuse();
  await eventually(() => !house.store.health().ok);
  for (let i = 0; i < 3; i++) await house.store.charge(accountRef, quotaRequest);
  assert.equal(house.store.charges().owedUnits, 3);
  await proxy.listen();
  await eventually(async () => assert.equal((await counted(redis, "owing")).d, 4));
  assert.equal(house.store.charges().owedUnits, 3, "no answer says that they are charged");
  answer();
  await eventually(() => assert.equal(house.store.charges().owedUnits, 0));
  assert.equal((await counted(redis, "owing")).d, 4, "once");
});

/**
 * On a busy machine too Redis runs a call within this. The answer alone is late, and sooner than the
 * second after which a silent connection is given up.
 */
const PATIENT = { onStoreFailure: "deny", storeTimeoutMs: 300 } as const;

/** A request that was answered as unavailable, and that Redis has charged. */
async function chargedForNothing(house: FallbackHouse, proxy: TcpProxy, id: string) {
  await house.store.charge(account(id), quotaRequest);
  proxy.behave({ answerLatencyMs: 700 });
  assert.deepEqual(await house.store.charge(account(id), quotaRequest), { unavailable: true });
}

const uncertainOf = ({ told }: FallbackHouse) => {
  return told
    .filter(({ message }) => message === "charges_uncertain")
    .map(({ details }) => details?.accounts);
};

it("tells the units that it does not take back, since the answer to that was lost", async () => {
  await using proxy = await openTcpProxy(server);
  let losses = 0;
  await using house = await openFallback(proxy, {
    policy: PATIENT,
    through: (quotaClient) => {
      const runOnAccounts: QuotaClient["runOnAccounts"] = async (...call) => {
        const reply = await quotaClient.runOnAccounts(...call);
        losses += 1;
        if (losses > 1) return reply;
        throw new StoreFailure("unreachable", "the connection was cut", "unknown");
      };
      return { ...quotaClient, runOnAccounts };
    },
  });
  await chargedForNothing(house, proxy, "lost");
  proxy.behave({});
  await eventually(() => assert.match(String(uncertainOf(house)), /production:lost 1/));
  assert.equal((await counted(redis, "lost")).d, 1, "it gave them back");
  await eventually(async () => {
    assert.ok("decision" in (await house.store.charge(account("lost"), quotaRequest)));
  });
  await eventually(async () => assert.equal((await counted(redis, "lost")).d, 2, "once"));
});

it("tells the units that it does not take back, since it ends", async () => {
  await using proxy = await openTcpProxy(server);
  let refusals = 0;
  await using house = await openFallback(proxy, {
    policy: PATIENT,
    through: (quotaClient) => {
      const runOnAccounts: QuotaClient["runOnAccounts"] = async () => {
        refusals += 1;
        throw new StoreFailure("LATE", "it came too late", "no");
      };
      return { ...quotaClient, runOnAccounts };
    },
  });
  await chargedForNothing(house, proxy, "ended");
  await eventually(() => assert.ok(refusals > 0));
  await house.store.close();
  assert.deepEqual(uncertainOf(house), ["production:ended 1"]);
});

it("charges what it owes when it ends, though the store is known to be slow", async () => {
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy);
  const accountRef = account("slow");
  await house.store.charge(accountRef, quotaRequest);
  proxy.behave({ answerLatencyMs: 120 });
  await eventually(async () => {
    await house.store.charge(accountRef, quotaRequest);
    assert.ok(!house.gate.health().ok);
  });
  let admitted = 0;
  for (let i = 0; i < 5; i++) {
    const answer = await house.store.charge(accountRef, quotaRequest);
    if ("admitted" in answer && answer.admitted) admitted += 1;
  }
  assert.equal(admitted, 5);
  const lost = house.store.charges().lostUnits;
  // A heartbeat charges too, with less time than the end has.
  void house.gate.prepare(0)?.catch(() => undefined);
  await house.store.close();
  assert.equal(house.store.charges().lostUnits, lost, "nothing is lost");
});

/**
 * Charges 1, then asks for 50 at a time while no answer comes, until another connection is opened.
 * Returns the units that were admitted.
 */
async function chargeUntilReplaced(house: FallbackHouse, proxy: TcpProxy, id: string) {
  // On a busy machine the first answer may come late.
  await eventually(async () => {
    const answer = await house.store.charge(account(id), quotaRequest);
    assert.ok("admitted" in answer && answer.by === "store");
  });
  const before = proxy.accepted();
  let admitted = 1;
  proxy.behave({ answerLatencyMs: 2_500 });
  await eventually(async () => {
    const answer = await house.store.charge(account(id), { ...quotaRequest, cost: 50 });
    if ("admitted" in answer && answer.admitted) admitted += 50;
    assert.ok(proxy.accepted() > before, "the silent connection is still in use");
  });
  return admitted;
}

it.each([
  ["deny", 50],
  ["deny", 1_000],
  ["local", 50],
] as const)(
  "counts what was admitted once the answers of a replaced silent connection have come: %s, %d ms",
  async (onStoreFailure, storeTimeoutMs) => {
    await redis.flushall();
    await using proxy = await openTcpProxy(server);
    await using house = await openFallback(proxy, { policy: { onStoreFailure, storeTimeoutMs } });
    const admitted = await chargeUntilReplaced(house, proxy, "silent");
    assert.equal(admitted > 1, onStoreFailure === "local");
    proxy.behave({});
    await eventually(() => house.gate.health().ok);
    await eventually(async () => assert.equal((await counted(redis, "silent")).d, admitted));
    assert.deepEqual(uncertainOf(house), []);
  },
);

it.each([
  ["it is cut", false, (_: FallbackHouse, proxy: TcpProxy) => proxy.reset()],
  ["the gateway ends", true, ({ store }: FallbackHouse) => store.close()],
] as const)(
  "tells as uncertain what a silent connection charged, once, if %s before its answers come",
  async (_, isToldAtOnce, end) => {
    await redis.flushall();
    await using proxy = await openTcpProxy(server);
    await using house = await openFallback(proxy, { policy: PATIENT });
    await chargeUntilReplaced(house, proxy, "cut");
    assert.deepEqual(uncertainOf(house), [], "an answer may still come");
    proxy.behave({});
    await end(house, proxy);
    const toldUnits = house.store.charges().uncertainUnits;
    const charged = ((await counted(redis, "cut")).d ?? 0) - 1;
    assert.ok(charged > 0 && charged <= 5 * 50, `${charged} units`);
    if (isToldAtOnce) assert.equal(toldUnits, charged);
    await eventually(() => assert.equal(house.store.charges().uncertainUnits, charged));
  },
);

it("an answer that comes late tells no window that has ended since", async () => {
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy, { policy: { onStoreFailure: "deny" } });
  const perSecond = { ...quotaRequest, limits: [{ window: "second", limit: 5 } as const] };
  await eventually(async () => {
    assert.ok("decision" in (await house.store.charge(account("in-time"), perSecond)));
  });
  const accountRef = account("first-is-late");
  proxy.behave({ answerLatencyMs: 1_500 });
  assert.deepEqual(await house.store.charge(accountRef, perSecond), { unavailable: true });
  const { windows } = await eventually(() => {
    const known = house.store.lastKnown(accountRef, perSecond.limits);
    assert.ok(known, "the answer has not come yet");
    return known;
  });
  // The store's clock is known to a few milliseconds; the answer was made in the second before.
  assert.ok((windows[0]?.resetMs ?? 0) > Date.now() - 250, `ended at ${windows[0]?.resetMs}`);
});
