import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { excuseFailover, FailoverLoss } from "../../../../src/cli/prove/judge/failover-loss.ts";
import { judgeAll } from "../../../../src/cli/prove/load-judge.ts";
import type { SentRequest } from "../../../../src/cli/prove/trial/promises.ts";

/** A failover that was done. */
const DONE = { ok: true, master: "127.0.0.1:2" } as const;

function shot(endedMs: number, operation: string, status = 200): SentRequest {
  return { account: "a", operation, sentMs: endedMs, endedMs, response: { status } } as SentRequest;
}

/** The most that is lost of these units; the failover begins at 10,000 ms. */
function mostOf(admitted: readonly (readonly [atMs: number, operation: string])[], status = 200) {
  const loss = new FailoverLoss();
  let hasBegun = false;
  for (const [endedMs, operation] of admitted) {
    if (endedMs >= 10_000 && !hasBegun) {
      loss.begin(10_000, Promise.resolve(DONE));
      hasBegun = true;
    }
    loss.take(shot(endedMs, operation, status));
  }
  return loss.mostOf(DONE, "sentinel");
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

  it("has an outcome once it has begun, and none before", async () => {
    const loss = new FailoverLoss();
    assert.equal(await loss.outcome(), null);
    loss.begin(10_000, Promise.resolve(DONE));
    assert.equal(await loss.outcome(), DONE);
  });

  it("is nothing on a Cluster, where a planned one waits for its replica, and where there was none", () => {
    const loss = new FailoverLoss();
    loss.take(shot(11_000, "dear"));
    assert.equal(loss.mostOf(DONE, "sentinel"), 4);
    assert.equal(loss.mostOf(DONE, "cluster"), 0);
    assert.equal(loss.mostOf({ ok: false, why: "" }, "sentinel"), 0);
    assert.equal(loss.mostOf(null, undefined), 0);
  });
});

describe("units that a failover may have lost", () => {
  const none = { chargesLost: 0, historyLost: 0, metersOff: 0 };

  it("are named as its own, and those beyond them stay lost", () => {
    assert.deepEqual(excuseFailover({ chargesLost: 5, historyLost: 2, metersOff: 700 }, 4), {
      ...{ chargesLost: 1, historyLost: 0, failoverLost: 4 },
      // Each unit of the plan held at most 120 of the meter.
      metersOff: 220,
    });
    const fewer = excuseFailover({ chargesLost: 1, historyLost: 3, metersOff: 480 }, 4);
    assert.deepEqual(fewer, { ...none, failoverLost: 3 });
    assert.deepEqual(excuseFailover({ ...none, historyLost: 1 }, 0).historyLost, 1);
  });
});

describe("the judge of a load", () => {
  it("tells each of those that it stands for of every request, and of a wait that was in vain", () => {
    const told: string[] = [];
    const judge = (name: string) => ({
      take: ({ endedMs }: SentRequest) => void told.push(`${name} ${endedMs}`),
      deniedAfterWaiting: (account: string, seconds: number) => {
        told.push(`${name} ${account} ${seconds}`);
      },
    });
    const all = judgeAll(judge("promises"), [judge("meters"), judge("loss"), judge("kill")]);
    all.take(shot(7, "pets"));
    all.deniedAfterWaiting("a", 3);
    assert.deepEqual(told, ["promises 7", "meters 7", "loss 7", "kill 7", "promises a 3"]);
  });
});
