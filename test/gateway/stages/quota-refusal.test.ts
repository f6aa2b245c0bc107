import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Ban } from "../../../src/core/quota/bans.ts";
import type { WindowUsage } from "../../../src/core/quota/decide.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";
import { OpenHolds } from "../../../src/gateway/client/open-holds.ts";
import type { Exchange } from "../../../src/gateway/exchange/exchange.ts";
import type { DecisionFacts } from "../../../src/gateway/exchange/exchange-record.ts";
import type { Caller } from "../../../src/gateway/stages/authenticate.ts";
import { refuseByQuota } from "../../../src/gateway/stages/quota-refusal.ts";
import type { ChargeResult } from "../../../src/stores/quotas/quota-store.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const CALLER = { environment: "production", account: "a", id: "production:a" } as Caller;
const MINUTE: WindowUsage = { window: "minute", limit: 60, used: 60, resetMs: NOON + 60_000 };
const DAY: WindowUsage = { window: "day", limit: 1_000, used: 998, resetMs: NOON + 43_200_000 };

const NO_OPERATIONS: readonly Limit[] = [];

const TOKENS = { id: "#tokens", name: "tokens" };

type Asked = {
  readonly cost?: number;
  readonly ban?: Ban;
  readonly by?: ChargeResult["by"];
  readonly operations?: readonly Limit[];
};

/** The refusal of a request by these windows, and what the exchange was told of it. */
function refuse(windows: readonly WindowUsage[], asked: Asked = {}, holds = new OpenHolds()) {
  const { cost = 1, ban, by = "memory", operations = NO_OPERATIONS } = asked;
  const told: DecisionFacts[] = [];
  const exchange = { cost, setDecision: (facts: DecisionFacts) => told.push(facts) };
  const decided = { granted: 0, strikes: 2, strikeDueMs: NOON, repaired: false };
  const decision = { nowMs: NOON, windows, ban, ...decided };
  const answer = { decision, admitted: false, requestsAfter: 0, by };
  const result = refuseByQuota(
    { holds, operations },
    answer,
    exchange as unknown as Exchange,
    CALLER,
  );
  assert.ok(!result.ok);
  const [facts] = told;
  assert.ok(facts !== undefined && told.length === 1);
  return { refusal: result.refusal, facts };
}

describe("a refusal for the sake of a share", () => {
  it("says to wait a second if more than a whole share is asked for, in whichever window", () => {
    const tokens = { window: "minute", resetMs: NOON + 60_000, part: TOKENS, hold: 2_000 } as const;
    const waits = (shares: readonly [day: number, tokens: number], cost = 1) => {
      const day: WindowUsage = { ...DAY, limit: shares[0], used: shares[0] };
      const windows = [{ ...tokens, limit: shares[1], used: 0 }, day];
      return refuse(windows, { by: "share", cost }).refusal.retryAfterSeconds;
    };
    assert.equal(waits([10, 2_000]), 5);
    assert.equal(waits([10, 1_999]), 1);
    assert.equal(waits([10, 2_000], 10), 5);
    assert.equal(waits([10, 2_000], 11), 1);
  });

  it("says that the request takes more than the whole share, not that an untouched share is used up", () => {
    const share: WindowUsage = { ...MINUTE, limit: 4, used: 0 };
    const usedUp: WindowUsage = { ...DAY, limit: 10, used: 10 };
    const messageFor = (windows: readonly WindowUsage[], cost: number) => {
      return refuse(windows, { by: "share", cost }).refusal.message ?? "";
    };
    const above =
      /^This request takes 5 units, more than this gateway's share of the minute limit, 4 units, /;
    assert.match(messageFor([share], 5), above);
    assert.match(messageFor([share, usedUp], 5), above);
    assert.match(messageFor([share, usedUp], 4), /share of the day limit, 10 units, is used up/);
    const tokens = { ...share, part: TOKENS, hold: 2_000 };
    const held = /takes 2000 units, more than .* share of the tokens limit of a minute, 4 units, /;
    assert.match(messageFor([tokens], 1), held);
  });
});

describe("a refusal from memory", () => {
  it("tells the window that its own cost does not fit, whatever cost was refused before it", () => {
    const windows = [MINUTE, DAY];
    for (const [cost, window] of [
      [1, "minute"],
      [5, "day"],
      [1, "minute"],
    ] as const) {
      const { refusal, facts } = refuse(windows, { cost });
      assert.deepEqual([refusal.code, facts.rateLimitInfo.window], ["rate_limited", window]);
      assert.match(refusal.message ?? "", new RegExp(`The ${window} limit`));
    }
  });

  it("names a ban while it runs, and no longer", () => {
    const windows = [MINUTE, DAY];
    const untilMs = NOON + 90_500;
    const ban: Ban = { untilMs, lengthMs: 100_000, window: "minute", offences: 1 };
    assert.equal(refuse(windows).refusal.code, "rate_limited");
    const banned = refuse(windows, { ban });
    assert.equal(banned.refusal.code, "key_banned");
    assert.equal(banned.facts.refusal?.ban, Math.ceil(untilMs / 1_000));
    assert.equal(banned.facts.rateLimitInfo.window, "ban");
    const after = refuse(windows);
    assert.deepEqual([after.refusal.code, after.facts.refusal?.ban], ["rate_limited", undefined]);
  });

  it("tells a ban that another operation earned by the limit that this has in the configuration in force", () => {
    const windows = [DAY];
    const part = { id: "1z", name: "GET /rows" };
    const earned = { window: "minute", operation: part.id, offences: 1 } as const;
    const ban: Ban = { untilMs: NOON + 90_000_000, lengthMs: 100_000, ...earned };
    const limits = [10, 20].map((limit) => {
      const operations = [{ window: "minute", limit, part } as const];
      return refuse(windows, { ban, operations }).facts.rateLimitInfo.limit;
    });
    assert.deepEqual(limits, [10, 20]);
  });

  it("is worked out once for a list of windows, and each time where the store decided", () => {
    const windows = [MINUTE, DAY];
    assert.equal(refuse(windows).refusal, refuse(windows).refusal);
    const stored = refuse(windows, { by: "store" });
    assert.equal(stored.facts.refusal?.by, "store");
    assert.equal(refuse(windows).facts.refusal?.by, "memory");
    assert.deepEqual(refuse([...windows]).facts, refuse(windows).facts);
  });

  it("is for the units that requests under way hold only as long as they hold them", () => {
    const tokens: WindowUsage = { ...MINUTE, part: TOKENS, hold: 10 };
    const windows = [tokens, DAY];
    const open = new OpenHolds();
    const holds = { id: "r", plan: "p", meters: [], windows: [tokens], decidedMs: NOON };
    assert.equal(refuse(windows, {}, open).refusal.code, "rate_limited");
    open.add(CALLER, holds);
    assert.equal(refuse(windows, {}, open).refusal.code, "meter_held");
    assert.deepEqual(refuse(windows, {}, open).facts.refusal?.holds, { tokens: 10 });
    open.remove(CALLER, holds);
    assert.equal(refuse(windows, {}, open).refusal.code, "rate_limited");
  });
});
