import assert from "node:assert/strict";
import { it } from "vitest";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import {
  type BreakerContext,
  CircuitBreaker,
} from "../../../../src/stores/quotas/outage/breaker.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreClock } from "../../../../src/stores/redis/store-clock.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { policyOf } from "./fallback-kit.ts";

const nothing = () => {};

function openBreaker(): CircuitBreaker {
  const clock = new StoreClock();
  const quotaClient = { clockOf: () => clock, knowsClock: () => true };
  const context: BreakerContext = {
    quotaClient: quotaClient as unknown as QuotaClient,
    decisionCache: new DecisionCache(),
    heartbeat: { gateways: () => 2, peers: () => new Set(["other"]) },
    policy: policyOf(),
    clock: undefined,
    onUncertain: nothing,
    corrections: {
      onBanned: nothing,
      onLowered: nothing,
      onCounted: nothing,
      onCountLost: nothing,
      onDayClosed: nothing,
      onSettlementLost: nothing,
    },
  };
  return new CircuitBreaker(context, 1, 100);
}

it("another gateway that owes nothing yet while a bucket is away is waited for when it is back", async () => {
  const breaker = openBreaker();
  const owingNothing = () => new Map([["other", Date.now() + 60_000]]);
  breaker.trip(new StoreFailure("late", "no answer", "unknown"));
  // The answer to a call that was under way.
  breaker.onCallEnd(undefined);
  breaker.onHeartbeat(owingNothing());
  await breaker.recover();
  assert.ok(breaker.awaitsPeers, "it may have admitted requests since");
  breaker.onHeartbeat(new Map([["other", 0]]));
  assert.ok(breaker.awaitsPeers, "it owes");
  breaker.onHeartbeat(owingNothing());
  assert.ok(!breaker.awaitsPeers);
});
