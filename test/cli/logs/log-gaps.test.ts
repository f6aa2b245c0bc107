import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { LogGaps } from "../../../src/cli/logs/log-gaps.ts";
import type { Calendar } from "../../../src/core/quota/calendar.ts";
import type { LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

/** The changes that a log may tell, and the words in which `audit` and `plans try` name them. */
const CHANGES: readonly (readonly [Record<string, unknown> & { msg: string }, RegExp])[] = [
  [{ msg: "event", kind: "account_changed" }, /accounts were changed \(account_changed: 1\)/],
  [{ msg: "event", kind: "account_reset" }, /accounts were reset \(account_reset: 1\)/],
  [{ msg: "event", kind: "ban", imposed: true }, /bans were added by hand \(ban: 1\)/],
  [{ msg: "event", kind: "ban_lifted" }, /bans were lifted by hand \(ban_lifted: 1\)/],
  [
    { msg: "changes_dropped", changes: 7 },
    /commands were made that no log has \(changes_dropped: 1\)/,
  ],
  [{ msg: "store_away" }, /gateways decided by themselves \(store_away: 1\)/],
  [{ msg: "counter_regression" }, /the store lost charges \(counter_regression: 1\)/],
  [{ msg: "event", kind: "counter_regression" }, /the store lost charges/],
];

describe("a log in which something changed", () => {
  for (const [line, words] of CHANGES) {
    it(`is said to have ${line.kind ?? line.msg}, told as ${line.msg}`, () => {
      const gaps = new LogGaps();
      gaps.event(line);
      assert.match(gaps.describe("day").join("\n"), words);
    });
  }

  it("is said to have nothing for other lines, nor for members of objects", () => {
    const gaps = new LogGaps();
    for (const msg of ["serving", "constructor", "toString"]) gaps.event({ msg });
    gaps.event({ msg: "event", kind: "quota" });
    gaps.event({ msg: "event", kind: "ban", offences: 1 });
    assert.deepEqual(gaps.describe("day"), []);
  });
});

describe("what a log tells of its requests", () => {
  const DAY_START = Date.UTC(2026, 9, 7);
  const requestAt = (ms: number, config: string) => {
    return { time: DAY_START + ms, durationMs: 0, config } as unknown as LoggedRequest;
  };

  it("is how often a change was made, and which configurations they have, in their order", () => {
    const gaps = new LogGaps();
    for (let i = 0; i < 2; i++) gaps.event({ msg: "account_reset" });
    gaps.request(requestAt(0, "b"));
    assert.deepEqual(gaps.describe("day"), ["accounts were reset (account_reset: 2)"]);
    gaps.event({ msg: "event", kind: "config_reloaded", hash: "a", time: DAY_START });
    for (const config of ["a", "b"]) gaps.request(requestAt(0, config));
    const changed = "the configuration changed: 2 are in the log, b, a";
    assert.deepEqual(gaps.describe("day"), ["accounts were reset (account_reset: 2)", changed]);
  });

  it("is no change where gateways with two configurations run side by side, until one is reloaded", () => {
    const gaps = new LogGaps();
    const event = (msg: string, ms: number, more: object) => {
      gaps.event({ msg, time: DAY_START + ms, ...more });
    };
    event("serving", 0, { config: "one" });
    event("serving", 1, { config: "two" });
    gaps.request(requestAt(2, "one"));
    gaps.request(requestAt(3, "two"));
    assert.deepEqual(gaps.describe("day"), [], "also if their lines do not overlap");
    for (const ms of [10, 20, 30, 40]) {
      gaps.request(requestAt(ms, "one"));
      gaps.request(requestAt(ms + 5, "two"));
    }
    assert.deepEqual(gaps.describe("day"), []);
    event("config_reloaded", 50, { hash: "three" });
    gaps.request(requestAt(51, "three"));
    // A request that began before the reload ends after it.
    for (const config of ["one", "two"]) gaps.request(requestAt(60, config));
    const changed = "the configuration changed: 3 are in the log, one, two, three";
    assert.deepEqual(gaps.describe("day"), [changed]);
  });

  it("is a change where the only request of the configuration before ends after the reload, and both count the same", () => {
    const gaps = new LogGaps();
    const reloaded = { msg: "event", kind: "config_reloaded", hash: "two", counting: "same" };
    const before = { hashBefore: "one", countingBefore: "same" };
    gaps.event({ ...reloaded, ...before, time: DAY_START + 50 });
    gaps.request({ ...requestAt(60, "one"), durationMs: 20 });
    // The clock of the store is behind.
    gaps.request({ ...requestAt(70, "two"), durationMs: 1, decidedAt: DAY_START - 60_000 });
    const [changed] = gaps.describe("day");
    assert.equal(changed, "the configuration changed: 2 are in the log, one, two");
  });

  it("is their first and their last instant, in whatever order they come", () => {
    const gaps = new LogGaps();
    assert.equal(gaps.span, undefined);
    for (const ms of [5, 9, 2, 7]) gaps.request(requestAt(ms, "one"));
    assert.deepEqual(gaps.span, { firstMs: DAY_START + 2, lastMs: DAY_START + 9 });
  });
});

describe("a log that begins inside the longest window", () => {
  it("by a second at least, from the instant at which its first request was decided", () => {
    const since = (decidedAt: number | undefined, time: number) => {
      const gaps = new LogGaps();
      const atMs = Date.UTC(2026, 9, 7);
      const decided = decidedAt === undefined ? {} : { decidedAt: atMs + decidedAt };
      gaps.request({ time: atMs + time, ...decided } as unknown as LoggedRequest);
      return gaps.describe("day");
    };
    assert.deepEqual([since(999, 5_000).length, since(1_000, 5_000).length], [0, 1]);
    assert.deepEqual([since(undefined, 999).length, since(undefined, 1_000).length], [0, 1]);
    const told = "the log begins at 2026-10-07 00:00:01Z, and its day at 2026-10-07 00:00:00Z: ";
    assert.ok(since(1_999, 5_000)[0]?.startsWith(told), "in whole seconds");
  });

  it("lacks what was charged before it, in the earliest month of the accounts", () => {
    const gaps = new LogGaps();
    const time = Date.UTC(2026, 9, 7);
    gaps.request({ time, decidedAt: time } as unknown as LoggedRequest);
    const since = (...calendars: Calendar[]) => {
      return /its month at (\S+)/.exec(gaps.describe("month", calendars).join())?.[1];
    };
    const [early, late] = [15, 3].map((day) => [{ day, fromMs: 0 }] as const);
    assert.equal(since(), "2026-10-01");
    assert.equal(since(late as Calendar), "2026-10-01");
    assert.equal(since(late as Calendar, early as Calendar), "2026-09-15");
    assert.deepEqual(gaps.describe("day"), [], "it begins with its day");
  });
});
