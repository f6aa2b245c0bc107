import assert from "node:assert/strict";
import { describe, it, type TestContext } from "vitest";
import { createLog } from "../../src/telemetry/log/log.ts";
import { Telemetry } from "../../src/telemetry/tracing/telemetry.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { expectDuration } from "../support/in-time.ts";
import { openCollector } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";

/** The end of a gateway whose collector has a batch, and never answers, takes as long as it should. */
async function expectEnd(
  t: TestContext,
  duration: Parameters<typeof expectDuration>[1],
  { drain, atOnce = false }: { readonly drain: string; readonly atOnce?: boolean },
): Promise<void> {
  await using collector = await openCollector();
  collector.mood = "hang";
  const telemetry = { otlp: collector.origin, sample: 1 };
  await using house = await startTestGateway({ config: { telemetry, limits: { drain } } });
  await house.ask("no key");
  await eventually(() => assert.ok(collector.underWay() > 0));
  await expectDuration(t, duration, () => house.gateway.stop({ atOnce }));
}

describe.concurrent("a collector that never answers", () => {
  it("holds up the end for three seconds, where the drain has time left", async (t) => {
    await expectEnd(t, { wantedMs: 2_970, lateMs: 3_030 }, { drain: "25s" });
  });

  it("holds up the end for what is left of the drain", async (t) => {
    await expectEnd(t, { wantedMs: 1_320, lateMs: 1_580 }, { drain: "1500ms" });
  });

  it("holds up the end for half a second, where nothing of the drain is left", async (t) => {
    await expectEnd(t, { wantedMs: 470, lateMs: 930 }, { drain: "1ms" });
  });

  it("has the spans that a reload leaves it for three seconds, and they are dropped", async (t) => {
    await using collector = await openCollector();
    collector.mood = "hang";
    const telemetry = new Telemetry(createLog({ write: () => {} }, "info"));
    const source = { version: "1", instance: "one" };
    await telemetry.configure({ otlp: collector.origin, sample: 1, serviceName: "" }, source);
    const line = { method: "GET", path: "/", status: 200, durationMs: 1 } as never;
    telemetry.tracing?.begin([]).end(line, { scheme: "http", host: "a", version: "1.1" });
    await expectDuration(t, { wantedMs: 2_970, lateMs: 3_030 }, async () => {
      await telemetry.configure(undefined, source);
      await eventually(() => assert.equal(telemetry.dropped, 1));
    });
  });

  it("does not hold up an end at once", async (t) => {
    await expectEnd(t, { wantedMs: 0, lateMs: 1_400 }, { drain: "25s", atOnce: true });
  });
});
