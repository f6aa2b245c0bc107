import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { BanPolicy } from "../../../../src/core/quota/decide.ts";
import {
  batchDelayMs,
  learnRoundTrip,
  type MergedRequest,
  newQueue,
  type StoreCall,
  takeBatch,
} from "../../../../src/stores/quotas/batch/call-queue.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { account } from "../redis/redis-kit.ts";

const CALL: StoreCall = { asks: [], isOver: false, answered: Promise.resolve() };

function queueAt(tripMs: number, calls: number) {
  const queue = newQueue(0);
  for (let i = 0; i < 20; i++) learnRoundTrip(queue, tripMs);
  for (let i = 0; i < calls; i++) queue.calls.push(CALL);
  return queue;
}

describe("asks gather before the second call", () => {
  it("to a Redis that is far, for an eighth of a trip, and not before the first", () => {
    assert.equal(batchDelayMs(queueAt(200, 1)), 25);
    assert.equal(batchDelayMs(queueAt(40, 1)), 5);
    assert.equal(batchDelayMs(queueAt(200, 0)), 0);
  });

  it("never to one that is near", () => {
    assert.equal(batchDelayMs(queueAt(39, 1)), 0);
    assert.equal(batchDelayMs(newQueue(0)), 0);
  });

  it("not because one call was slow, and no longer once one was quick", () => {
    const queue = queueAt(1, 1);
    learnRoundTrip(queue, 500);
    assert.equal(batchDelayMs(queue), 0);
    const far = queueAt(200, 1);
    learnRoundTrip(far, 1);
    assert.equal(batchDelayMs(far), 0);
  });
});

describe("the next call", () => {
  const asked = (id: string, bans: BanPolicy | undefined): MergedRequest => {
    const ask = { limits: [{ window: "day", limit: 1 }], bans, requests: 1 } as const;
    return { id, name: account(id), ask, known: undefined, waiting: [] };
  };

  it("takes 256 asks; the accounts of those that are left go on gathering requests", () => {
    const queue = newQueue(0);
    for (let i = 0; i < 300; i++) {
      const merged = asked(`a${i}`, DEFAULT_BANS);
      queue.asks.push(merged);
      queue.open.set(merged.id, merged);
    }
    assert.equal(takeBatch(queue).length, 256);
    assert.deepEqual([...queue.open.values()], queue.asks);
    assert.equal(queue.asks[0]?.id, "a256");
    assert.equal(takeBatch(queue).length, 44);
    assert.deepEqual([queue.asks, queue.open.size], [[], 0]);
  });

  it("has one ban policy: asks with another wait, and strikes ride along behind the asks", () => {
    const queue = newQueue(0);
    const other = { ...DEFAULT_BANS, strikes: DEFAULT_BANS.strikes + 1 };
    queue.asks.push(asked("a", DEFAULT_BANS), asked("b", other));
    queue.strikes.push(asked("s", { ...DEFAULT_BANS }), asked("t", other));
    const ids = () => takeBatch(queue).map(({ id }) => id);
    assert.deepEqual(ids(), ["a", "s"]);
    assert.deepEqual(ids(), ["b", "t"]);
  });
});
