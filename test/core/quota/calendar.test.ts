import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  type Calendar,
  changeAnchor,
  monthEnd,
  monthStart,
  monthsIn,
  newCalendar,
} from "../../../src/core/quota/calendar.ts";
import { decide, NEW_ACCOUNT_STATE, type QuotaRequest } from "../../../src/core/quota/decide.ts";
import { rateLimitRefusal, retryAfterSeconds } from "../../../src/core/quota/rate-limit-info.ts";
import { mergeLimits } from "../../../src/core/quota/windows.ts";

const DAY = 86_400_000;
const FROM = Date.UTC(2026, 0, 1);
/** Past a leap year, and with every length of a month after every other. */
const TO = Date.UTC(2029, 0, 1);
const iso = (atMs: number) => new Date(atMs).toISOString().slice(0, 10);

/** Whether months begin on this day, as a person would tell from a calendar on the wall. */
function isAnchorDay(atMs: number, anchor: number): boolean {
  const day = new Date(atMs).getUTCDate();
  const isLast = new Date(atMs + DAY).getUTCDate() === 1;
  return day === anchor || (isLast && day < anchor);
}

/** Walks day by day: a month ends on the first anchor day after its start, a change waits for it. */
class Walk {
  calendar: Calendar = [];
  startMs: number;
  #anchor = 1;
  #next: number | undefined;
  #nowMs: number;

  constructor(fromMs: number) {
    this.startMs = fromMs;
    this.#nowMs = fromMs;
  }

