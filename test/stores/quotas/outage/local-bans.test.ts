import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, vi } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { rateLimitRefusal } from "../../../../src/core/quota/rate-limit-info.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { eventually } from "../../../support/poll.ts";
import { useProxiedRedis } from "../../../support/redis/redis-of-file.ts";
import { BANS } from "../quota-store-kit.ts";
import { account } from "../redis/redis-kit.ts";
import { type FallbackHouse, leave, openFallback } from "./fallback-kit.ts";

const { proxy, redis } = await useProxiedRedis();
const accountRef = account("banned");

function perDay(limit: number, observe: boolean): QuotaRequest {
  const bans = { ...BANS, strikes: 2, graceMs: 20, durationMs: 600_000, observe };
  return { limits: [{ window: "day", limit }], bans, requests: 1 };
}

async function ask({ store }: FallbackHouse, quotaRequest: QuotaRequest) {
  const answer = await store.charge(accountRef, quotaRequest);
  assert.ok("decision" in answer);
  return answer;
}

/** Asks while the store is away, until the ban is earned. */
function earn(house: FallbackHouse, quotaRequest: QuotaRequest) {
  return eventually(async () => {
    const { earned, by } = await ask(house, quotaRequest);
    await sleep(25);
    assert.ok(earned !== undefined);
    assert.equal(by, "local");
    return earned;
  });
}

it("a ban that was earned while the store was away is in force until its end when it is back", async () => {
  await using house = await openFallback(proxy);
  await ask(house, perDay(3, false));
  await leave(proxy, house.store);
  const { untilMs } = await earn(house, perDay(3, false));
  await proxy.listen();
  await eventually(() => house.gate.health().ok);
  for (const limit of [3, 1_000]) {
    const { admitted, decision } = await ask(house, perDay(limit, false));
    assert.deepEqual([admitted, decision.ban?.untilMs], [false, untilMs]);
  }
});

it("one that is only observed refuses nobody once the store is back", async () => {
  await using house = await openFallback(proxy);
  await ask(house, perDay(3, true));
  await leave(proxy, house.store);
  await earn(house, perDay(3, true));
  await proxy.listen();
  await eventually(() => house.gate.health().ok);
  await eventually(async () => (await ask(house, perDay(1_000, true))).admitted);
});

/** Imposes a ban at one gateway, and waits until another knows of it. */
async function impose(here: FallbackHouse, there: FallbackHouse): Promise<number> {
  const length = { lengthMs: 600_000, keptMs: 600_000 };
  const imposed = { ...length, window: "day", plan: "free", reason: "" } as const;
  const { untilMs } = await here.store.ban(imposedOn, imposed);
  await eventually(() => {
    assert.equal(there.store.lastKnown(imposedOn)?.ban?.untilMs, untilMs);
  });
  return untilMs;
}

const imposedOn = account("imposed");
const DAILY = perDay(10, false);

describe.each(["local", "allow"] as const)("onStoreFailure: %s", (onStoreFailure) => {
  it.each([
    ["of a ban imposed by hand", () => undefined],
    [
      "of one, while keys changed",
      (here: QuotaStore, there: QuotaStore) => {
        for (const store of [here, there]) store.invalidate();
      },
    ],
    [
      "of one, while its account changed",
      (here: QuotaStore, there: QuotaStore) => {
        for (const store of [here, there]) store.invalidate(imposedOn);
      },
    ],
  ])("every gateway knows %s when the store goes, asked since or not", async (_what, change) => {
    const setup = { policy: { onStoreFailure }, prefix: randomUUID() };
    await using here = await openFallback(proxy, setup);
    await using there = await openFallback(proxy, setup);
    for (const { store } of [here, there]) await store.charge(imposedOn, DAILY);
    const untilMs = await impose(here, there);
    await change(here.store, there.store);
    const knowing = () =>
      [here, there].map(({ store }) => store.lastKnown(imposedOn)?.ban?.untilMs);
    await eventually(() => assert.deepEqual(knowing(), [untilMs, untilMs]));
    for (const { store } of [here, there]) await leave(proxy, store);
    for (const { store } of [here, there]) {
      const answer = await store.charge(imposedOn, DAILY);
      assert.ok("decision" in answer);
      assert.deepEqual([answer.admitted, answer.decision.ban?.untilMs], [false, untilMs]);
    }
    await proxy.listen();
  });
});

