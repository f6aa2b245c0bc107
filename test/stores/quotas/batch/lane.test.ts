import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { newQueue } from "../../../../src/stores/quotas/batch/call-queue.ts";
import { Lane } from "../../../../src/stores/quotas/batch/lane.ts";

function laneAt(tripMs: number, rounds: number): Lane {
  const lane = new Lane(() => {});
  for (let i = 0; i < 20; i++) lane.learnRoundTrip(tripMs);
  for (let i = 0; i < rounds; i++) lane.begin();
  return lane;
}

const turn = () => new Promise(setImmediate);

describe("requests gather before the second round", () => {
  it("to a Redis that is far, for an eighth of a trip, and not before the first", () => {
    assert.equal(laneAt(200, 1).delayMs, 25);
    assert.equal(laneAt(40, 1).delayMs, 5);
    assert.equal(laneAt(200, 0).delayMs, 0);
  });

  it("never to one that is near", () => {
    assert.equal(laneAt(39, 1).delayMs, 0);
    assert.equal(new Lane(() => {}).delayMs, 0);
  });

  it("not because one round was slow, and no longer once one was quick", () => {
    const lane = laneAt(1, 1);
    lane.learnRoundTrip(500);
    assert.equal(lane.delayMs, 0);
    const far = laneAt(200, 1);
    far.learnRoundTrip(1);
    assert.equal(far.delayMs, 0);
  });
});

describe("a lane", () => {
  it("begins one round for all queues that are added in a turn, and none while two are in flight", async () => {
    let rounds = 0;
    const taken: number[] = [];
    const lane = new Lane((free) => {
      rounds += 1;
      free.offer(({ number }) => taken.push(number) > 0);
      free.begin();
    });
    lane.add(newQueue(1));
    lane.add(newQueue(2));
    await turn();
    assert.deepEqual([rounds, taken], [1, [1, 2]]);
    const second = lane.begin();
    lane.add(newQueue(3));
    await turn();
    assert.equal(rounds, 1);
    lane.end(second);
    await turn();
    assert.deepEqual([rounds, taken], [2, [1, 2, 3]]);
  });

  it("counts the end of a round once, however many of its calls end", async () => {
    const lane = laneAt(0, 0);
    const [first] = [lane.begin(), lane.begin()];
    assert.equal(lane.isFree, false);
    lane.end(first);
    lane.end(first);
    lane.begin();
    assert.equal(lane.isFree, false);
  });

  it("gives a queue that found no place its turn before one that was served in part", async () => {
    const turns: number[][] = [];
    const [hot, other] = [newQueue(1), newQueue(2)];
    const lane = new Lane((free) => {
      const taken: number[] = [];
      turns.push(taken);
      // The hot queue fills each round by itself and always has more.
      free.offer((queue) => {
        if (taken.length > 0) return false;
        taken.push(queue.number);
        if (queue === hot) free.add(hot);
        return true;
      });
    });
    lane.add(hot);
    lane.add(other);
    for (let i = 0; i < 3; i++) await turn();
    assert.deepEqual(turns.slice(0, 3), [[1], [2], [1]]);
  });

  it("has a queue once, however often it is added", async () => {
    const taken: number[] = [];
    const lane = new Lane((free) => free.offer(({ number }) => taken.push(number) > 0));
    const queue = newQueue(7);
    lane.add(queue);
    lane.add(queue);
    await turn();
    assert.deepEqual(taken, [7]);
  });
});
