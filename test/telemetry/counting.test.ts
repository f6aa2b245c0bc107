import assert from "node:assert/strict";
import { test } from "vitest";
import { addCounted, createCounting, takeCounted } from "../../src/telemetry/counting.ts";
import { newDurations, observe } from "../../src/telemetry/tally.ts";

test("counts and durations that were taken out are not there a second time, sums included", () => {
  const counting = createCounting();
  const all = createCounting();
  const durations = counting.tallies.durations.cell("production", "backend");
  for (const seconds of [0.5, 2]) observe(durations, seconds);
  counting.banned("production");
  addCounted(all, takeCounted(counting));
  assert.deepEqual(takeCounted(counting), {});
  observe(durations, 4);
  addCounted(all, takeCounted(counting));

  const expected = newDurations();
  for (const seconds of [0.5, 2, 4]) observe(expected, seconds);
  assert.deepEqual(all.tallies.durations.cell("production", "backend"), expected);
  assert.equal(all.tallies.bans.cell("production").value, 1);
});
