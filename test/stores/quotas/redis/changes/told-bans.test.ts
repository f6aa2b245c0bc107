import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Ban } from "../../../../../src/core/quota/bans.ts";
import { ToldBans } from "../../../../../src/stores/quotas/redis/changes/told-bans.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const BAN: Ban = { untilMs: NOON + 600_000, lengthMs: 600_000, window: "day", offences: 0 };
/** Far more accounts than are remembered. */
const MANY = 30_000;

/** Tells a change of an account at each of the next milliseconds. */
function tell(toldBans: ToldBans, ban: Ban | undefined, from = NOON): void {
  for (let i = 0; i < MANY; i++) toldBans.hear({ id: `production:${i}`, atMs: from + i, ban });
}

function isKnown(toldBans: ToldBans, id: string, atMs: number): boolean {
  return toldBans.recent(id, atMs) !== undefined;
}

describe("a ban that was told", () => {
  it("stays known however many other accounts change", () => {
    const toldBans = new ToldBans();
    toldBans.hear({ id: "production:a", atMs: NOON, ban: BAN });
    tell(toldBans, undefined);
    assert.ok(isKnown(toldBans, "production:a", NOON));
    toldBans.hear({ id: "production:a", atMs: NOON + 1, ban: undefined });
    assert.ok(!isKnown(toldBans, "production:a", NOON));
  });

  it("is forgotten for later ones, the first one first, and again told is not the first", () => {
    const toldBans = new ToldBans();
    tell(toldBans, BAN);
    const known = () => {
      return Array.from({ length: MANY }, (_, i) => i).filter((i) => {
        return isKnown(toldBans, `production:${i}`, NOON + i);
      });
    };
    const before = known();
    const [first = 0] = before;
    assert.deepEqual([before.length, before.at(-1)], [MANY - first, MANY - 1]);
    assert.ok(first > 0, "nothing was forgotten");
    toldBans.hear({ id: `production:${first}`, atMs: NOON + MANY, ban: BAN });
    toldBans.hear({ id: "production:other", atMs: NOON + MANY, ban: BAN });
    assert.deepEqual(known().length, before.length - 1);
    assert.ok(isKnown(toldBans, `production:${first}`, NOON + MANY));
  });

  it("is not believed after its lift, though the lift is forgotten, and a later one is", () => {
    const toldBans = new ToldBans();
    toldBans.hear({ id: "production:a", atMs: NOON - 1, ban: undefined });
    // Messages of several gateways may come in another order.
    toldBans.hear({ id: "production:b", atMs: NOON + MANY - 1, ban: undefined });
    tell(toldBans, undefined);
    for (const [id, atMs] of [
      ["production:a", NOON - 2],
      ["production:b", NOON + MANY - 2],
    ] as const) {
      toldBans.hear({ id, atMs, ban: BAN });
      assert.ok(!isKnown(toldBans, id, atMs));
    }
    toldBans.hear({ id: "production:a", atMs: NOON + MANY, ban: BAN });
    assert.ok(isKnown(toldBans, "production:a", NOON + MANY));
  });

  it("is believed once messages were missed, though lifts were told by a clock that is set back since", () => {
    const toldBans = new ToldBans();
    toldBans.hear({ id: "production:banned", atMs: NOON + MANY, ban: BAN });
    toldBans.hear({ id: "production:forgotten", atMs: NOON + MANY, ban: undefined });
    tell(toldBans, undefined);
    const heard = () => {
      return ["production:forgotten", `production:${MANY - 1}`].map((id) => {
        toldBans.hear({ id, atMs: NOON, ban: BAN });
        return isKnown(toldBans, id, NOON);
      });
    };
    assert.deepEqual(
      [heard(), isKnown(toldBans, "production:banned", NOON)],
      [[false, false], true],
    );
    toldBans.forget();
    assert.deepEqual(
      [isKnown(toldBans, "production:banned", NOON), heard()],
      [false, [true, true]],
    );
  });
});