  to(nowMs: number): void {
    while (this.#nowMs < nowMs) {
      this.#nowMs += DAY;
      if (!isAnchorDay(this.#nowMs, this.#anchor)) continue;
      this.startMs = this.#nowMs;
      this.#anchor = this.#next ?? this.#anchor;
      this.#next = undefined;
    }
  }

  change(day: number, nowMs: number): void {
    const changed = changeAnchor(this.calendar, day, nowMs);
    const isSecond = this.#next !== undefined && this.#next !== day;
    assert.equal("next" in changed, isSecond, "a second change in one month is refused");
    if (!("calendar" in changed)) return;
    this.calendar = changed.calendar;
    if (day !== this.#anchor) this.#next = day;
  }
}

describe("Months from an anchor day", () => {
  for (const [anchor, months] of [
    [1, ["2028-01-01", "2028-02-01", "2028-03-01"]],
    [15, ["2028-01-15", "2028-02-15", "2028-03-15"]],
    [29, ["2027-01-29", "2027-02-28", "2027-03-29"]],
    [30, ["2028-01-30", "2028-02-29", "2028-03-30", "2028-04-30"]],
    [31, ["2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30", "2028-05-31"]],
  ] as const) {
    it(`${anchor} begin on ${months.join(", ")}`, () => {
      const calendar = newCalendar(anchor) ?? [];
      for (const [i, day] of months.entries()) {
        const startMs = Date.parse(day);
        assert.equal(iso(monthStart(calendar, startMs)), day);
        assert.equal(iso(monthStart(calendar, startMs + DAY)), day);
        if (i > 0) assert.equal(iso(monthEnd(calendar, Date.parse(months[i - 1] as string))), day);
      }
    });
  }

  it("are those of a walk through the days, for every anchor, with and without changes", () => {
    const changes = fc.array(
      fc.record({
        day: fc.integer({ min: 1, max: 31 }),
        waitDays: fc.integer({ min: 0, max: 40 }),
      }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 31 }), changes, (first, later) => {
        const walk = new Walk(FROM);
        walk.change(first, FROM);
        let changeMs = FROM;
        const due = later.map(({ day, waitDays }) => {
          changeMs += waitDays * DAY;
          return { day, atMs: changeMs };
        });
        const starts = new Set<number>();
        for (let atMs = FROM; atMs < TO; atMs += DAY) {
          walk.to(atMs);
          for (const { day, atMs: dueMs } of due) {
            if (dueMs === atMs) walk.change(day, atMs + (day * DAY) / 32);
          }
          assert.equal(iso(monthStart(walk.calendar, atMs)), iso(walk.startMs), iso(atMs));
          assert.equal(monthStart(walk.calendar, atMs + DAY - 1), walk.startMs);
          starts.add(walk.startMs);
        }
        const all = [...starts];
        for (const [i, startMs] of all.slice(0, -1).entries()) {
          assert.equal(iso(monthEnd(walk.calendar, startMs)), iso(all[i + 1] as number));
          assert.ok(
            (all[i + 1] as number) - startMs <= 31 * DAY,
            "no month is longer than 31 days",
          );
        }
      }),
      { numRuns: 200 },
    );
  });

  it("keep the running month when the anchor changes, and the next one ends on the new day", () => {
    const changed = changeAnchor([], 15, Date.parse("2026-11-22T12:00:00Z"));
    assert.ok("calendar" in changed);
    const { calendar } = changed;
    const months = ["2026-11-01", "2026-12-01", "2026-12-15", "2027-01-15"];
    for (const [i, day] of months.slice(0, -1).entries()) {
      assert.equal(iso(monthEnd(calendar, Date.parse(day))), months[i + 1]);
    }
    const next = { day: 15, fromMs: Date.parse("2026-12-01") };
    assert.deepEqual(changeAnchor(calendar, 20, Date.parse("2026-11-30T23:59:59Z")), { next });
    assert.ok("calendar" in changeAnchor(calendar, 20, Date.parse("2026-12-01")));
    const same = changeAnchor(calendar, 15, Date.parse("2026-11-23"));
    assert.ok("calendar" in same && same.calendar === calendar, "the same change again is none");
  });

  it("are waited for exactly: obeying Retry-After is enough, and one second less is not", () => {
    const month = [{ window: "month", limit: 2 }] as const;
    for (let anchor = 1; anchor <= 31; anchor++) {
      const walk = new Walk(FROM);
      walk.change(anchor, FROM);
      let account = NEW_ACCOUNT_STATE;
      for (let nowMs = FROM + 1_234; nowMs < FROM + 400 * DAY; ) {
        if (anchor % 3 === 0) walk.change((((nowMs / DAY) | 0) % 31) + 1, nowMs);
        const limits = mergeLimits(month, { calendar: walk.calendar });
        const quotaRequest: QuotaRequest = { limits, bans: undefined, requests: 3 };
        const decided = decide(account, quotaRequest, nowMs);
        assert.equal(decided.decision.granted, 2, "each month has the whole limit");
        account = decided.account;
        const refusal = rateLimitRefusal(decided.decision, nowMs);
        const waitMs = 1_000 * retryAfterSeconds(refusal?.rateLimitInfo.resetMs ?? 0, nowMs);
        const one = { ...quotaRequest, requests: 1 };
        assert.equal(decide(account, one, nowMs + waitMs - 1_000).decision.granted, 0);
        assert.equal(decide(account, one, nowMs + waitMs).decision.granted, 1);
        nowMs += waitMs;
        walk.to(nowMs - (nowMs % DAY));
      }
    }
  });
});

describe("the months of a span of days", () => {
  const dayAt = (text: string) => Date.parse(text) / DAY;
  const months = (calendar: Calendar, from: string, to: string) =>
    monthsIn(calendar, { from: dayAt(from), to: dayAt(to) }).map((one) => {
      return [iso(one.from * DAY), iso(one.to * DAY)];
    });

  it("are those that begin in it, whole, also the one that ends after it", () => {
    const [january, february] = [
      ["2026-01-01", "2026-01-31"],
      ["2026-02-01", "2026-02-28"],
    ];
    assert.deepEqual(months([], "2026-01-01", "2026-02-01"), [january, february]);
    assert.deepEqual(months([], "2026-01-02", "2026-02-28"), [february]);
    assert.deepEqual(months([], "2026-01-02", "2026-01-31"), []);
  });

  it("begin on the day of the account", () => {
    const calendar: Calendar = [{ day: 31, fromMs: Number.NEGATIVE_INFINITY }];
    assert.deepEqual(months(calendar, "2026-01-15", "2026-03-01"), [
      ["2026-01-31", "2026-02-27"],
      ["2026-02-28", "2026-03-30"],
    ]);
  });
});
