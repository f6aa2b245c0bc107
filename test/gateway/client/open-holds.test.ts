import assert from "node:assert/strict";
import { it } from "vitest";
import type { WindowUsage } from "../../../src/core/quota/decide.ts";
import type { Holds } from "../../../src/core/quota/meters.ts";
import { OpenHolds } from "../../../src/gateway/client/open-holds.ts";

const AT_MS = Date.UTC(2026, 10, 1);
const CALLER = { environment: "production", account: "acme" };
const OTHER = { ...CALLER, account: "other" };

function usage(window: WindowUsage["window"]): WindowUsage {
  const part = { id: "#tokens", name: "tokens" };
  return { window, part, hold: 10, limit: 100, used: 50, resetMs: AT_MS + 60_000 };
}

const WINDOWS = [usage("minute"), usage("month")];
const holdsAt = (decidedMs: number): Holds => {
  return { id: "r", plan: "free", meters: [], windows: WINDOWS, decidedMs };
};

it("A reset takes out what was held in its windows up to its instant, as settlements see it, and nothing else", () => {
  const open = new OpenHolds();
  const unitsOf = (of = CALLER) => WINDOWS.map((one) => open.unitsIn(of, one));
  const [before, same, after, others] = [-1, 0, 1, -1].map((ms) => holdsAt(AT_MS + ms)) as [
    Holds,
    Holds,
    Holds,
    Holds,
  ];
  for (const holds of [before, same, after]) open.add(CALLER, holds);
  open.add(OTHER, others);
  const reset = { accountRef: CALLER, atMs: AT_MS, counters: ["#tokens.month"] };
  open.reset(reset);
  open.reset(reset);
  assert.deepEqual(
    [unitsOf(), unitsOf(OTHER)],
    [
      [30, 10],
      [10, 10],
    ],
  );
  open.remove(CALLER, before);
  assert.deepEqual(unitsOf(), [20, 10], "what was erased is not taken out again");
  open.remove(CALLER, after);
  open.remove(CALLER, same);
  open.remove(OTHER, others);
  assert.deepEqual(
    [unitsOf(), unitsOf(OTHER)],
    [
      [0, 0],
      [0, 0],
    ],
  );
});
