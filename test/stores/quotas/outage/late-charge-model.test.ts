import assert from "node:assert/strict";
import fc from "fast-check";
import { it } from "vitest";
import { type Calendar, calendarText } from "../../../../src/core/quota/calendar.ts";
import type { QuotaDecision } from "../../../../src/core/quota/decide.ts";
import { mergeLimits, windowEnd, windowStart } from "../../../../src/core/quota/windows.ts";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import type { AccountDebt } from "../../../../src/stores/quotas/outage/account-debt.ts";
import { chargeLate } from "../../../../src/stores/quotas/outage/late-charge.ts";
import { RESET_SCRIPT } from "../../../../src/stores/quotas/redis/account-scripts.ts";
import {
  createQuotaClient,
  type QuotaClient,
} from "../../../../src/stores/quotas/redis/quota-client.ts";
import { readDayHistory } from "../../../../src/stores/quotas/redis/store/day-history.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account } from "../redis/redis-kit.ts";

const { server } = await useRedis();
const NAMES = ["minute", "day", "month"] as const;
type Name = (typeof NAMES)[number];
const FIELD = { minute: "m", day: "d", month: "M" } as const;
const LIMITS = NAMES.map((window) => ({ window, limit: 40 }));
/** Months from the first day, from another one, and two that move from the first day to the 15th. */
const CALENDARS: readonly (Calendar | undefined)[] = [
  undefined,
  [{ day: 15, fromMs: 0 }],
  [{ day: 31, fromMs: 0 }],
  [{ day: 15, fromMs: Date.UTC(2026, 6, 1) }],
  [{ day: 15, fromMs: Date.UTC(2026, 7, 1) }],
];
const [MINUTE_MS, DAY_MS] = [60_000, 86_400_000];
const CLOSES_AFTER_MS = 15 * MINUTE_MS;

const agoMs = fc.constantFrom(0, 1, 30_000, MINUTE_MS, 20 * MINUTE_MS, DAY_MS);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("request" as const), requests: fc.nat(30) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("late" as const),
      units: fc.uniqueArray(
        fc.record({ window: fc.constantFrom(...NAMES), units: fc.integer({ min: -12, max: 12 }) }),
        { maxLength: 3, selector: ({ window }) => window },
      ),
      requests: fc.integer({ min: -5, max: 5 }),
      agoMs,
      chargedAgoMs: agoMs,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("reset" as const),
      windows: fc.option(fc.subarray([...NAMES], { minLength: 1 }), { nil: undefined }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("clock" as const),
      byMs: fc.constantFrom(1, 1_000, MINUTE_MS, 16 * MINUTE_MS, DAY_MS),
    }),
  },
);
const run = fc.record({
  startMs: fc.constantFrom(
    Date.UTC(2026, 6, 15, 12),
    Date.UTC(2026, 6, 31, 23, 59, 30),
    Date.UTC(2026, 7, 1, 0, 14, 59, 999),
    Date.UTC(2026, 6, 14, 23, 59, 30),
    Date.UTC(2026, 7, 13, 23, 59, 30),
  ),
  calendar: fc.constantFrom(...CALENDARS),
  steps: fc.array(step, { minLength: 1, maxLength: 40, size: "max" }),
});

type Counted = {
  startMs: number;
  used: number;
  mark: number;
  resetMs: number;
  hasRefused: boolean;
  /** The store has it: a reset leaves alone what was never counted. */
  isStored: boolean;
};

/** An account as its counts should be after charges, corrections and resets. */
class Model {
  nowMs: number;
  readonly windows = new Map<Name, Counted>();
  readonly days = new Map<number, { admitted: number; units: number }>();
  readonly calendar: Calendar | undefined;

  constructor(nowMs: number, calendar: Calendar | undefined) {
    this.nowMs = nowMs;
    this.calendar = calendar;
  }

  at(window: Name): Counted {
    const startMs = windowStart(window, this.nowMs, this.calendar);
    let found = this.windows.get(window);
    if (found === undefined || found.startMs < startMs) {
      found = { startMs, used: 0, mark: 0, resetMs: 0, hasRefused: false, isStored: false };
      this.windows.set(window, found);
    }
    return found;
  }

  request(requests: number) {
    const all = NAMES.map((window) => this.at(window));
    const granted = Math.max(0, Math.min(requests, ...all.map(({ used }) => 40 - used)));
    for (const one of all) Object.assign(one, { used: one.used + granted, isStored: true });
    if (granted > 0) this.toDay(Math.floor(this.nowMs / DAY_MS), granted, granted);
    const told = all.map(({ used, mark }) => [used, mark] as const);
    if (granted > 0) for (const one of all) if (one.used >= one.mark) one.mark = 0;
    if (requests > granted) {
      const last = all.findLast(({ used }) => used + 1 > 40);
      if (last !== undefined) last.hasRefused = true;
    }
    return { granted, told };
  }

