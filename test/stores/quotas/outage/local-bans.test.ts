import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { eventually } from "../../../support/poll.ts";
import { useProxiedRedis } from "../../../support/redis/redis-of-file.ts";
import { BANS } from "../quota-store-kit.ts";
import { account } from "../redis/redis-kit.ts";
import { type FallbackHouse, leave, openFallback } from "./fallback-kit.ts";

const { proxy } = await useProxiedRedis();
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
