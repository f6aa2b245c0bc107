import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  isCap,
  isMeter,
  latestEnd,
  WINDOW_NAMES,
  type WindowName,
  windowEnd,
  windowStart,
} from "../../../src/core/quota/windows.ts";

const iso = (atMs: number) => new Date(atMs).toISOString();

const EDGES: readonly (readonly [WindowName, at: string, start: string, end: string])[] = [
  ["second", "2026-07-15T12:30:10.999Z", "2026-07-15T12:30:10.000Z", "2026-07-15T12:30:11.000Z"],
  ["second", "2026-07-15T12:30:11.000Z", "2026-07-15T12:30:11.000Z", "2026-07-15T12:30:12.000Z"],
  ["minute", "2026-07-15T12:30:59.999Z", "2026-07-15T12:30:00.000Z", "2026-07-15T12:31:00.000Z"],
  ["minute", "2026-07-15T12:31:00.000Z", "2026-07-15T12:31:00.000Z", "2026-07-15T12:32:00.000Z"],
  ["hour", "2026-07-15T12:59:59.999Z", "2026-07-15T12:00:00.000Z", "2026-07-15T13:00:00.000Z"],
  ["day", "2026-07-15T23:59:59.999Z", "2026-07-15T00:00:00.000Z", "2026-07-16T00:00:00.000Z"],
  ["day", "2026-07-16T00:00:00.000Z", "2026-07-16T00:00:00.000Z", "2026-07-17T00:00:00.000Z"],
  ["week", "2026-11-22T23:59:59.999Z", "2026-11-16T00:00:00.000Z", "2026-11-23T00:00:00.000Z"],
  ["week", "2026-11-23T00:00:00.000Z", "2026-11-23T00:00:00.000Z", "2026-11-30T00:00:00.000Z"],
  ["week", "2027-01-01T00:00:00.000Z", "2026-12-28T00:00:00.000Z", "2027-01-04T00:00:00.000Z"],

  ["year", "2028-12-31T23:59:59.999Z", "2028-01-01T00:00:00.000Z", "2029-01-01T00:00:00.000Z"],
  ["year", "2029-01-01T00:00:00.000Z", "2029-01-01T00:00:00.000Z", "2030-01-01T00:00:00.000Z"],
  ["year", "2027-06-15T12:00:00.000Z", "2027-01-01T00:00:00.000Z", "2028-01-01T00:00:00.000Z"],
  ["month", "2026-12-31T23:59:59.999Z", "2026-12-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"],
  ["month", "2028-02-29T12:00:00.000Z", "2028-02-01T00:00:00.000Z", "2028-03-01T00:00:00.000Z"],
  ["month", "2027-02-28T12:00:00.000Z", "2027-02-01T00:00:00.000Z", "2027-03-01T00:00:00.000Z"],
  ["week", "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "1970-01-05T00:00:00.000Z"],
  ["week", "1970-01-04T23:59:59.999Z", "1970-01-01T00:00:00.000Z", "1970-01-05T00:00:00.000Z"],
  ["week", "1970-01-05T00:00:00.000Z", "1970-01-05T00:00:00.000Z", "1970-01-12T00:00:00.000Z"],
  ["minute", "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:00.000Z", "1970-01-01T00:00:00.000Z"],
  ["minute", "1969-12-31T23:59:00.000Z", "1969-12-31T23:59:00.000Z", "1970-01-01T00:00:00.000Z"],
];

describe("A window, aligned to UTC,", () => {
  for (const [window, at, start, end] of EDGES) {
    it(`of a ${window} that holds ${at} is ${start} to ${end}`, () => {
      const startMs = windowStart(window, Date.parse(at));
      assert.deepEqual([iso(startMs), iso(windowEnd(window, startMs))], [start, end]);
    });
  }

  it("holds its instant, and the next begins where it ends, at any instant", () => {
    const instant = fc.integer({ min: 0, max: Date.UTC(2100, 0) });
    fc.assert(
      fc.property(fc.constantFrom(...WINDOW_NAMES), instant, (window, atMs) => {
        const startMs = windowStart(window, atMs);
        const endMs = windowEnd(window, startMs);
        assert.ok(startMs <= atMs && atMs < endMs);
        assert.equal(windowStart(window, startMs), startMs);
        assert.equal(windowStart(window, endMs - 1), startMs);
        assert.equal(windowStart(window, endMs), endMs);
      }),
    );
  });
});

describe("The latest end of a window", () => {
  it("is its end, and for a month of any anchor no earlier than that month ends", () => {
    for (const window of ["second", "minute", "hour", "day", "week", "year"] as const) {
      const startMs = windowStart(window, Date.UTC(2026, 1, 5, 6, 7));
      assert.equal(latestEnd(window, startMs), windowEnd(window, startMs), window);
    }
    const latestMs = Math.max(
      ...Array.from({ length: 31 * 24 }, (_, at) => {
        const calendar = [{ day: 1 + (at % 31), fromMs: 0 }];
        const startMs = windowStart("month", Date.UTC(2026, Math.floor(at / 31), 15), calendar);
        const endMs = windowEnd("month", startMs, calendar);
        assert.ok(latestEnd("month", startMs) >= endMs, new Date(startMs).toISOString());
        return endMs - startMs;
      }),
    );
    assert.equal(latestEnd("month", 0), latestMs, "no later than needed");
  });
});

it("a limit is told by its part to be of a plan, an operation, a key or a meter", () => {
  const kindsOf = (id: string | undefined) => {
    const limit = id === undefined ? {} : { part: { id, name: "any" } };
    return [isCap(limit), isMeter(limit)];
  };
  assert.deepEqual(kindsOf(undefined), [false, false]);
  assert.deepEqual(kindsOf("1z141z3"), [false, false]);
  assert.deepEqual(kindsOf("@17"), [true, false]);
  assert.deepEqual(kindsOf("#tokens"), [false, true]);
});