describe("a ban that Redis has lost", () => {
  it("holds at a gateway that only heard of it, for each request, and charges nothing", async () => {
    const setup = { prefix: randomUUID() };
    await using here = await openFallback(proxy, setup);
    await using there = await openFallback(proxy, setup);
    const untilMs = await impose(here, there);
    await redis.del(accountKey(setup.prefix, imposedOn));
    const answers = await Promise.all(Array.from({ length: 3 }, () => heard(there)));
    answers.push(await heard(there));
    assert.deepEqual(answers, Array(4).fill([false, untilMs, 0]));
  });

  it("holds where a window of the account was known as well, and another one was not", async () => {
    const setup = { prefix: randomUUID() };
    await using here = await openFallback(proxy, setup);
    await using there = await openFallback(proxy, setup);
    await there.store.charge(imposedOn, DAILY);
    const untilMs = await impose(here, there);
    await redis.del(accountKey(setup.prefix, imposedOn));
    const limits = [...DAILY.limits, { window: "hour", limit: 5 } as const];
    const answers = [await heard(there, { ...DAILY, limits }), await heard(there)];
    assert.deepEqual(
      answers.map(([admitted, until]) => [admitted, until]),
      Array(2).fill([false, untilMs]),
    );
  });

  it("and that is lifted refuses no request from then on", async () => {
    const setup = { prefix: randomUUID() };
    await using here = await openFallback(proxy, setup);
    await using there = await openFallback(proxy, setup);
    await impose(here, there);
    await here.store.liftBan(imposedOn);
    await eventually(async () =>
      assert.deepEqual((await heard(there)).slice(0, 2), [true, undefined]),
    );
    assert.deepEqual(await heard(there), [true, undefined, 2]);
  });
});

/** Whether a request of the imposed account is admitted, the end of its ban, and the day's count. */
async function heard({ store }: FallbackHouse, quotaRequest = DAILY) {
  const answer = await store.charge(imposedOn, quotaRequest);
  assert.ok("decision" in answer);
  const { ban, windows } = answer.decision;
  return [answer.admitted, ban?.untilMs, windows[0]?.used];
}

const earning = account("earning");
const TWO_A_DAY = perDay(2, false);

/** Charges until the account has earned a ban, and gives that. */
function earnedBy({ store }: FallbackHouse, quotaRequest = TWO_A_DAY) {
  return eventually(async () => {
    const answer = await store.charge(earning, quotaRequest);
    assert.ok("decision" in answer && answer.earned !== undefined);
    return answer.earned;
  });
}

it.each(["local", "allow"] as const)(
  "onStoreFailure: %s: a gateway that did not earn a ban refuses by it when the store goes",
  async (onStoreFailure) => {
    const setup = { policy: { onStoreFailure }, prefix: randomUUID() };
    await using here = await openFallback(proxy, setup);
    await using there = await openFallback(proxy, setup);
    await there.store.charge(earning, TWO_A_DAY);
    const { untilMs } = await earnedBy(here);
    await eventually(() => {
      assert.equal(there.store.lastKnown(earning)?.ban?.untilMs, untilMs);
    });
    await leave(proxy, there.store);
    const answer = await there.store.charge(earning, TWO_A_DAY);
    assert.ok("decision" in answer);
    assert.deepEqual([answer.admitted, answer.decision.ban?.untilMs], [false, untilMs]);
    await proxy.listen();
  },
);

