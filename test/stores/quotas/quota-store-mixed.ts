import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import type { BanPolicy } from "../../../src/core/quota/bans.ts";
import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaRequest,
} from "../../../src/core/quota/decide.ts";
import { rateLimitRefusal, retryAfterSeconds } from "../../../src/core/quota/rate-limit-info.ts";
import { type Limit, mergeLimits } from "../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import type { ChargeResult, QuotaStore } from "../../../src/stores/quotas/quota-store.ts";
import { type Bench, START } from "./quota-store-kit.ts";

const CREATE = { id: "1z141z3", name: "createPet" };
const LIST = { id: "7", name: "listPets" };
const PLAN: readonly Limit[] = [
  { window: "minute", limit: 12 },
  { window: "hour", limit: 30 },
];
const OBSERVE: readonly Limit[] = [
  { window: "minute", limit: 4 },
  { window: "day", limit: 9 },
];
/** The windows of each kind of request: its operation has none, a short one, or a long one. */
const KINDS: readonly (readonly Limit[])[] = [
  mergeLimits(PLAN, { observe: OBSERVE }),
  mergeLimits(PLAN, {
    operation: [{ window: "second", limit: 6, part: CREATE }],
    observe: OBSERVE,
  }),
  mergeLimits(PLAN, {
    operation: [{ window: "day", limit: 8, part: LIST }],
    observe: OBSERVE,
  }),
];
const POLICIES: readonly (BanPolicy | undefined)[] = [
  undefined,
  {
    ...{ strikes: 2, withinMs: 60_000, graceMs: 1_000, durationMs: 5_000 },
    ...{ factor: 4, maxMs: 90_000, forgetAfterMs: 600_000 },
  },
];

type Kind = { readonly kind: number; readonly cost: number };
type Together = { readonly asks: readonly Kind[]; readonly waitMs: number };

/** Requests that come together, and the time from one such batch to the next. */
const history = fc.record({
  policy: fc.nat({ max: POLICIES.length - 1 }),
  observe: fc.boolean(),
  batches: fc.array(
    fc.record({
      asks: fc.array(
        fc.record({
          kind: fc.nat({ max: KINDS.length - 1 }),
          cost: fc.constantFrom(0, 1, 1, 2, 3, 5),
        }),
        { minLength: 1, maxLength: 8 },
      ),
      waitMs: fc.constantFrom(0, 0, 1, 999, 1_001, 5_000, 49_990, 60_000, 3_600_000),
    }),
    { minLength: 1, maxLength: 12 },
  ),
});

const DEAR = { kind: 0, cost: 5 };
/** Two fit; then come a first refusal, two strikes, and a request that is known to be banned. */
const BANNED = {
  ...{ policy: 1, observe: false },
  batches: [
    { asks: [DEAR, DEAR, DEAR], waitMs: 0 },
    { asks: [DEAR], waitMs: 1_001 },
    { asks: [DEAR, DEAR], waitMs: 1_001 },
  ],
};

const together = (...asks: readonly (readonly [kind: number, cost: number])[]) => {
  return { asks: asks.map(([kind, cost]) => ({ kind, cost })), waitMs: 0 };
};
/**
 * The dearer one of the last two that come together is known to be refused, but not until when, as
 * its day may be used up too: it is decided behind the other one, which uses up the day.
 */
const BEHIND = {
  ...{ policy: 0, observe: false },
  batches: [
    together([2, 2], [0, 0]),
    together([2, 1], [0, 0]),
    together([0, 2], [0, 2], [0, 3]),
    { ...together([0, 1], [0, 2]), waitMs: 1_001 },
    together([2, 5], [2, 1]),
  ],
};

/** Requests of mixed costs and operations at once, against `decide`, asked one by one. */
export function describeMixed(engine: string, bench: Bench, runs: number): void {
  describe(`${engine} and requests of mixed costs that come together`, () => {
    it("are decided, and told when to retry, as if they had come one by one", async () => {
      const { store, accountRef: first } = await bench.start();
      let run = 0;
      const seen = { admitted: 0, limited: 0, banned: 0, memory: 0 };
      await fc.assert(
        fc.asyncProperty(history, async ({ policy, observe, batches }) => {
          bench.nowMs = START;
          run += 1;
          const name = { ...first, account: `mixed_${run}` };
          const bans = POLICIES[policy] && { ...POLICIES[policy], observe };
          let model: AccountState = NEW_ACCOUNT_STATE;
          for (const { asks, waitMs } of bans === undefined ? batches : oneByOne(batches)) {
            bench.nowMs += waitMs;
            const { nowMs } = bench;
            const given = asks.map((kind) => asked(kind, bans));
            const answers = await askAll(store, name, given);
            model = firstThatFits(ordersOf(answers), (order) => {
              return judged(model, { given, answers, order, nowMs });
            });
            for (const { admitted, by, decision } of answers) {
              if (by === "memory") seen.memory += 1;
              if (admitted) seen.admitted += 1;
              else seen[decision.ban === undefined ? "limited" : "banned"] += 1;
            }
          }
        }),
        { numRuns: runs, examples: [[BANNED], [BEHIND]] },
      );
      const { admitted, limited, banned, memory } = seen;
      assert.ok(admitted > 0 && limited > 0 && banned > 0, JSON.stringify(seen));
      assert.ok(engine !== "The Redis store" || memory > 0, "some were known from memory");
    });
  });
}

