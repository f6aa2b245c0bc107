import assert from "node:assert/strict";
import { it } from "vitest";
import { formatDay, monthRange } from "../../../src/core/quota/days.ts";

it("a month is read by its name, every one of the twelve, and nothing else is one", () => {
  const daysOf = (text: string) => {
    const range = monthRange(text);
    return range === undefined ? undefined : [formatDay(range.from), formatDay(range.to)];
  };
  const lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  for (const [at, days] of lengths.entries()) {
    const name = `2026-${String(at + 1).padStart(2, "0")}`;
    assert.deepEqual(daysOf(name), [`${name}-01`, `${name}-${days}`]);
  }
  assert.deepEqual(daysOf("2028-02"), ["2028-02-01", "2028-02-29"]);
  for (const text of [
    "2026-00",
    "2026-13",
    "2026-19",
    "2026-1",
    "2026-010",
    "26-01",
    "2026-01-01",
  ]) {
    assert.equal(daysOf(text), undefined, text);
  }
});
