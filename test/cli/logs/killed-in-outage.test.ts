import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { drift, explained, judged, MATCHED, NOON } from "./window-balances.ts";

const MINUTE_MS = 60_000;
const AWAY_MS = NOON - 120 * MINUTE_MS;
/** The last line of the gateway that was killed. */
const LAST_MS = AWAY_MS + MINUTE_MS;
const KILLED = "a gateway ended while the store was away";
const EVENTS = [
  { msg: "serving", gateway: "a", time: AWAY_MS - 60 * MINUTE_MS },
  { msg: "event", kind: "store_away", gateway: "a", time: AWAY_MS },
  { msg: "keys", gateway: "a", time: LAST_MS },
  { msg: "serving", gateway: "b", time: LAST_MS + MINUTE_MS },
];

/** The verdict if the store has so many of 60 units, 5 of them from the outage and 5 from its end. */
function verdictOf(used: number, events: readonly object[] = []) {
  const lines = [
    ["daily", 5, AWAY_MS + 1],
    ["daily", 5, LAST_MS + 10_000],
    ["daily", 50, LAST_MS + 10_001],
  ] as const;
  const windows = [{ used }];
  return judged({ lines, events: [...EVENTS, ...(events as typeof EVENTS)], windows, alive: 1 });
}

describe("a window in which a gateway was killed during an outage", () => {
  it("lacks nothing that was charged after the end of that gateway", () => {
    assert.deepEqual(verdictOf(60), MATCHED);
    assert.deepEqual(verdictOf(20), drift(-40));
    assert.deepEqual(verdictOf(49), drift(-11));
    assert.deepEqual(verdictOf(50), explained(`10 units fewer: ${KILLED}`));
  });

  it("names the units that lines tell as lost before those that no line names", () => {
    const lost = { msg: "charges_lost", units: 3, accounts: "production:acme 3", gateway: "c" };
    const of = (used: number) => verdictOf(used, [{ ...lost, time: AWAY_MS }]);
    const told = "units fewer: gateways told lost charges";
    assert.deepEqual(of(57), explained(`3 ${told}`));
    assert.deepEqual(of(56), explained(`3 ${told}, 1 unit fewer: ${KILLED}`));
    assert.deepEqual(of(47), explained(`3 ${told}, 10 units fewer: ${KILLED}`));
    assert.deepEqual(of(46), drift(-14));
  });
});
