import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type Call, gatherMs, learnTrip, newQueue } from "../../../src/stores/batch/call-queue.ts";

const CALL: Call = { asks: [], isOver: false, answered: Promise.resolve() };

function queueAt(tripMs: number, calls: number) {
  const queue = newQueue(0);
  for (let i = 0; i < 20; i++) learnTrip(queue, tripMs);
  for (let i = 0; i < calls; i++) queue.calls.push(CALL);
  return queue;
}

describe("asks gather before the second call", () => {
  it("to a Redis that is far, for an eighth of a trip, and not before the first", () => {
    assert.equal(gatherMs(queueAt(200, 1)), 25);
    assert.equal(gatherMs(queueAt(40, 1)), 5);
    assert.equal(gatherMs(queueAt(200, 0)), 0);
  });

  it("never to one that is near", () => {
    assert.equal(gatherMs(queueAt(39, 1)), 0);
    assert.equal(gatherMs(newQueue(0)), 0);
  });

  it("not because one call was slow, and no longer once one was quick", () => {
    const queue = queueAt(1, 1);
    learnTrip(queue, 500);
    assert.equal(gatherMs(queue), 0);
    const far = queueAt(200, 1);
    learnTrip(far, 1);
    assert.equal(gatherMs(far), 0);
  });
});
