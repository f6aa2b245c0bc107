import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DAY_MS } from "../../../src/core/quota/days.ts";
import { ACME, AT, type Case, drift, explained, judged, NOON } from "./window-balances.ts";

const HOUR_MS = 3_600_000;
const REPAIRED = { ...ACME, msg: "counter_repaired", moved: [{ window: "hour", used: 40 }] };
const SET_BACK = explained("40 units more: the clock of the store was set back");

/** The verdict if the store has so many units, of 10 now and of 40 by a clock that ran ahead. */
function verdictOf(
  used: number,
  event: Readonly<Record<string, unknown>> = REPAIRED,
  more: Partial<Case> = {},
) {
  const lines = [
    ["daily", 10, NOON],
    ["daily", 40, AT + 3 * HOUR_MS],
  ] as const;
  return judged({ lines, events: [event], windows: [{ used }], ...more });
}

describe("a window after a clock that ran ahead was set back", () => {
  it("has the units of lines that are ahead of the store, as counter_repaired tells, and no more", () => {
    assert.deepEqual(verdictOf(50), SET_BACK);
    assert.deepEqual(verdictOf(51), drift(41));
    assert.deepEqual(verdictOf(9), drift(-1));
  });

  it("has them also if no request has moved the count yet, as the answer of the store tells", () => {
    const events: Case["events"] = [];
    assert.deepEqual(verdictOf(50, REPAIRED, { events, moved: true }), SET_BACK);
    assert.deepEqual(verdictOf(51, REPAIRED, { events, moved: true }), drift(41));
  });

  it("has none of them if no such line names the account in the window, or it moved nothing", () => {
    const others = [
      { ...REPAIRED, account: "other" },
      { ...REPAIRED, time: NOON - DAY_MS },
      { ...REPAIRED, moved: undefined },
    ];
    for (const event of others) assert.deepEqual(verdictOf(50, event), drift(40));
  });
});
