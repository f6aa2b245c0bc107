import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { KillLoss } from "../../../../src/cli/prove/judge/kill-loss.ts";
import type { SentRequest } from "../../../../src/cli/prove/trial/promises.ts";

const DOOMED = "http://127.0.0.1:2";
const SHOT = { origin: DOOMED, account: "a", operation: "pets", response: { status: 200 } };
const shot = (change: object) => ({ ...SHOT, ...change }) as SentRequest;

/** The loss of these requests to a gateway that is killed before the last of them ends. */
function lossOf(shots: readonly object[], since = { chargesMs: 2_000, settlementsMs: 1_000 }) {
  const loss = new KillLoss();
  for (const one of shots.slice(0, -1)) loss.take(shot(one));
  assert.deepEqual([loss.unitsOf("a"), loss.unsettledOf("a")], [0, 0], "it is not killed");
  loss.kill(DOOMED, since);
  for (const one of shots.slice(-1)) loss.take(shot(one));
  return [loss.unitsOf("a"), loss.unsettledOf("a")];
}

describe("the most that a killed gateway loses", () => {
  it("is what it admitted since it owed nothing, by cost, also if the response comes after the kill", () => {
    const [early, late] = [{ endedMs: 1_999 }, { endedMs: 2_000 }];
    assert.deepEqual(lossOf([early]), [0, 0]);
    assert.deepEqual(lossOf([early, late]), [1, 0]);
    assert.deepEqual(lossOf([late, { endedMs: 2_500, operation: "dear" }]), [5, 1]);
  });

  it("is the meter of each request that ended since it had settled all", () => {
    const dear = (endedMs: number) => ({ endedMs, operation: "dear" });
    assert.deepEqual(lossOf([dear(999), dear(1_000), dear(2_000)]), [4, 2]);
  });

  it("has nothing of another gateway or account, of a refusal, or of what was never answered", () => {
    const endedMs = 3_000;
    const others = [
      { endedMs, origin: "http://127.0.0.1:1" },
      { endedMs, account: "b" },
      { endedMs, response: { status: 429 } },
      { endedMs, response: { status: 503 } },
      { endedMs, response: undefined },
    ];
    assert.deepEqual(lossOf(others), [0, 0]);
  });

  it("forgets what ended two minutes ago, and nothing younger", () => {
    const unitsOf = (...ended: readonly number[]) => {
      const shots = ended.map((endedMs) => ({ endedMs }));
      return lossOf(shots, { chargesMs: 0, settlementsMs: 0 })[0];
    };
    assert.equal(unitsOf(1_000, 60_000, 121_000), 3);
    assert.equal(unitsOf(1_000, 60_000, 121_001), 2);
  });
});
