import assert from "node:assert/strict";
import { it } from "vitest";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, perDay, spend } from "../redis/redis-kit.ts";
import { openFallback } from "./fallback-kit.ts";

const { server } = await useRedis();
const NOON = Date.UTC(2026, 6, 15, 12);
const accountRef = account("a");
/** A busy machine stalls for longer than 50 ms, and a gateway then decides by itself. */
const policy = { storeTimeoutMs: 20_000 };

it("a reading that a change of the account overtakes is not its last known state", async () => {
  const quotaRequest = perDay(10, undefined);
  await using here = await openFallback(server, { policy });
  await using there = await openFallback(server, { policy });
  await spend(here.store, accountRef, quotaRequest);
  await spend(there.store, accountRef, quotaRequest);
  const known = () => here.store.lastKnown(accountRef, quotaRequest.limits)?.windows[0]?.used;
  const reading = here.store.read(accountRef, quotaRequest);
  here.store.invalidate(accountRef);
  assert.equal((await reading).windows[0]?.used, 2);
  assert.equal(known(), 1);
  await here.store.read(accountRef, quotaRequest);
  assert.equal(known(), 2);
});

it("a reading hides no strikes of other gateways: the request that earns the ban is told it", async () => {
  let nowMs = NOON;
  const quotaRequest = perDay(1, { ...DEFAULT_BANS, strikes: 2, graceMs: 1_000 });
  await using here = await openFallback(server, { policy, now: () => nowMs });
  await using there = await openFallback(server, { policy, now: () => nowMs });
  for (const admitted of [true, false]) {
    assert.equal((await spend(here.store, accountRef, quotaRequest)).admitted, admitted);
  }
  for (const { store } of [there, here]) {
    // Behind the first refusal, which goes to Redis after its request was answered.
    await here.store.read(accountRef, quotaRequest);
    nowMs += 1_001;
    await store.read(accountRef, quotaRequest);
    const { decision } = await spend(store, accountRef, quotaRequest);
    assert.equal(decision.ban !== undefined, store === here.store);
  }
});
