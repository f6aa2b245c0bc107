import assert from "node:assert/strict";
import { queryObjects } from "node:v8";
import { describe, it, onTestFinished } from "vitest";
import { RecordChangeWatcher } from "../../src/server/events/record-change-watcher.ts";
import { RunningGateway } from "../../src/server/process/running-gateway.ts";
import { createLog } from "../../src/telemetry/log/log.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { recordsFrom } from "../support/records.ts";
import { startRedis } from "../support/redis/redis.ts";

type Kind = typeof RunningGateway | typeof RecordChangeWatcher;

/** The number in the memory of this process, after full collections: each call takes a while. */
const held = (kind: Kind): number => queryObjects(kind, { format: "count" });

/** Gateways of other tests may go meanwhile. */
async function isForgotten(before: readonly (readonly [Kind, number])[]): Promise<void> {
  for (const [kind, count] of before) {
    await eventually(() => assert.ok(held(kind) <= count, kind.name));
  }
}

const present = () => {
  return [RunningGateway, RecordChangeWatcher].map((kind: Kind) => [kind, held(kind)] as const);
};

const CONFIG = {
  history: "2d",
  events: { url: "http://127.0.0.1:9/", secret: `whsec_${"A".repeat(32)}`, kinds: ["all"] },
};

describe("a gateway that has stopped", () => {
  it("leaves nothing that goes on in a program that embeds it", async () => {
    const before = present();
    await (async () => {
      await using house = await startTestGateway({ config: CONFIG });
      const { key } = await house.issue();
      await house.ask(key);
      assert.ok(held(RunningGateway) > (before[0]?.[1] ?? 0));
    })();
    await isForgotten(before);
  });

  it("tells no change that waits for a store that is away", async () => {
    const redis = await startRedis();
    onTestFinished(async () => {
      redis.cont();
      await redis.close();
    });
    const before = present();
    await (async () => {
      await using house = await startTestGateway({ config: { store: redis.url } });
      redis.stop();
      await house.issue();
      await eventually(() => assert.ok(house.said.some(({ kind }) => kind === "store_away")));
    })();
    await isForgotten(before);
  });

  it("is forgotten before the pause is over after which a change would be tried again", async () => {
    const before = held(RecordChangeWatcher);
    await (async () => {
      let records = recordsFrom([{ id: "a", plan: "free" }]);
      let change = () => {};
      const tried = Promise.withResolvers<void>();
      const watcher = new RecordChangeWatcher({
        keys: {
          ready: true,
          records: () => records,
          onChange: (heard) => {
            change = heard;
          },
        },
        quotas: {
          markFirst: async () => {
            tried.resolve();
            throw new Error("away");
          },
        },
        log: createLog({ write: () => {} }, "info"),
      });
      records = recordsFrom([{ id: "a", plan: "pro" }]);
      change();
      await tried.promise;
      await new Promise((resolve) => setImmediate(resolve));
      watcher.stop();
    })();
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(held(RecordChangeWatcher) <= before);
  });
});
