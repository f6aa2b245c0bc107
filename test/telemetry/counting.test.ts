import assert from "node:assert/strict";
import { test } from "vitest";
import { newHistogramCell, observeDuration } from "../../src/telemetry/metrics/metric-vec.ts";
import {
  addCounts,
  createMetricsRecorder,
  takeCounts,
} from "../../src/telemetry/metrics/metrics-recorder.ts";

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