describe("a gateway that cannot read the place of an account", () => {
  it("refuses by a ban by hand that it hears of, and by none that it hears lifted", async () => {
    const prefix = randomUUID();
    await using here = await openFallback(proxy, { prefix });
    await using there = await openFallback(proxy, { prefix, through: unableToRead });
    for (const { store } of [here, there]) await store.charge(imposedOn, DAILY);
    const untilMs = await impose(here, there);
    await leave(proxy, there.store);
    assert.deepEqual((await heard(there)).slice(0, 2), [false, untilMs]);
    await proxy.listen();
    for (const { store } of [here, there]) await eventually(() => store.health().ok);
    await here.store.liftBan(imposedOn);
    await eventually(() => assert.equal(there.store.lastKnown(imposedOn)?.ban, undefined));
    await leave(proxy, there.store);
    assert.equal((await heard(there))[0], true);
    await proxy.listen();
  });

  it("believes the store's answer more than a ban that it was told", async () => {
    const prefix = randomUUID();
    await using here = await openFallback(proxy, { prefix });
    await using there = await openFallback(proxy, { prefix, through: unableToRead });
    for (const { store } of [here, there]) await store.charge(imposedOn, DAILY);
    const untilMs = await impose(here, there);
    assert.deepEqual((await heard(there)).slice(0, 2), [false, untilMs]);
    await impose(here, there);
    // As after a lift of which no message tells.
    await redis.hdel(accountKey(prefix, imposedOn), "b");
    assert.equal((await heard(there))[0], true);
  });

  it("knows a ban that another one earned, until its end", async () => {
    const prefix = randomUUID();
    await using here = await openFallback(proxy, { prefix });
    await using there = await openFallback(proxy, { prefix, through: unableToRead });
    const { untilMs } = await earnedBy(here);
    await eventually(() => {
      assert.equal(there.store.lastKnown(earning)?.ban?.untilMs, untilMs);
    });
  });
});

/** The reading of a ban fails, as where only the node of its account is unreachable. */
function unableToRead(quotaClient: QuotaClient): QuotaClient {
  const { link } = quotaClient;
  const { send } = link;
  vi.spyOn(link, "send").mockImplementation((key, name, ...command) => {
    return name === "hget" ? Promise.reject(new Error("gone")) : send(key, name, ...command);
  });
  return quotaClient;
}

it("a gateway hears of each of 1,200 bans that another one earns at once", async () => {
  // A busy machine takes longer than 50 ms for so many calls, which would be an outage.
  const setup = { prefix: randomUUID(), policy: { storeTimeoutMs: 5_000 } };
  await using here = await openFallback(proxy, setup);
  await using there = await openFallback(proxy, setup);
  const earners = Array.from({ length: 1_200 }, (_, i) => account(`earner${i}`));
  const asked = { ...TWO_A_DAY, bans: { ...BANS, strikes: 1, graceMs: 0, durationMs: 600_000 } };
  const unknownTo = ({ store }: FallbackHouse) =>
    earners.filter((each) => store.lastKnown(each)?.ban === undefined);
  // Only so many refusals are on their way to the store at once.
  await eventually(async () => {
    const asks = unknownTo(here).map((each) => here.store.charge(each, asked));
    await Promise.all(asks);
    assert.deepEqual(unknownTo(here), []);
  });
  await eventually(() => assert.deepEqual(unknownTo(there), []));
});

/** The code of a refusal during an outage, and the window that it tells. */
async function refusalAway({ store }: FallbackHouse, quotaRequest: QuotaRequest) {
  const answer = await store.charge(earning, quotaRequest);
  assert.ok("decision" in answer && !answer.admitted);
  const { decision } = answer;
  const refusal = rateLimitRefusal(decision, decision.nowMs);
  return [refusal?.code, refusal?.rateLimitInfo.window];
}

describe.each(["local", "deny", "allow"] as const)("onStoreFailure: %s", (onStoreFailure) => {
  it.each([
    [1, "ban"],
    [2, "day"],
  ])(
    "in an outage a gateway that counted %i of 2 tells a banned account when the %s ends",
    async (counted, window) => {
      const bans = { ...BANS, strikes: 2, graceMs: 20, durationMs: 2_000 };
      const brief = { ...TWO_A_DAY, bans };
      const setup = { policy: { onStoreFailure }, prefix: randomUUID() };
      await using here = await openFallback(proxy, setup);
      await using there = await openFallback(proxy, setup);
      if (counted === 2) await here.store.charge(earning, brief);
      await there.store.charge(earning, brief);
      const { untilMs } = await earnedBy(here, brief);
      await eventually(() => {
        assert.equal(there.store.lastKnown(earning)?.ban?.untilMs, untilMs);
      });
      await leave(proxy, there.store);
      assert.deepEqual(await refusalAway(there, brief), ["key_banned", window]);
      await proxy.listen();
    },
  );
});

