import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { LogGaps } from "../../../src/cli/logs/log-gaps.ts";

/** The changes that a log may tell, and the words in which `audit` and `plans try` name them. */
const CHANGES: readonly (readonly [Record<string, unknown> & { msg: string }, RegExp])[] = [
  [{ msg: "event", kind: "account_changed" }, /accounts were changed \(account_changed: 1\)/],
  [{ msg: "event", kind: "account_reset" }, /accounts were reset \(account_reset: 1\)/],
  [{ msg: "event", kind: "ban_added" }, /bans were added by hand \(ban_added: 1\)/],
  [{ msg: "event", kind: "ban_lifted" }, /bans were lifted by hand \(ban_lifted: 1\)/],
  [{ msg: "store_away" }, /gateways decided by themselves \(store_away: 1\)/],
  [{ msg: "counter_regression" }, /the store lost charges \(counter_regression: 1\)/],
  [{ msg: "event", kind: "counter_regression" }, /the store lost charges/],
];

describe("a log in which something changed", () => {
  for (const [line, words] of CHANGES) {
    it(`is said to have ${line.kind ?? line.msg}, told as ${line.msg}`, () => {
      const gaps = new LogGaps();
      gaps.event(line);
      assert.match(gaps.describe("day").join("\n"), words);
    });
  }

  it("is said to have nothing for other lines, nor for members of objects", () => {
    const gaps = new LogGaps();
    for (const msg of ["serving", "constructor", "toString"]) gaps.event({ msg });
    gaps.event({ msg: "event", kind: "quota" });
    assert.deepEqual(gaps.describe("day"), []);
  });
});
