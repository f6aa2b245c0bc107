import assert from "node:assert/strict";
import fc from "fast-check";
import { it } from "vitest";
import { closesMs, dayOf } from "../../../../src/core/quota/days.ts";
import {
  type AccountState,
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
} from "../../../../src/core/quota/decide.ts";
import { type Holds, meterChanges, meterPart } from "../../../../src/core/quota/meters.ts";
import { settleWindow } from "../../../../src/core/quota/window-count.ts";
import {
  counterName,
  isMeter,
  type Limit,
  sortByLength,
} from "../../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import { chargeLate } from "../../../../src/stores/quotas/outage/late-charge.ts";
import { settlementDebt } from "../../../../src/stores/quotas/outage/settlement-queues.ts";
import { RESET_SCRIPT } from "../../../../src/stores/quotas/redis/account-scripts.ts";
import {
  createQuotaClient,
  type QuotaClient,
} from "../../../../src/stores/quotas/redis/quota-client.ts";
import { readDayHistory } from "../../../../src/stores/quotas/redis/store/day-history.ts";
import { counterField } from "../../../../src/stores/quotas/redis/window-fields.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account } from "../redis/redis-kit.ts";

const { server } = await useRedis();
const MINUTE_MS = 60_000;
const [TOKENS, ROWS] = [meterPart("tokens"), meterPart("rows-read")];
const COUNTERS = ["minute", "#tokens.minute", "#tokens.month", "#rows-read.day"];

/** Three operations: two take different holds, the third has another meter and costs nothing. */
const OPERATIONS = [
  { cost: 1, meters: [{ name: "tokens", hold: 6 }] },
  { cost: 2, meters: [{ name: "tokens", hold: 0 }] },
  { cost: 0, meters: [...["tokens", "rows-read"].map((name) => ({ name, hold: 3 }))] },
].map(({ cost, meters }) => {
  const limits: Limit[] = [{ window: "minute", limit: 40 }];
  for (const { name, hold } of meters) {
    const windows = name === "tokens" ? (["minute", "month"] as const) : (["day"] as const);
    const part = name === "tokens" ? TOKENS : ROWS;
    for (const window of windows) {
      limits.push({ window, limit: window === "minute" ? 30 : 90, part, hold });
    }
  }
  const whole = meters.map((meter) => ({ ...meter, max: 25, untold: meter.hold, used: [] }));
  return { cost, limits: sortByLength(limits), meters: whole };
});

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      operation: fc.nat(2),
      requests: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("settle" as const),
      which: fc.nat(9),
      used: fc.array(fc.constantFrom(0, 1, 5, 9, 25), { minLength: 2, maxLength: 2 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("reset" as const),
      counters: fc.option(fc.subarray(COUNTERS, { minLength: 1 }), { nil: undefined }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("clock" as const),
      byMs: fc.constantFrom(0, 1, 1_000, MINUTE_MS, 16 * MINUTE_MS, 1_440 * MINUTE_MS),
    }),
  },
);
const run = fc.record({
  startMs: fc.constantFrom(
    Date.UTC(2026, 6, 15, 12),
    Date.UTC(2026, 6, 31, 23, 59, 30),
    Date.UTC(2026, 7, 1, 0, 14, 59, 999),
  ),
  steps: fc.array(step, { minLength: 1, maxLength: 50, size: "max" }),
});

/** An account as holds, settlements and resets should leave it, and its days by meter. */
class Model {
  account: AccountState = NEW_ACCOUNT_STATE;
  readonly days = new Map<string, number>();

  request(quotaRequest: QuotaRequest, meters: Holds["meters"], nowMs: number): QuotaDecision {
    const { account: after, decision } = decide(this.account, quotaRequest, nowMs);
    this.account = after;
    for (const { name, hold } of meters) this.#toDay(dayOf(nowMs), name, decision.granted * hold);
    return decision;
  }

  /** The counts and marks after it; undefined for a window that is over. */
  settle(holds: Holds, used: readonly { name: string; units: number }[], nowMs: number) {
    return meterChanges(holds, used).flatMap(({ meter, units, windows }) => {
      const day = dayOf(holds.decidedMs);
      if (nowMs < closesMs(day)) this.#toDay(day, meter, units);
      else if (units > 0) this.#toDay(dayOf(nowMs), meter, units);
      return windows.map((usage) => {
        const counter = counterName(usage);
        const stored = this.account.usage[counter];
        const startMs = this.#startOf(usage.resetMs, counter);
        if (nowMs >= usage.resetMs || stored === undefined) return undefined;
        const change = { startMs, units, chargedMs: holds.decidedMs };
        const settled = settleWindow(stored, change) ?? stored;
        this.account = { ...this.account, usage: { ...this.account.usage, [counter]: settled } };
        const { count, loweredFrom = 0, refusedMs } = settled;
        return { used: count, loweredFrom, hasRefused: refusedMs > 0 };
      });
    });
  }

