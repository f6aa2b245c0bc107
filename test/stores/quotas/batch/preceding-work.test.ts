import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { newQueue } from "../../../../src/stores/quotas/batch/call-queue.ts";
import { PrecedingWork } from "../../../../src/stores/quotas/batch/preceding-work.ts";
import { eventually } from "../../../support/poll.ts";

describe("work that precedes a call", () => {
  it("has the whole time of a call again after other work of its queue took too long", async () => {
    const told: string[] = [];
    const works = [new Promise<void>(() => undefined), Promise.resolve()];
    const preceding = new PrecedingWork(
      { prepare: () => works.shift(), timeoutMs: 20 },
      { ended: () => told.push("ended"), failed: () => told.push("failed") },
    );
    const queue = newQueue(0);
    assert.equal(preceding.isOver(queue), false);
    await eventually(() => assert.deepEqual(told, ["failed"]));
    assert.equal(preceding.isOver(queue), false);
    await eventually(() => assert.deepEqual(told, ["failed", "ended"]));
    assert.equal(preceding.isOver(queue), true);
  });
});
