import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { describe, it } from "vitest";
import { askTimed, percentile } from "../../faults/redis-house.ts";
import { openHouse } from "../../support/gateway/house.ts";

const PER_SECOND = 500;
const ROUNDS = 8;
const ROUND_MS = 300;

describe("a flood of 401s", () => {
  it("changes the latency of valid keys behind the same address by at most a fifth", async (t) => {
    const plans = { free: { day: 1_000_000 } };
    await using house = await openHouse({ config: { plans } });
    const [key, neighbour] = [await house.issue(), await house.issue()];
    const workerData = { port: house.port, perSecond: PER_SECOND };
    const flood = new Worker(new URL("./flood.ts", import.meta.url), { workerData });
    const agent = new Agent({ keepAlive: true, maxSockets: 2 });
    const took: Record<"quiet" | "flood", number[]> = { quiet: [], flood: [] };

    const measure = async (kind: "quiet" | "flood") => {
      for (const endMs = performance.now() + ROUND_MS; performance.now() < endMs; ) {
        for (const { key: text } of [key, neighbour]) {
          const { status, tookMs } = await askTimed(house, text, agent);
          assert.equal(status, 200);
          took[kind].push(tookMs);
          await sleep(2);
        }
      }
    };
    await measure("quiet");
    took.quiet = [];
    let refused = 0;
    for (let round = 0; round < ROUNDS; round++) {
      // In turns, so that what else the machine does falls on both alike.
      await measure("quiet");
      flood.postMessage("start");
      await measure("flood");
      flood.postMessage("stop");
      [refused] = (await once(flood, "message")) as [number];
      await sleep(20);
    }
    flood.postMessage("end");
    agent.destroy();

    const [quiet, flooded] = [percentile(took.quiet, 0.5), percentile(took.flood, 0.5)];
    const rate = refused / ((ROUNDS * ROUND_MS) / 1_000);
    t.annotate(
      `median ${flooded.toFixed(2)} ms during ${Math.round(rate)} 401s a second, ${quiet.toFixed(2)} without`,
    );
    assert.ok(rate > PER_SECOND / 2, `${rate} refused a second`);
    // A tenth of a millisecond is what the clock of a busy machine is worth.
    assert.ok(flooded <= quiet * 1.2 + 0.1, `${flooded} ms, ${quiet} without`);
  });
});
