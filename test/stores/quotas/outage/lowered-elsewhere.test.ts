import assert from "node:assert/strict";
import { afterEach, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { type Holds, meterPart } from "../../../../src/core/quota/meters.ts";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { isMeter } from "../../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import type { ChargeResult } from "../../../../src/stores/quotas/quota-store.ts";
import { eventually } from "../../../support/poll.ts";
import { useProxiedRedis } from "../../../support/redis/redis-of-file.ts";
import { BANS } from "../quota-store-kit.ts";
import { account } from "../redis/redis-kit.ts";
import { type FallbackHouse, openFallback } from "./fallback-kit.ts";

/** Two gateways: what the one lowers gives room to the other. */
const houses: FallbackHouse[] = [];
afterEach(async () => {
  for (const house of houses.splice(0)) await house.store.close();
});
const { server, redis, proxy } = await useProxiedRedis();

const MINUTE = { window: "minute", limit: 100_000 } as const;
const CAP: Limit = { window: "day", limit: 3, part: { id: "@17", name: "key" } };
const TOKENS = {
  window: "day",
  limit: 4_100,
  part: meterPart("tokens"),
  hold: 2_000,
} as const;
const METERED: QuotaRequest = { limits: [MINUTE, TOKENS], bans: BANS, requests: 1, plan: "pro" };
const PLAIN: QuotaRequest = { ...METERED, limits: [MINUTE] };

const openHouse = async (policy: Parameters<typeof openFallback>[1] = {}, to = server.port) => {
  const house = await openFallback({ port: to }, policy);
  houses.push(house);
  return house;
};

async function ask({ store }: FallbackHouse, accountRef: AccountRef, quotaRequest: QuotaRequest) {
  const answer = await store.charge(accountRef, quotaRequest);
  assert.ok("decision" in answer);
  return answer;
}

function holdsOf({ decision }: ChargeResult): Holds {
  const meters = [{ name: "tokens", hold: 2_000, max: 2_000, untold: 2_000, used: [] }];
  const windows = decision.windows.filter(isMeter);
  return { id: "01J", plan: "pro", meters, windows, decidedMs: decision.nowMs };
}

/** The instant of the first refusal of the meter, in the store. */
async function firstRefusal(): Promise<number> {
  const [key = ""] = await redis.keys("*:m");
  return Number((await redis.hget(key, "tokensd"))?.split(" ")[2]);
}

const admitsSoon = (house: FallbackHouse, accountRef: AccountRef, quotaRequest: QuotaRequest) =>
  eventually(async () => (await ask(house, accountRef, quotaRequest)).admitted, {
    withinMs: 5_000,
  });

it("a meter that a gateway has filled is asked for again once another settled below its hold", async () => {
  const [settles, fills] = [await openHouse(), await openHouse()];
  const accountRef = account("metered");
  const slow = await ask(settles, accountRef, METERED);
  assert.equal((await ask(fills, accountRef, METERED)).admitted, true);
  settles.store.settle(accountRef, holdsOf(slow), [{ name: "tokens", units: 10 }]);
  await admitsSoon(fills, accountRef, METERED);
});

it("a full meter costs one command until it is lowered, whatever was asked meanwhile", async () => {
  const [settles, fills] = [await openHouse(), await openHouse()];
  const accountRef = account("asked_once");
  const slow = await ask(settles, accountRef, METERED);
  await ask(fills, accountRef, METERED);
  const first = await ask(fills, accountRef, METERED);
  assert.deepEqual([first.admitted, first.by], [false, "store"]);
  for (let i = 0; i < 3; i++) {
    const again = await ask(fills, accountRef, METERED);
    assert.deepEqual([again.admitted, again.by], [false, "memory"]);
    assert.equal((await ask(fills, accountRef, PLAIN)).admitted, true);
  }
  assert.ok((await firstRefusal()) > 0);
  settles.store.settle(accountRef, holdsOf(slow), [{ name: "tokens", units: 10 }]);
  await admitsSoon(fills, accountRef, METERED);
});

it("counts that went down reach an account that asks all the time for something else", async () => {
  const [settles, fills] = [await openHouse(), await openHouse()];
  const accountRef = account("busy");
  const slow = await ask(settles, accountRef, METERED);
  await ask(settles, accountRef, METERED);
  assert.equal((await ask(fills, accountRef, METERED)).admitted, false);
  let isOver = false;
  const busy = async () => {
    while (!isOver) await ask(fills, accountRef, PLAIN);
  };
  const clients = Promise.all([busy(), busy(), busy(), busy()]);
  try {
    settles.store.settle(accountRef, holdsOf(slow), [{ name: "tokens", units: 10 }]);
    await admitsSoon(fills, accountRef, METERED);
  } finally {
    isOver = true;
    await clients;
  }
});

it.each<[string, Pick<QuotaRequest, "limits" | "bans">]>([
  ["a window, without bans,", { limits: [{ window: "day", limit: 3 }], bans: undefined }],
  ["a cap of a key", { limits: [MINUTE, CAP], bans: BANS }],
])("%s filled with an answer that was taken back is asked for again", async (what, terms) => {
  const late = await openHouse({ policy: { onStoreFailure: "deny" } }, proxy.port);
  const fills = await openHouse();
  const accountRef = account(what.replaceAll(/\W/g, "_"));
  const quotaRequest: QuotaRequest = { ...terms, requests: 1 };
  await ask(late, accountRef, quotaRequest);
  proxy.behave({ answerLatencyMs: 400 });
  assert.ok("unavailable" in (await late.store.charge(accountRef, quotaRequest)));
  assert.equal((await ask(fills, accountRef, quotaRequest)).admitted, true);
  proxy.behave({});
  await admitsSoon(fills, accountRef, quotaRequest);
});

it("a full meter that no refusal has noted stays full while the store is unreachable", async () => {
  const fills = await openHouse({ policy: { onStoreFailure: "allow" } }, proxy.port);
  const accountRef = account("away");
  await ask(fills, accountRef, METERED);
  await ask(fills, accountRef, METERED);
  proxy.behave({ answerLatencyMs: 10_000 });
  for (let i = 0; i < 8; i++) {
    const { admitted, by } = await ask(fills, accountRef, METERED);
    assert.deepEqual([admitted, by], [false, "memory"]);
  }
});