it("in an outage a gateway tells an account that it banned when the window ends that its share filled", async () => {
  await using house = await openFallback(proxy);
  const bans = { ...BANS, strikes: 2, graceMs: 20, durationMs: 2_000 };
  const brief = { ...TWO_A_DAY, bans };
  await house.store.charge(earning, brief);
  await leave(proxy, house.store);
  await eventually(async () => {
    const answer = await house.store.charge(earning, brief);
    await sleep(25);
    assert.ok("decision" in answer && answer.earned !== undefined);
  });
  assert.deepEqual(await refusalAway(house, brief), ["key_banned", "day"]);
  await proxy.listen();
});

it("a ban and its lift leave the counts that a gateway knows, and a reset does not", async () => {
  const prefix = randomUUID();
  await using here = await openFallback(proxy, { prefix });
  await using there = await openFallback(proxy, { prefix });
  const known = () => there.store.lastKnown(imposedOn, DAILY.limits);
  for (let i = 0; i < 3; i++) await there.store.charge(imposedOn, DAILY);
  await impose(here, there);
  assert.equal(known()?.windows[0]?.used, 3);
  for (const hadBan of [true, false]) {
    await there.store.charge(imposedOn, DAILY);
    assert.equal(await here.store.liftBan(imposedOn), hadBan);
    await eventually(() => assert.equal(there.store.lastKnown(imposedOn), undefined));
    assert.equal(known()?.windows[0]?.used, hadBan ? 3 : 4);
  }
  await here.store.reset(imposedOn);
  await eventually(() => assert.equal(known(), undefined));
});

it("a ban by hand that was lifted refuses nobody when the store goes", async () => {
  const prefix = randomUUID();
  await using here = await openFallback(proxy, { prefix });
  await using there = await openFallback(proxy, { prefix });
  await impose(here, there);
  assert.equal(await there.store.liftBan(imposedOn), true);
  await eventually(() => assert.equal(here.store.lastKnown(imposedOn)?.ban, undefined));
  for (const { store } of [here, there]) await leave(proxy, store);
  for (const { store } of [here, there]) {
    const answer = await store.charge(imposedOn, DAILY);
    assert.ok("decision" in answer && answer.admitted);
  }
  await proxy.listen();
});

it("a ban that a message was missed about, as it may have lifted it, refuses nobody when the store goes", async () => {
  const prefix = randomUUID();
  await using here = await openFallback(proxy, { prefix });
  await using there = await openFallback(proxy, { prefix });
  await impose(here, there);
  const accountHash = accountKey(prefix, imposedOn);
  assert.equal(await redis.hdel(accountHash, "b"), 1);
  await redis.incr(`${prefix}:{0}:version`);
  await eventually(() => assert.equal(there.store.lastKnown(imposedOn)?.ban, undefined));
  // The fields of an answer without a decision are those of these windows.
  const told = () => there.store.lastKnown(imposedOn, DAILY.limits)?.ban;
  assert.equal(told(), undefined);
  assert.equal((await there.store.read(imposedOn, DAILY)).ban, undefined);
  assert.equal(told(), undefined);
  await leave(proxy, there.store);
  assert.equal(told(), undefined);
  const answer = await there.store.charge(imposedOn, DAILY);
  assert.ok("decision" in answer && answer.admitted);
});

it("the first request after a ban by hand is told the count of the store, and the next ones cost no call", async () => {
  const prefix = randomUUID();
  await using here = await openFallback(proxy, { prefix });
  await using there = await openFallback(proxy, { prefix });
  for (let i = 0; i < 3; i++) await here.store.charge(imposedOn, DAILY);
  await impose(here, there);
  const told = [];
  for (let i = 0; i < 2; i++) {
    const answer = await there.store.charge(imposedOn, DAILY);
    assert.ok("decision" in answer);
    told.push([answer.by, answer.decision.windows[0]?.used, answer.decision.ban !== undefined]);
  }
  assert.deepEqual(told, [
    ["store", 3, true],
    ["memory", 3, true],
  ]);
});
