import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { FailoverLoss } from "../../../src/cli/prove/failover-loss.ts";
import type { SentRequest } from "../../../src/cli/prove/promises.ts";

const judge = { take: () => {}, deniedAfterWaiting: () => {} };

/** The most that is lost of these units; the failover begins at 10,000 ms. */
function mostOf(admitted: readonly (readonly [atMs: number, operation: string])[], status = 200) {
  const loss = new FailoverLoss();
  const load = loss.beside(judge);
  let hasBegun = false;
  for (const [endedMs, operation] of admitted) {
    if (endedMs >= 10_000 && !hasBegun) {
      loss.begin(10_000);
      hasBegun = true;
    }
    load.take({
      account: "a",
      operation,
      sentMs: endedMs,
      endedMs,
      answer: { status },
    } as SentRequest);
  }
  return loss.most;
}

describe("the most that a failover loses", () => {
  it("is what its busiest second admitted, by cost, and not the average", () => {
    const burst = Array.from({ length: 100 }, (_, i) => [12_000 + i, "dear"] as const);
    const trickle = Array.from({ length: 10 }, (_, i) => [14_000 + 1_000 * i, "pets"] as const);
    assert.equal(mostOf([...burst, ...trickle]), 400);
    assert.equal(mostOf(trickle), 1);
  });

  it("holds a second, and no more", () => {
    assert.equal(
      mostOf([
        [11_000, "pets"],
        [11_999, "pets"],
      ]),
      2,
    );
    assert.equal(
      mostOf([
        [11_000, "pets"],
        [12_000, "pets"],
      ]),
      1,
    );
  });

  it("has the second before it began, and nothing earlier", () => {
    const early = Array.from({ length: 50 }, (_, i) => [5_000 + i, "pets"] as const);
    assert.equal(mostOf([...early, [9_500, "pets"], [9_600, "pets"], [10_000, "pets"]]), 3);
    assert.equal(mostOf([...early, [10_000, "pets"]]), 1);
  });

  it("has nothing that was refused", () => {
    assert.equal(mostOf([[11_000, "dear"]], 429), 0);
  });
});
