import assert from "node:assert/strict";
import { it } from "vitest";
import { waitMs } from "./midnight.ts";

it("a file of tests begins at once, but for the last three minutes of a day of UTC", () => {
  const midnight = Date.UTC(2026, 6, 15);
  const waits = [-180_001, -180_000, -179_999, -1, 0, 1].map((ms) => waitMs(midnight + ms));
  assert.deepEqual(waits, [0, 0, 179_999, 1, 0, 0]);
});
