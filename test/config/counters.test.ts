import assert from "node:assert/strict";
import { it } from "vitest";
import { counterLabel } from "../../src/config/queries/counters.ts";

it("counters of keys and meters are told by the words of people, and unknown ones as they are", () => {
  const labelOf = (counter: string) => counterLabel({ environments: [] }, "production", counter);
  for (const [counter, label] of [
    ["@17.minute", "key.minute"],
    ["#tokens.day", "tokens.day"],
    ["minute", "minute"],
    ["5lira.minute", "5lira.minute"],
  ] as const) {
    assert.equal(labelOf(counter), label);
  }
});