/** A refusal that could be a strike may wait, and others are decided ahead of it: here nothing waits. */
function oneByOne(batches: readonly Together[]): readonly Together[] {
  return batches.flatMap(({ asks, waitMs }) => {
    return asks.map((ask, i) => ({ asks: [ask], waitMs: i === 0 ? waitMs : 0 }));
  });
}

/**
 * The orders in which requests may have been decided. A refusal from memory is decided when it is
 * asked for, ahead of requests that wait for the store. One refusal that is known, but for a window
 * of which only something old is known, may be decided behind them.
 */
function ordersOf(answers: readonly ChargeResult[]): readonly (readonly number[])[] {
  const all = answers.map((_, i) => i);
  const known = all.filter((i) => answers[i]?.by === "memory");
  const others = all.filter((i) => answers[i]?.by !== "memory");
  const refused = others.filter((i) => answers[i]?.admitted === false);
  const behind = refused.map((i) => [...known, ...others.filter((one) => one !== i), i]);
  return [[...known, ...others], ...behind];
}

/** The account after the first order that explains the answers. */
function firstThatFits<T>(orders: readonly T[], judge: (order: T) => AccountState): AccountState {
  let why: unknown;
  for (const order of orders) {
    try {
      return judge(order);
    } catch (error) {
      why ??= error;
    }
  }
  throw why;
}

type Batch = {
  readonly given: readonly QuotaRequest[];
  readonly answers: readonly ChargeResult[];
  readonly order: readonly number[];
  readonly nowMs: number;
};

/** The account after the requests, decided one by one in this order. Throws if an answer differs. */
function judged(before: AccountState, { given, answers, order, nowMs }: Batch): AccountState {
  let model = before;
  for (const i of order) {
    const quotaRequest = given[i] as QuotaRequest;
    const { account, decision: verdict } = decide(model, quotaRequest, nowMs);
    model = account;
    const { admitted, decision, requestsAfter } = answers[i] as ChargeResult;
    assert.equal(admitted, verdict.granted === 1, `ask ${i}`);
    if (admitted) {
      const after = requestsAfter * (quotaRequest.cost ?? 1);
      const used = decision.windows.map((each) => each.used - after);
      const expected = verdict.windows.map((each) => each.used);
      assert.deepEqual(used, expected);
      continue;
    }
    const told = rateLimitRefusal(decision, nowMs, quotaRequest.cost);
    const expected = rateLimitRefusal(verdict, nowMs, quotaRequest.cost);
    assert.equal(told?.code, expected?.code);
    assert.equal(told?.rateLimitInfo.resetMs, expected?.rateLimitInfo.resetMs);
    obeyed(model, quotaRequest, nowMs, told?.rateLimitInfo.resetMs as number);
  }
  return model;
}

function asked({ kind, cost }: Kind, bans: BanPolicy | undefined): QuotaRequest {
  return { limits: KINDS[kind] as readonly Limit[], bans, requests: 1, cost };
}

function askAll(store: QuotaStore, accountRef: AccountRef, asks: readonly QuotaRequest[]) {
  return Promise.all(
    asks.map(async (quotaRequest) => {
      const answer = await store.charge(accountRef, quotaRequest);
      assert.ok("decision" in answer, "the store gave no answer");
      return answer;
    }),
  );
}

/** Obeying Retry-After is enough, and one second less is not, by what was counted then. */
function obeyed(
  account: AccountState,
  quotaRequest: QuotaRequest,
  nowMs: number,
  resetMs: number,
): void {
  const seconds = retryAfterSeconds(resetMs, nowMs);
  const admits = (afterSeconds: number) => {
    return decide(account, quotaRequest, nowMs + afterSeconds * 1_000).decision.granted === 1;
  };
  assert.ok(admits(seconds), `${seconds} s are enough`);
  if (seconds > 1) assert.ok(!admits(seconds - 1), `${seconds - 1} s are too few`);
}
