import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { describe, it } from "vitest";
import { askTimed, percentile } from "../../faults/redis-house.ts";
import { startTestGateway } from "../../support/gateway/house.ts";

const PER_SECOND = 500;
const ROUNDS = 8;
const ROUND_MS = 300;
/** A machine that stalls spoils a trial; a gateway that slows valid keys down does so in each. */
const TRIALS_MAX = 5;

describe("a flood of 401s", () => {
  it("slows valid keys behind the same address no more than as many requests that need no key", async (t) => {
    const plans = { free: { day: 1_000_000 } };
    await using house = await startTestGateway({ config: { plans } });
    const [key, neighbour] = [await house.issue(), await house.issue()];
    const workerData = { port: house.port, perSecond: PER_SECOND };
    const flood = new Worker(new URL("./flood.ts", import.meta.url), { workerData });
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    /** Milliseconds of each answer, for a moment. */
    const measure = async () => {
      const took: number[] = [];
      for (const endMs = performance.now() + ROUND_MS; performance.now() < endMs; ) {
        for (const { key: text } of [key, neighbour]) {
          const { status, tookMs } = await askTimed(house, text, agent);
          assert.equal(status, 200);
          took.push(tookMs);
          await sleep(2);
        }
      }
      return took;
    };
    let answeredBefore = 0;
    const runTrial = async () => {
      const took: Record<"open" | "wrong", number[]> = { open: [], wrong: [] };
      let answered = 0;
      for (let round = 0; round < ROUNDS; round++) {
        // In turns, so that what else the machine does falls on both alike.
        for (const kind of ["open", "wrong"] as const) {
          flood.postMessage(kind);
          took[kind].push(...(await measure()));
          flood.postMessage("stop");
          [answered] = (await once(flood, "message")) as [number];
          await sleep(20);
        }
      }
      const rate = (answered - answeredBefore) / ((2 * ROUNDS * ROUND_MS) / 1_000);
      answeredBefore = answered;
      const [open, wrong] = [percentile(took.open, 0.5), percentile(took.wrong, 0.5)];
      // A tenth of a millisecond is what the clock of a busy machine is worth.
      const held = rate > PER_SECOND / 4 && wrong <= open * 1.2 + 0.1;
      const asked = `${Math.round(rate)} a second`;
      return {
        held,
        told: `median ${wrong.toFixed(2)} ms, ${open.toFixed(2)} beside others, ${asked}`,
      };
    };
    await measure();
    const told: string[] = [];
    let held = false;
    while (!held && told.length < TRIALS_MAX) {
      const trial = await runTrial();
      told.push(trial.told);
      held = trial.held;
    }
    flood.postMessage("end");
    agent.destroy();
    t.annotate(told.join("; "));
    assert.ok(held, told.join("; "));
  });
});
