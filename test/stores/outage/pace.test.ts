import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { SharedStore } from "../../../src/stores/redis/decider.ts";
import { eventually } from "../../support/poll.ts";
import { proxiedRedisOfFile } from "../../support/redis/redis-of-file.ts";
import { openFallback, policyOf } from "./fallback-kit.ts";

const { proxy } = await proxiedRedisOfFile();

/** Notes when each heartbeat goes out, on performance.now(). */
function watched(sentMs: number[]) {
  return ({ link, ...shared }: SharedStore): SharedStore => {
    const send: typeof link.send = (key, name, args) => {
      if (key === "tg:{0}:gateways" && name === "evalsha") sentMs.push(performance.now());
      return link.send(key, name, args);
    };
    const watching = { ...link, clustered: link.clustered, tried: link.tried, send };
    return Object.assign(Object.create(shared), shared, { link: watching });
  };
}

/** The pauses between heartbeats, in milliseconds. */
const pausesIn = (sentMs: readonly number[]) => {
  return sentMs.slice(1).map((ms, i) => ms - (sentMs[i] as number));
};

describe("the heartbeat", () => {
  it("is each second while the store is well, and each half a second while it does not answer", async () => {
    const sentMs: number[] = [];
    const policy = { storeTimeoutMs: 10_000 };
    await using house = await openFallback(proxy, { policy, through: watched(sentMs) });
    await eventually(() => sentMs.length >= 3, { withinMs: 20_000 });
    const well = pausesIn(sentMs);
    // A timer is never early but for the millisecond that Node rounds.
    assert.ok(Math.min(...well) > 990, `${well} ms`);

    house.gate.reconfigure(policyOf());
    proxy.behave({ blackHole: true });
    await eventually(() => house.gate.isAway(0), { withinMs: 20_000 });
    sentMs.length = 0;
    await eventually(() => sentMs.length >= 4, { withinMs: 20_000 });
    const away = pausesIn(sentMs);
    assert.ok(Math.min(...away) > 490, `${away} ms: one at a time`);
    // As patient as a request, and no more. The quickest of three: the machine may hold up the others.
    assert.ok(Math.min(...away) < 900, `${away} ms`);
  });
});