  late(window: Name, startMs: number, units: number, chargedMs: number) {
    const found = this.at(window);
    if (found.startMs !== startMs) return undefined;
    const before = found.used;
    if (units > 0) found.used += units;
    else if (found.resetMs < chargedMs) {
      const back = Math.min(-units, found.used);
      if (back > 0) found.mark = Math.max(found.mark, found.used);
      found.used -= back;
    }
    found.isStored ||= found.used !== before;
    return { used: found.used, loweredFrom: found.mark, hasRefused: found.hasRefused };
  }

  toDay(day: number, requests: number, units: number): number {
    const isClosed = this.nowMs >= (day + 1) * DAY_MS + CLOSES_AFTER_MS;
    if (isClosed && (requests < 0 || units < 0)) return -units;
    const into = isClosed ? Math.floor(this.nowMs / DAY_MS) : day;
    const { admitted, units: before } = this.days.get(into) ?? { admitted: 0, units: 0 };
    const next = Math.max(0, admitted + requests);
    this.days.set(into, { admitted: next, units: next + (before - admitted) + (units - requests) });
    return 0;
  }

  reset(windows: readonly Name[]): void {
    for (const window of windows) {
      const found = this.windows.get(window);
      if (!found?.isStored) continue;
      if (windowEnd(window, found.startMs, this.calendar) <= this.nowMs) continue;
      Object.assign(found, { used: 0, mark: 0, resetMs: this.nowMs, hasRefused: false });
    }
  }
}

async function checkDays(
  quotaClient: QuotaClient,
  accountRef: AccountRef,
  model: Model,
  startMs: number,
): Promise<void> {
  const day = Math.floor(startMs / DAY_MS);
  const [days = []] = await readDayHistory(quotaClient, [accountRef], {
    from: day - 3,
    to: day + 45,
  });
  const told = days.map((one) => [one.day, { admitted: one.admitted, units: one.units }] as const);
  const isCounted = ([, { admitted, units }]: (typeof told)[number]) =>
    admitted !== 0 || units !== 0;
  const expected = [...model.days].filter(isCounted).sort(([one], [other]) => one - other);
  assert.deepEqual(told.filter(isCounted), expected);
}

it("gives the counts of a model in random sequences of charges, corrections, resets and edges", async () => {
  const link = connectRedis({ address: server.address });
  await link.tried;
  let nowMs = 0;
  const historyMs = 400 * DAY_MS;
  const quotaClient = createQuotaClient(link, "model", { clock: () => nowMs, historyMs });
  let number = 0;
  const play = async ({
    startMs,
    steps,
    calendar,
  }: typeof run extends fc.Arbitrary<infer T> ? T : never) => {
    const accountRef = account(`m${number++}`);
    const model = new Model(startMs, calendar);
    const limits = mergeLimits(LIMITS, { calendar });
    nowMs = startMs;
    for (const each of steps) {
      if (each.kind === "clock") {
        nowMs += each.byMs;
        model.nowMs = nowMs;
      } else if (each.kind === "request") {
        const quotaRequest = { limits, bans: undefined, requests: each.requests };
        const [outcome] = await quotaClient.decide([{ accountRef, quotaRequest }]);
        const { granted, windows } = outcome as QuotaDecision;
        const told = windows.map(({ used, loweredFrom = 0 }) => [used, loweredFrom] as const);
        if (each.requests > 0) assert.deepEqual({ granted, told }, model.request(each.requests));
      } else if (each.kind === "reset") {
        const fields = each.windows?.map((window) => FIELD[window]) ?? [];
        const key = quotaClient.keyOf(accountRef);
        await quotaClient.runOnAccounts(RESET_SCRIPT, [key], [calendarText(calendar), ...fields]);
        model.reset(each.windows ?? NAMES);
      } else {
        const atMs = nowMs - each.agoMs;
        const chargedMs = nowMs - each.chargedAgoMs;
        const windows = each.units.map(({ window, units }) => {
          const fromMs = windowStart(window, atMs, calendar);
          const endMs = calendar && windowEnd(window, fromMs, calendar);
          const owed = { counter: window, startMs: fromMs, endMs, units };
          return units < 0 ? { ...owed, chargedMs } : owed;
        });
        const { requests } = each;
        const day = { day: Math.floor(atMs / DAY_MS), requests, units: requests };
        const debt: AccountDebt = { accountRef, plan: undefined, windows, days: [day], meters: [] };
        const reply = await chargeLate(quotaClient, [debt], performance.now() + 5_000);
        const expected = windows.map(({ counter, startMs: from, units }) => {
          return model.late(counter as Name, from, units, chargedMs);
        });
        const lostOfDay = each.requests === 0 ? 0 : model.toDay(day.day, day.requests, day.units);
        assert.deepEqual(reply.accounts, [{ lostOfDay, windows: expected }]);
      }
    }
    await checkDays(quotaClient, accountRef, model, startMs);
  };
  try {
    await fc.assert(fc.asyncProperty(run, play), { numRuns: 300 });
  } finally {
    await link.close();
  }
});
