import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { openCollector } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";

/** How long the end of a gateway takes whose collector has a batch, and never answers. */
async function endMs(drain: string, atOnce = false): Promise<number> {
  await using collector = await openCollector();
  collector.mood = "hang";
  const telemetry = { otlp: collector.origin, sample: 1 };
  await using house = await startTestGateway({ config: { telemetry, limits: { drain } } });
  await house.ask("no key");
  await eventually(() => assert.ok(collector.underWay() > 0));
  const startMs = performance.now();
  await house.started.stop({ atOnce });
  return performance.now() - startMs;
}

describe.concurrent("a collector that never answers", () => {
  it("holds up the end for three seconds, where the drain has time left", async () => {
    const tookMs = await endMs("25s");
    assert.ok(tookMs >= 2_950 && tookMs < 6_000, `${tookMs} ms`);
  });

  it("holds up the end for what is left of the drain", async () => {
    const tookMs = await endMs("1500ms");
    assert.ok(tookMs >= 1_300 && tookMs < 2_900, `${tookMs} ms`);
  });

  it("holds up the end for half a second, where nothing of the drain is left", async () => {
    const tookMs = await endMs("1ms");
    assert.ok(tookMs >= 450 && tookMs < 1_400, `${tookMs} ms`);
  });

  it("does not hold up an end at once", async () => {
    const tookMs = await endMs("25s", true);
    assert.ok(tookMs < 1_400, `${tookMs} ms`);
  });
});