  reset(counters: readonly string[] | undefined, nowMs: number): void {
    const usage = { ...this.account.usage };
    for (const [counter, stored] of Object.entries(usage)) {
      if (stored === undefined || counters?.includes(counter) === false) continue;
      usage[counter] = { startMs: stored.startMs, count: 0, refusedMs: 0, zeroedMs: nowMs };
    }
    this.account = { ...this.account, usage };
  }

  #startOf(resetMs: number, counter: string): number {
    const { startMs = 0 } = this.account.usage[counter] ?? {};
    return startMs < resetMs ? startMs : 0;
  }

  #toDay(day: number, meter: string, units: number): void {
    const id = `${day} ${meter}`;
    const sum = Math.max(0, (this.days.get(id) ?? 0) + units);
    if (units !== 0) this.days.set(id, sum);
  }
}

async function daysOf(quotaClient: QuotaClient, accountRef: AccountRef, fromMs: number) {
  const span = { from: dayOf(fromMs), to: dayOf(fromMs) + 60 };
  const [rows = []] = await readDayHistory(quotaClient, [accountRef], span);
  return new Map(
    rows.flatMap(({ day, meters = {} }) => {
      return Object.entries(meters).map(([meter, units]) => [`${day} ${meter}`, units] as const);
    }),
  );
}

it("leaves the counts, marks and days of the model in random holds, settlements, resets and edges", async () => {
  const link = connectRedis({ address: server.address });
  await link.tried;
  let [nowMs, number] = [0, 0];
  const clock = () => nowMs;
  const quotaClient = createQuotaClient(link, "settled", { historyMs: 400 * 86_400_000, clock });
  const seen = { lowered: 0, raised: 0, over: 0, refused: 0 };
  const play = async ({
    startMs,
    steps,
  }: (typeof run extends fc.Arbitrary<infer T> ? [T] : never)[0]) => {
    const accountRef = account(`model-${number++}`);
    const model = new Model();
    const open: Holds[] = [];
    nowMs = startMs;
    for (const each of steps) {
      if (each.kind === "clock") nowMs += each.byMs;
      else if (each.kind === "reset") {
        const fields = each.counters?.map(counterField) ?? [];
        await quotaClient.runOnAccounts(
          RESET_SCRIPT,
          [quotaClient.keyOf(accountRef)],
          ["", ...fields],
        );
        model.reset(each.counters, nowMs);
      } else if (each.kind === "request") {
        const { cost, limits, meters } = OPERATIONS[each.operation] as (typeof OPERATIONS)[number];
        const quotaRequest = { limits, bans: undefined, requests: each.requests, cost };
        const [verdict] = await quotaClient.decide([{ accountRef, quotaRequest }]);
        const expected = model.request(quotaRequest, meters, nowMs);
        assert.deepEqual(verdict, expected);
        if (expected.granted < each.requests) seen.refused += 1;
        for (let i = 0; i < expected.granted; i++) {
          const windows = expected.windows.filter(isMeter);
          open.push({ id: `${open.length}`, plan: "", meters, windows, decidedMs: nowMs });
        }
      } else if (open.length > 0) {
        const [holds] = open.splice(each.which % open.length, 1) as [Holds];
        const used = holds.meters.map(({ name: of }, i) => ({
          name: of,
          units: each.used[i] ?? 0,
        }));
        const debt = settlementDebt(accountRef, holds, meterChanges(holds, used));
        const { accounts } = await chargeLate(quotaClient, [debt], performance.now() + 5_000);
        assert.deepEqual(accounts, [{ lostOfDay: 0, windows: model.settle(holds, used, nowMs) }]);
        for (const [i, window] of (accounts[0]?.windows ?? []).entries()) {
          if (window === undefined) seen.over += 1;
          else seen[(debt.windows[i]?.units ?? 0) < 0 ? "lowered" : "raised"] += 1;
        }
      }
    }
    assert.deepEqual(await daysOf(quotaClient, accountRef, startMs), model.days);
  };
  try {
    await fc.assert(fc.asyncProperty(run, play), { numRuns: 300 });
  } finally {
    await link.close();
  }
  for (const [kind, times] of Object.entries(seen)) assert.ok(times > 50, `${kind}: ${times}`);
});
