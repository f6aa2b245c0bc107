import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import {
  type BreakerContext,
  CircuitBreaker,
} from "../../../../src/stores/quotas/outage/breaker.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreClock } from "../../../../src/stores/redis/store-clock.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { policyOf } from "./fallback-kit.ts";
import { accountRef, asking } from "./local-kit.ts";

const nothing = () => {};

function openBreaker(calls: Partial<QuotaClient> = {}): CircuitBreaker {
  const clock = new StoreClock();
  const quotaClient = { clockOf: () => clock, knowsClock: () => true, ...calls };
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

function failure(code: string): StoreFailure {
  return new StoreFailure(code, `Redis: ${code}`, "no");
}

it("another gateway that owes nothing yet while a bucket is away is waited for when it is back", async () => {
  const breaker = openBreaker();
  const owingNothing = () => new Map([["other", Date.now() + 60_000]]);
  breaker.trip(failure("late"));
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

describe("an outage", () => {
  it("is told by its first failure, or by the next one where that was a slot that moves", () => {
    for (const first of ["READONLY", "TRYAGAIN"]) {
      const breaker = openBreaker();
      for (const code of [first, "OOM", "unreachable"]) breaker.onCallEnd(failure(code));
      const told = first === "TRYAGAIN" ? "OOM" : first;
      assert.equal(breaker.trip(failure("late")).code, told);
      assert.equal(breaker.why, `Redis: ${told}`);
    }
  });

  it("is told by no failure of before an answer, nor of the outage before", async () => {
    const breaker = openBreaker();
    breaker.onCallEnd(failure("READONLY"));
    breaker.onCallEnd(undefined);
    breaker.onCallEnd(failure("OOM"));
    assert.equal(breaker.trip(failure("late")).code, "OOM");
    await breaker.recover();
    breaker.onCallEnd(failure("MISCONF"));
    breaker.onHeartbeat(new Map());
    assert.equal(breaker.trip(failure("late")).code, "late");
  });

  it("lasts from a failure to an answer, and from the trip until the store is back", async () => {
    const breaker = openBreaker();
    const limits = [{ window: "day", limit: 10 }] as const;
    /** The limit that the account is told by its last known state, of which no answer tells. */
    const share = () => {
      return breaker.known.lastKnown(accountRef, limits, undefined, {})?.windows[0]?.limit;
    };
    assert.equal(share(), undefined);
    breaker.onCallEnd(failure("late"));
    assert.equal(share(), 5);
    breaker.onCallEnd(undefined);
    assert.equal(share(), undefined);
    breaker.trip(failure("late"));
    // The answer to a call that was under way.
    breaker.onCallEnd(undefined);
    assert.equal(share(), 5);
    await breaker.recover();
    assert.equal(share(), undefined);
  });
});

it("the last charge of a gateway that ends has half a second if the store is away, or else one", async () => {
  for (const isAway of [true, false]) {
    const leftMs: number[] = [];
    const runOnAccounts: QuotaClient["runOnAccounts"] = async (...[, , , giveUpMs = 0]) => {
      leftMs.push(giveUpMs - performance.now());
      throw failure("unreachable");
    };
    const breaker = openBreaker({ runOnAccounts, keyOf: () => "a" });
    breaker.onCallEnd(failure("unreachable"));
    breaker.decide(accountRef, asking({ window: "day", limit: 10 }));
    if (isAway) breaker.trip(failure("unreachable"));
    await assert.rejects(breaker.settleLast(), failure("unreachable"));
    assert.equal(leftMs.length, 1);
    const [left = 0] = leftMs;
    assert.ok(isAway ? left <= 500 : left > 500 && left <= 1_000, `${left} ms, away: ${isAway}`);
  }
});
