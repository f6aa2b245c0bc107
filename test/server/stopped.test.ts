import assert from "node:assert/strict";
import { queryObjects } from "node:v8";
import { describe, it, onTestFinished } from "vitest";
import { RecordChangeWatcher } from "../../src/server/events/record-change-watcher.ts";
import { RunningGateway } from "../../src/server/process/running-gateway.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";

/** How many there are in the memory of this process, after a full collection. */
const held = () => {
  return [RunningGateway, RecordChangeWatcher].map((one) => queryObjects(one, { format: "count" }));
};

/** Gateways of other tests may go meanwhile. */
async function isForgotten(before: readonly number[]): Promise<void> {
  await eventually(() => {
    for (const [i, count] of held().entries()) assert.ok(count <= (before[i] as number), `${i}`);
  });
}

const CONFIG = {
  history: "2d",
  events: { url: "http://127.0.0.1:9/", secret: `whsec_${"A".repeat(32)}`, kinds: ["all"] },
};

describe("a gateway that has stopped", () => {
  it("leaves nothing that goes on in a program that embeds it", async () => {
    const before = held();
    await (async () => {
      await using house = await startTestGateway({ config: CONFIG });
      const { key } = await house.issue();
      await house.ask(key);
      assert.notDeepEqual(held(), before);
    })();
    await isForgotten(before);
  });

  it("tells no change that waits for a store that is away", async () => {
    const redis = await startRedis();
    onTestFinished(async () => {
      redis.cont();
      await redis.close();
    });
    const before = held();
    await (async () => {
      await using house = await startTestGateway({ config: { store: redis.url } });
      redis.stop();
      await house.issue();
      await eventually(() => assert.ok(house.said.some(({ kind }) => kind === "store_away")));
    })();
    await isForgotten(before);
  });
});
