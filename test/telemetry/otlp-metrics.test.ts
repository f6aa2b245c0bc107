import assert from "node:assert/strict";
import { it, onTestFinished, vi } from "vitest";
import { createLog } from "../../src/telemetry/log/log.ts";
import {
  metricReaders,
  type ScalarMetricName,
} from "../../src/telemetry/metrics/metric-readers.ts";
import { METRICS } from "../../src/telemetry/metrics/metrics.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics/metrics-recorder.ts";
import { openOtlpExporter } from "../../src/telemetry/tracing/otlp.ts";
import { Telemetry } from "../../src/telemetry/tracing/telemetry.ts";
import { UNWATCHED } from "../admin/admin-house.ts";
import { openCollector } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";

const ownName = (name: string) => `tollgate.${name.replace(/_total$|_seconds$/, "")}`;

it("a collector is told each counter and gauge that /metrics has a value of", async () => {
  await using collector = await openCollector();
  const workers = () => ({ serving: 2, restarts: 0 });
  const readers = metricReaders({ ...UNWATCHED, workers }, createMetricsRecorder());
  const settings = { otlp: collector.origin, sample: 1, serviceName: "" };
  const source = { version: "1", instance: "one", readers };
  const exporter = openOtlpExporter(settings, source, () => {});
  await exporter.close(60_000);
  const wanted = Object.entries(readers).filter(([, read]) => [...(read?.() ?? [])].length > 0);
  assert.ok(wanted.length > 25, `${wanted.length} metrics`);
  assert.deepEqual(
    [...new Set(collector.points.map(({ metric }) => metric))].toSorted(),
    wanted.map(([name]) => ownName(name)).toSorted(),
  );
  for (const { metric, description, scope } of collector.points) {
    const [name] = wanted.find(([one]) => ownName(one) === metric) ?? assert.fail(metric);
    assert.equal(description, METRICS[name as ScalarMetricName].help);
    assert.equal(scope, "tollgate 1");
  }
  const counters = collector.points.flatMap(({ metric, isCounter }) => (isCounter ? [metric] : []));
  const isCounter = (name: string) => METRICS[name as ScalarMetricName].type === "counter";
  assert.deepEqual(
    [...new Set(counters)].toSorted(),
    wanted.flatMap(([name]) => (isCounter(name) ? [ownName(name)] : [])).toSorted(),
  );
});

it("a collector is told metrics every ten seconds while the gateway serves", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  await using collector = await openCollector();
  const readers = metricReaders(UNWATCHED, createMetricsRecorder());
  const settings = { otlp: collector.origin, sample: 1, serviceName: "" };
  const gathered = vi.fn(async () => {});
  const source = { version: "1", instance: "one", readers, gather: gathered };
  const exporter = openOtlpExporter(settings, source, () => {});
  vi.advanceTimersByTime(9_999);
  assert.equal(gathered.mock.calls.length, 0);
  vi.advanceTimersByTime(1);
  await eventually(() => assert.equal(collector.bodies.length, 1));
  // None is begun while the one before still waits for its answer to be read.
  await eventually(() => {
    vi.advanceTimersByTime(10_000);
    assert.equal(collector.bodies.length, 2);
  });
  await exporter.close(60_000);
});

it("a collector that takes no metrics is told once, and once that it takes them again, though no span is sent", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  await using collector = await openCollector();
  const lines: unknown[] = [];
  const write = (line: string) => {
    const { level, msg, signal, why } = JSON.parse(line);
    lines.push([level, msg, signal, why]);
  };
  const telemetry = new Telemetry(createLog({ write }, "info"));
  const readers = metricReaders(UNWATCHED, createMetricsRecorder());
  const settings = { otlp: collector.origin, sample: 1, serviceName: "" };
  await telemetry.configure(settings, { version: "1", instance: "one", readers });
  const exported = (count: number) => {
    return eventually(() => {
      vi.advanceTimersByTime(10_000);
      assert.ok(collector.requests() >= count, `${collector.requests()} requests`);
    });
  };
  collector.mood = "refuse";
  await exported(3);
  const unsent = ["warn", "telemetry_unsent", "metrics", "Bad Request"];
  assert.deepEqual(lines, [unsent]);
  collector.mood = "well";
  await exported(6);
  assert.deepEqual(lines, [unsent, ["info", "telemetry_sent", "metrics", undefined]]);
  await telemetry.close(1_000);
});
