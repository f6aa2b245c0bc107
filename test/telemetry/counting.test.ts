import assert from "node:assert/strict";
import { test } from "vitest";
import { newHistogramCell, observeDuration } from "../../src/telemetry/metrics/metric-vec.ts";
import {
  addCounts,
  createMetricsRecorder,
  takeCounts,
} from "../../src/telemetry/metrics/metrics-recorder.ts";
import { countRequest, deprecatedRoutes } from "../../src/telemetry/metrics/request-metrics.ts";

test("counts and durations that were taken out are not there a second time, sums included", () => {
  const counting = createMetricsRecorder();
  const all = createMetricsRecorder();
  const durations = counting.tallies.durations.cell("production", "backend");
  for (const seconds of [0.5, 2]) observeDuration(durations, seconds);
  counting.banned("production");
  addCounts(all, takeCounts(counting));
  assert.deepEqual(takeCounts(counting), {});
  observeDuration(durations, 4);
  addCounts(all, takeCounts(counting));

  const expected = newHistogramCell();
  for (const seconds of [0.5, 2, 4]) observeDuration(expected, seconds);
  assert.deepEqual(all.tallies.durations.cell("production", "backend"), expected);
  assert.equal(all.tallies.bans.cell("production").value, 1);
});

test("calls are counted as deprecated of deprecated operations alone, HEAD with GET", () => {
  const operation = (method: string, deprecated: boolean) => {
    return { template: "/v1/pets", method, lifecycle: { deprecated } };
  };
  const operations = [operation("GET", true), operation("POST", false), operation("PUT", true)];
  const environments = [{ name: "production", routes: { operations } }];
  const routes = deprecatedRoutes({ environments } as never);
  const methods = routes.get("production")?.get("/v1/pets") ?? assert.fail();
  assert.deepEqual([...methods].sort(), ["GET", "HEAD", "PUT"]);
});

test("a call to the store is observed in seconds, as its metric is named", () => {
  const counting = createMetricsRecorder();
  counting.storeCall(250);
  assert.equal(counting.tallies.storeCalls.cell().sum, 0.25);
});

test("a meter is counted as over its maximum where more was used than was charged, and not where as much", () => {
  const counting = createMetricsRecorder();
  const line = { method: "POST", status: 200, source: "backend", decision: "admitted" };
  const told = { ...line, durationMs: 1, charged: 1, forwards: 1 };
  const over = [
    { hold: 10, used: 10 },
    { hold: 10, used: 12, charged: 12 },
    { hold: 10, used: 12, charged: 11 },
    { hold: 10 },
  ].map((tokens) => {
    const times = { storeMs: 0, upstreamMs: 1 };
    countRequest(counting.tallies, new Map(), { ...told, meters: { tokens } } as never, times);
    return counting.tallies.metersOverMax.cell().value;
  });
  assert.deepEqual(over, [0, 0, 1, 1]);
  assert.equal(counting.tallies.meterUnits.cell("tokens").value, 10 + 12 + 11 + 10);
});
