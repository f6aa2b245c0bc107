import assert from "node:assert/strict";
import { queryObjects } from "node:v8";
import { describe, it, onTestFinished, vi } from "vitest";
import { ActivityRecorder } from "../../src/server/events/activity-recorder.ts";
import { RecordChangeWatcher } from "../../src/server/events/record-change-watcher.ts";
import { RunningGateway } from "../../src/server/process/running-gateway.ts";
import { createLog } from "../../src/telemetry/log/log.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { expectDuration } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { recordsFrom } from "../support/records.ts";
import { startRedis } from "../support/redis/redis.ts";

type Kind = typeof RunningGateway | typeof RecordChangeWatcher;

/** The number in the memory of this process, which no other file uses: each call takes a while. */
const held = (kind: Kind): number => queryObjects(kind, { format: "count" });

async function areForgotten(): Promise<void> {
  for (const kind of [RunningGateway, RecordChangeWatcher]) {
    await eventually(() => assert.equal(held(kind), 0, kind.name), { everyMs: 100 });
  }
}

const CONFIG = {
  history: "2d",
  events: { url: "http://127.0.0.1:9/", secret: `whsec_${"A".repeat(32)}`, kinds: ["all"] },
};

describe("a gateway that has stopped", () => {
  it("leaves nothing that goes on in a program that embeds it", async () => {
    await (async () => {
      await using house = await startTestGateway({ config: CONFIG });
      const { key } = await house.issue();
      await house.ask(key);
      assert.equal(held(RunningGateway), 1);
    })();
    await areForgotten();
  });

  it("has waited a second for a store that does not take its last notes", async (t) => {
    const { close } = ActivityRecorder.prototype;
    const spied = vi.spyOn(ActivityRecorder.prototype, "close").mockImplementation(async function (
      this: ActivityRecorder,
    ) {
      await close.call(this);
      await new Promise(() => {});
    });
    onTestFinished(() => spied.mockRestore());
    await using house = await startTestGateway();
    await expectDuration(t, { wantedMs: 1_000, lateMs: 2_000 }, () => house.gateway.stop());
  });

  it("tells no change that waits for a store that is away", async () => {
    const redis = await startRedis();
    onTestFinished(async () => {
      redis.cont();
      await redis.close();
    });
    await (async () => {
      await using house = await startTestGateway({ config: { store: redis.url } });
      redis.stop();
      await house.issue();
      await eventually(() => assert.ok(house.said.some(({ kind }) => kind === "store_away")));
    })();
    await areForgotten();
  });

  it("is forgotten before the pause is over after which a change would be tried again", async () => {
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
    assert.equal(held(RecordChangeWatcher), 0);
  });
});
