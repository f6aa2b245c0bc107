import assert from "node:assert/strict";
import { it } from "vitest";
import type { WindowUsage } from "../../src/core/quota/decide.ts";
import { logQuotaEvents } from "../../src/server/events/quota-events.ts";
import { createLog } from "../../src/telemetry/log/log.ts";

type Told = {
  /** Null for an address, which has no key. */
  readonly key?: { readonly id: string } | null;
  readonly admitted?: boolean;
  readonly by?: "store" | "share";
};

/** The percentages that are told of a request of one unit, after which a day of 10 counts so much. */
function toldOf(
  used: number,
  more: Partial<WindowUsage> = {},
  { key = { id: "k" }, ...how }: Told = {},
): unknown[] {
  const told: unknown[] = [];
  const log = createLog({ write: (line) => told.push(JSON.parse(line).percent) }, "info");
  const standing = { window: "day", limit: 10, used, resetMs: 86_400_000, ...more } as const;
  const rest = {
    nowMs: 0,
    granted: 1,
    ban: undefined,
    strikes: 0,
    strikeDueMs: 0,
    repaired: false,
  };
  const verdict = { ...rest, windows: [standing] };
  const owner = { environment: "production", account: "a", plan: "free", key: key ?? undefined };
  const answer = { verdict, unspent: 0, admitted: true, by: "store", ...how } as const;
  logQuotaEvents({ log, windows: ["day"], included: [] }, owner, answer, 1);
  return told;
}

it("a limit is told once, although units were taken back and it is reached again", () => {
  assert.deepEqual(toldOf(8), [80]);
  assert.deepEqual(toldOf(8, { loweredFrom: 9 }), []);
  assert.deepEqual(toldOf(8, { loweredFrom: 8 }), []);
  assert.deepEqual(toldOf(8, { loweredFrom: 7 }), [80]);
  assert.deepEqual(toldOf(10, { loweredFrom: 9 }), [100]);
  assert.deepEqual(toldOf(10, { loweredFrom: 10 }), []);
});

it("a limit is told of an account whose request the store admitted, and of no other", () => {
  assert.deepEqual(toldOf(8), [80]);
  for (const how of [{ key: null }, { admitted: false }, { by: "share" }] as const) {
    assert.deepEqual(toldOf(8, {}, how), [], JSON.stringify(how));
  }
});
