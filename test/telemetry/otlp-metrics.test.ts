import assert from "node:assert/strict";
import { it, onTestFinished, vi } from "vitest";
import { metricReaders } from "../../src/telemetry/metrics/metric-readers.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics/metrics-recorder.ts";
import { openOtlpExporter } from "../../src/telemetry/tracing/otlp.ts";
import { UNWATCHED } from "../admin/admin-house.ts";
import { openCollector } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";

it("a collector is told each counter and gauge that /metrics has a value of", async () => {
  await using collector = await openCollector();
  const workers = () => ({ serving: 2, restarts: 0 });
  const readings = metricReaders({ ...UNWATCHED, workers }, createMetricsRecorder());
  const settings = { otlp: collector.origin, sample: 1, serviceName: "" };
  const source = { version: "1", instance: "one", readings };
  const exporter = openOtlpExporter(settings, source, () => {});
  await exporter.close(60_000);
  const wanted = Object.entries(readings).filter(([, read]) => [...(read?.() ?? [])].length > 0);
  assert.ok(wanted.length > 25, `${wanted.length} metrics`);
  assert.deepEqual(
    [...new Set(collector.points.map(({ metric }) => metric))].toSorted(),
    wanted.map(([name]) => `tollgate.${name.replace(/_total$|_seconds$/, "")}`).toSorted(),
  );
});

it("a collector is told metrics every ten seconds while the gateway serves", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  await using collector = await openCollector();
  const readings = metricReaders(UNWATCHED, createMetricsRecorder());
  const settings = { otlp: collector.origin, sample: 1, serviceName: "" };
  const source = { version: "1", instance: "one", readings };
  const exporter = openOtlpExporter(settings, source, () => {});
  for (let times = 1; times <= 2; times++) {
    vi.advanceTimersByTime(10_000);
    await eventually(() => assert.equal(collector.bodies.length, times));
  }
  await exporter.close(60_000);
});
