import assert from "node:assert/strict";
import { setImmediate as immediate } from "node:timers/promises";
import type { Ban } from "../../../../src/core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { Batcher } from "../../../../src/stores/quotas/batch/batcher.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import type { CallOutcome } from "../../../../src/stores/quotas/batch/outcomes.ts";
import type { OutageHandler } from "../../../../src/stores/quotas/outage-handler.ts";
import type { AccountRequest } from "../../../../src/stores/quotas/quota-store.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { eventually } from "../../../support/poll.ts";
import { account } from "../redis/redis-kit.ts";

export const NOON = Date.UTC(2026, 5, 15, 12);
export const DAY_END = Date.UTC(2026, 5, 16);
const limits = [{ window: "day", limit: 1 }] as const;
export const quotaRequest: QuotaRequest = { limits, bans: DEFAULT_BANS, requests: 1 };
/** Each further strike could be the one that bans. */
export const banAtOnce: QuotaRequest = { ...quotaRequest, bans: { ...DEFAULT_BANS, strikes: 2 } };
export const BAN: Ban = { untilMs: NOON + 60_000, lengthMs: 60_000, window: "day", offences: 1 };
export const EARNED = { ...BAN, strikesMs: [NOON] };
export const AWAY = new StoreFailure("unreachable", "away", "no");

/**
 * The store's answer about an account whose day is spent: from now on each refusal may be a strike.
 */
export function spent(): QuotaDecision {
  return {
    nowMs: NOON,
    granted: 0,
    windows: [{ window: "day", limit: 1, used: 1, resetMs: DAY_END }],
    ban: undefined,
    strikes: 1,
    strikeDueMs: NOON,
    repaired: false,
  };
}

type Calling = {
  readonly names: readonly string[];
  readonly requests: readonly AccountRequest[];
  answer(outcome?: CallOutcome): void;
  /** One outcome for each request. */
  answerEach(outcomes: readonly CallOutcome[]): void;
};

function newGate() {
  const told = {
    decided: [] as string[],
    askedAlone: [] as QuotaRequest[],
    released: [] as number[],
  };
  const decide: OutageHandler["decide"] = (accountRef, asked) => {
    told.decided.push(accountRef.account);
    told.askedAlone.push(asked);
    return { unavailable: true };
  };
  const times = { nowMs: NOON, timeoutMs: 10_000 };
  return { isShut: false, shares: false, isNeverReady: false, ...times, ...told, decide };
}

/** A batch whose calls are answered by the test; an account's lane is the number in its name. */
export function openBatch() {
  const calls: Calling[] = [];
  const gate = newGate();
  const uncertain: number[] = [];
  const nodes: object[] = [];
  const outage: OutageHandler = {
    get timeoutMs() {
      return gate.timeoutMs;
    },
    get admitsShares() {
      return gate.shares;
    },
    isAway: () => gate.isShut,
    prepare: () => (gate.isNeverReady ? immediate() : undefined),
    reservedFor: () => undefined,
    settle: () => undefined,
    decide: gate.decide,
    withOwed: (_accountRef, refused) => refused,
    onCallEnd: () => undefined,
    onCallTimeout: () => undefined,
    onLateDecision: ({ quotaRequest: { cost = 1 } }, { granted }) => {
      gate.released.push(granted * cost);
    },
    lastKnown: (_accountRef, _limits, known) => known,
    onReading: () => undefined,
    reconfigure: () => undefined,
    lostUnits: () => 0,
    owedUnits: () => 0,
    health: () => undefined,
    dropOwed: () => undefined,
    close: async () => undefined,
  };
  const decisionCache = new DecisionCache(() => gate.nowMs);
  const batch = new Batcher({
    call: (groups) => {
      return groups.map((requests) => {
        return new Promise((resolve) => {
          const answer = (outcome: CallOutcome = spent()) => resolve(requests.map(() => outcome));
          calls.push({
            names: requests.map(({ accountRef }) => accountRef.account),
            requests,
            answer,
            answerEach: resolve,
          });
        });
      });
    },
    queueOf: (accountRef) => Number(accountRef.account.slice(1)),
    nodeOf: (queue) => (nodes[queue] ??= {}),
    decisionCache,
    outage,
    onVerdict: () => undefined,
    onCalled: () => undefined,
    onUncertain: (charges) => uncertain.push(...charges.map(({ units }) => units)),
  });
  return { batch, decisionCache, calls, gate, uncertain, [Symbol.dispose]: () => batch.close() };
}

type House = ReturnType<typeof openBatch>;

export const called = (house: House, count: number) =>
  eventually(() => assert.equal(house.calls.length, count));

/** Lets the batch know that the account's day is spent. */
export async function exhaust(house: House, name: string, asked = quotaRequest): Promise<void> {
  const before = house.calls.length;
  const first = house.batch.charge(account(name), asked);
  await called(house, before + 1);
  house.calls.at(-1)?.answer();
  await first;
}
