import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Ban } from "../../../../src/core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import { KnownAccounts } from "../../../../src/stores/quotas/outage/known-accounts.ts";
import { LocalQuotas } from "../../../../src/stores/quotas/outage/local-quotas.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { accountRef, asking, MINUTE, NOON, terms } from "./local-kit.ts";

const LIMITS = [{ window: "minute", limit: 2 }] as const;
const BAN: Ban = { untilMs: NOON + 60_000, lengthMs: 60_000, window: "minute", offences: 1 };
const STRICT: QuotaRequest = {
  ...asking(...LIMITS),
  bans: { ...DEFAULT_BANS, strikes: 1, graceMs: 0 },
};

/** The accounts as one gateway knows them, without a store; `banned` are the bans that it reported. */
function open() {
  const banned: unknown[] = [];
  const decisionCache = new DecisionCache(() => NOON);
  const localQuotas = new LocalQuotas(10, () => {});
  const known = new KnownAccounts({
    ...{ decisionCache, localQuotas, mode: () => undefined, outageContext: () => terms() },
    corrections: { onBanned: ({ earned }) => banned.push(earned), onCounted: () => {} },
  });
  return { banned, decisionCache, localQuotas, known };
}

/** An answer of the store with so many units in the minute that runs. */
function told(used: number, more: Partial<QuotaDecision> = {}): QuotaDecision {
  const windows = [{ ...LIMITS[0], used, resetMs: NOON + MINUTE }];
  const rest = { strikes: 0, strikeDueMs: NOON, repaired: false, ban: undefined };
  return { nowMs: NOON, granted: 0, windows, ...rest, ...more };
}

it("a refusal that is known tells the units that are owed beside those of the store", () => {
  const { known, localQuotas } = open();
  const used = () => {
    const refused = { decision: told(1), requestsAfter: 0, admitted: false, by: "store" } as const;
    return known.withOwed(accountRef, refused).decision.windows[0]?.used;
  };
  assert.equal(used(), 1);
  localQuotas.decide(accountRef, STRICT, terms());
  assert.equal(used(), 2);
});

describe("a reading", () => {
  it("is the last known state of an account of which nothing was known", () => {
    const { known, decisionCache } = open();
    known.onReading(accountRef, told(2));
    assert.equal(decisionCache.lastKnown(accountRef, LIMITS)?.windows[0]?.used, 2);
  });

  it("tells the ban that it found, and none that it did not find", () => {
    const { known, decisionCache } = open();
    known.onReading(accountRef, told(2));
    assert.equal(decisionCache.lastKnown(accountRef)?.ban, undefined);
    known.onReading(accountRef, told(2, { ban: BAN }));
    assert.deepEqual(decisionCache.lastKnown(accountRef)?.ban, BAN);
  });
});

describe("an answer that came late", () => {
  const request = { accountRef, quotaRequest: STRICT };

  it("reports the ban that it earned, unless this gateway has banned the account itself, and is known in either case", () => {
    const late = told(2, { ban: BAN, newBan: BAN as never });
    const other = open();
    other.known.onLateDecision(request, late);
    assert.deepEqual(other.banned, [BAN]);
    assert.deepEqual(other.decisionCache.lastKnown(accountRef)?.ban, BAN);
    const { known, localQuotas, decisionCache, banned } = open();
    for (let i = 0; i < 5; i++) {
      localQuotas.decide(accountRef, STRICT, terms({ nowMs: NOON - 5 + i }));
    }
    assert.ok(localQuotas.isBanned(accountRef, NOON));
    known.onLateDecision(request, late);
    assert.deepEqual(banned, []);
    assert.deepEqual(decisionCache.lastKnown(accountRef)?.ban, BAN, "the store has it");
  });
});
