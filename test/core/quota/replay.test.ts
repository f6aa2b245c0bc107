import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { type AccountState, decide, NEW_ACCOUNT_STATE } from "../../../src/core/quota/decide.ts";
import { isDifferent, type RequestKind, replay } from "../../../src/core/quota/replay.ts";
import { type PastOutcome, ReplayLog } from "../../../src/core/quota/replay-log.ts";
import { each } from "../../support/each.ts";
import { DEFAULT_BANS } from "../../support/gateway/default-bans.ts";
import { limitsUpTo } from "./asks.ts";

const BANS = { ...DEFAULT_BANS, strikes: 3, graceMs: 1, durationMs: 5_000 };
const START_MS = Date.UTC(2026, 10, 1);

type Past = { account: number; atMs: number; kind: number; outcome: PastOutcome };

/** The requests of some accounts, as one gateway after the other would have decided them. */
function lived(kinds: readonly RequestKind[], steps: readonly [number, number, number][]): Past[] {
  const accounts = new Map<number, AccountState>();
  let nowMs = START_MS;
  return steps.map(([account, kind, stepMs]) => {
    nowMs += stepMs;
    const { limits, cost } = kinds[kind] as RequestKind;
    const before = accounts.get(account) ?? NEW_ACCOUNT_STATE;
    const decision = decide(before, { limits, bans: BANS, requests: 1, cost }, nowMs);
    accounts.set(account, decision.account);
    const { granted, ban } = decision.decision;
    const outcome = granted === 1 ? "admitted" : ban === undefined ? "limited" : "banned";
    return { account, atMs: nowMs, kind, outcome };
  });
}

function inAnyOrder(past: readonly Past[], kinds: readonly RequestKind[]) {
  const log = new ReplayLog();
  for (const { account, ...ask } of past) log.add(account, ask);
  return [...log.byAccount()].map(({ account, asks: own }) => ({
    account,
    ...replay(own, kinds, BANS),
  }));
}

const steps = fc.array(
  fc.tuple(
    fc.integer({ min: 0, max: 3 }),
    fc.constantFrom(0, 1),
    fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 40_000 })),
  ),
  { maxLength: 200 },
);

describe("requests decided again", () => {
  it("by their own plan come out as they did, in whatever order the log has them", () => {
    fc.assert(
      fc.property(limitsUpTo(5), steps, fc.infiniteStream(fc.double()), (limits, taken, dice) => {
        const kinds = [{ limits, cost: 1 }];
        const past = lived(
          kinds,
          taken.map(([account, , ms]) => [account, 0, ms]),
        );
        const shuffled = past
          .map((one) => [dice.next().value, one] as const)
          .sort(([a], [b]) => a - b)
          .map(([, one]) => one);
        for (const one of inAnyOrder(shuffled, kinds))
          assert.ok(!isDifferent(one), fc.stringify(one));
      }),
      { numRuns: 200 },
    );
  });

  it("by a smaller limit tell who is limited, how often, by which window and from when", () => {
    const ask = (atMs: number, outcome: PastOutcome = "admitted") => ({ atMs, kind: 0, outcome });
    const asks = [0, 10, 20, 30, 60_000].map((ms) => ask(START_MS + ms));
    const told = replay(asks, [{ limits: [{ window: "minute", limit: 2 }], cost: 1 }], undefined);
    assert.equal(told.requests, 5);
    assert.deepEqual([told.limited, told.limitedSinceMs], [2, START_MS + 20]);
    assert.deepEqual([told.window, told.banned, told.admitted], ["minute", 0, 0]);
  });

  it("tell the bans that are earned, and what is refused by them", () => {
    const asks = Array.from({ length: 10 }, (_, i) => {
      return { atMs: START_MS + 100 * i, kind: 0, outcome: "admitted" as const };
    });
    const told = replay(asks, [{ limits: [{ window: "minute", limit: 1 }], cost: 1 }], BANS);
    // The first refusal is at 100 ms; strikes at 200, 300 and 400, and the third is the ban.
    assert.deepEqual([told.bans, told.banned, told.limited], [1, 6, 3]);
    assert.equal(told.bannedSinceMs, START_MS + 400);
    const observed = replay(asks, [{ limits: [{ window: "minute", limit: 1 }], cost: 1 }], {
      ...BANS,
      observe: true,
    });
    assert.deepEqual([observed.bans, observed.banned, observed.limited], [0, 0, 9]);
  });

  it("by a larger limit tell what passes now, and what is no ban any more", () => {
    const asks = (["admitted", "limited", "banned"] as const).map((outcome, i) => {
      return { atMs: START_MS + i, kind: 0, outcome };
    });
    const told = replay(asks, [{ limits: [{ window: "day", limit: 2 }], cost: 1 }], BANS);
    assert.deepEqual([told.admitted, told.unbanned, told.limited], [1, 1, 0]);
    assert.equal(told.limitedSinceMs, undefined);
  });

  it("that cost more than a limit are limited, and are not counted", () => {
    const kinds = [
      { limits: [{ window: "minute" as const, limit: 4 }], cost: 5 },
      { limits: [{ window: "minute" as const, limit: 4 }], cost: 4 },
    ];
    const asks = [0, 1].map((kind) => ({
      atMs: START_MS + kind,
      kind,
      outcome: "admitted" as const,
    }));
    const told = replay(asks, kinds, undefined);
    assert.deepEqual([told.limited, told.window], [1, "minute"]);
  });

  it("keep their place beyond the room that there was at first", () => {
    const log = new ReplayLog();
    const count = 150_000;
    for (let i = 0; i < count; i++) {
      log.add(i % 2, { atMs: START_MS + count - i, kind: i % 3, outcome: "admitted" });
    }
    const told = [...log.byAccount()].map(({ account, asks: own }) => [account, [...own]] as const);
    assert.deepEqual(
      told.map(([account, own]) => [account, own.length]),
      [
        [0, count / 2],
        [1, count / 2],
      ],
    );
    for (const [, own] of told) {
      assert.ok(each(own).every(({ atMs }, i) => i === 0 || atMs > (own[i - 1]?.atMs ?? 0)));
    }
  });
});
