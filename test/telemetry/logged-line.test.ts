import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { isLoggedRequest, parseLoggedLine } from "../../src/telemetry/log/logged-line.ts";

const LAST_MS = 8.64e15;
const WINDOW = ["minute", 1, 60, 1_790_000_040];
const METER = { hold: 10, used: 7, charged: 7 };
/** Every member that a line of a request can have. */
const WHOLE: Readonly<Record<string, unknown>> = {
  ...{ msg: "request", time: 1_790_000_000_000, id: "r1", env: "production", account: "a_1" },
  ...{ key: "k_1", plan: "free", meta: { tenant: "42" }, method: "GET", route: "/v1/pets" },
  ...{ path: "/v1/pets", status: 200, code: "rate_limited", source: "backend" },
  ...{ decision: "admitted", charged: 1, forwards: 1, durationMs: 2.5, client: "127.0.0.1" },
  ...{
    upstream: "http://127.0.0.1:1",
    backend: "/v1",
    traceId: "0af7",
    decidedAt: 1_790_000_000_000,
  },
  ...{ cost: 1, strikes: 0, config: "0123", meters: { tokens: METER }, observed: ["day"] },
  ...{ windows: [WINDOW], holds: { tokens: 10 }, monthFrom: 1_788_000_000, by: "memory" },
  ...{ ban: 1_790_000_100, why: "text" },
};
const NEEDED = ["time", "id", "method", "path", "status", "source", "decision", "charged"];
const ALWAYS = [...NEEDED, "forwards", "durationMs", "client"];

const isTaken = (change: object) => {
  return parseLoggedLine(JSON.stringify({ ...WHOLE, ...change })) !== undefined;
};

describe("the line of a request", () => {
  it("is taken with all of its members, and with those alone that are always there", () => {
    const whole = parseLoggedLine(JSON.stringify(WHOLE));
    assert.ok(whole !== undefined && isLoggedRequest(whole));
    assert.deepEqual(whole, WHOLE);
    const least = Object.fromEntries(ALWAYS.map((name) => [name, WHOLE[name]]));
    assert.ok(parseLoggedLine(JSON.stringify({ msg: "request", ...least })));
  });

  it("is taken with the first and the last instant of a calendar", () => {
    for (const ms of [LAST_MS, -LAST_MS]) {
      const seconds = ms / 1_000;
      const instants = {
        time: ms,
        decidedAt: ms,
        monthFrom: seconds,
        ban: seconds,
        until: seconds,
      };
      assert.ok(isTaken({ ...instants, windows: [["minute", 1, 60, seconds]] }), String(ms));
    }
  });

  it.for(ALWAYS)("is damaged without %s", (name) => {
    assert.ok(!isTaken({ [name]: undefined }));
  });

  it.for(Object.keys(WHOLE).filter((name) => name !== "msg"))(
    "is damaged if %s has another type",
    (name) => {
      const strange = [null, true, {}, [], "text", 7].filter((value) => {
        const known = WHOLE[name];
        const isSame =
          typeof value === typeof known && Array.isArray(value) === Array.isArray(known);
        return value === null || !isSame;
      });
      for (const value of strange) assert.ok(!isTaken({ [name]: value }), JSON.stringify(value));
    },
  );

  it.for([
    ["an instant after the last of a calendar", { decidedAt: LAST_MS + 1_000 }],
    ["an instant before the first of a calendar", { decidedAt: -LAST_MS - 1_000 }],
    ["a time after the last of a calendar", { time: LAST_MS + 1_000 }],
    ["a time that is no whole number", { time: 1.5 }],
    ["a decision that there is not", { decision: "maybe" }],
    ["units below 0", { charged: -1 }],
    ["units that are no whole number", { cost: 0.5 }],
    ["strikes that are no whole number", { strikes: 0.5 }],
    ["metadata that is no text", { meta: { tenant: 42 } }],
    ["metadata of which one is no text", { meta: { tenant: "42", seats: 42 } }],
    ["a meter without its hold", { meters: { tokens: { used: 1 } } }],
    ["a meter that is no object", { meters: { tokens: 1 } }],
    [
      "one good meter and one whose use is text",
      { meters: { a: METER, b: { hold: 1, used: "1" } } },
    ],
    ["a charge of a meter below 0", { meters: { tokens: { hold: 1, charged: -1 } } }],
    ["holds that are text", { holds: { tokens: "10" } }],
    ["one good hold and one that is text", { holds: { tokens: 10, rows: "10" } }],
    ["an observed window that is no text", { observed: ["day", 1] }],
    ["a window of three parts", { windows: [WINDOW.slice(1)] }],
    ["a window of five parts", { windows: [[...WINDOW, 1]] }],
    ["a window that is text of four letters", { windows: ["week"] }],
    ["a window without a name", { windows: [[1, 1, 60, 1_790_000_040]] }],
    ["a window whose use is text", { windows: [["minute", "1", 60, 1_790_000_040]] }],
    ["a window whose limit is text", { windows: [["minute", 1, "60", 1_790_000_040]] }],
    ["a window that resets after the end of time", { windows: [["minute", 1, 60, LAST_MS]] }],
    ["one good window and a bad one", { windows: [WINDOW, []] }],
    ["a ban that ends after the end of time", { ban: LAST_MS }],
    ["a ban that ends before the beginning of time", { ban: -LAST_MS }],
    ["a decision without its cost", { cost: undefined }],
  ] as const)("is damaged with %s", ([, change]) => {
    assert.ok(!isTaken(change));
  });

  it("has no control character in any text, wherever it stands", () => {
    const line = {
      ...WHOLE,
      path: "/a\u001b[2J",
      meta: { "na\u001bme": "x\u0007" },
      observed: ["\u200e"],
    };
    assert.deepEqual(parseLoggedLine(JSON.stringify(line)), {
      ...{ ...WHOLE, path: "/a\\u001b[2J", meta: { "na\\u001bme": "x\\u0007" } },
      observed: ["\\u200e"],
    });
  });
});

it.for(["\u0000", "\b", "\t", "\n", "\f", "\r", "\u007f", "\u009b", "\u00ad", "\u2028", "\u2029"])(
  "no line has %j in its text as it was written",
  (character) => {
    for (const line of [WHOLE, { msg: "event" }]) {
      const told = parseLoggedLine(JSON.stringify({ ...line, why: `a${character}b` }));
      assert.ok(told !== undefined && !String(told.why).includes(character), String(told?.why));
    }
  },
);

it("another line is taken with any members, if its time is an instant or absent", () => {
  const parse = (line: object) => parseLoggedLine(JSON.stringify(line));
  for (const line of [{ msg: "draining" }, { msg: "event", time: -1, kind: 7 }]) {
    assert.deepEqual(parse(line), line);
  }
  for (const line of [
    { msg: "event", time: "1" },
    { msg: "event", time: LAST_MS * 2 },
    { msg: 1 },
  ]) {
    assert.equal(parse(line), undefined);
  }
  for (const text of ["", "{", "null", "[]", '"request"']) {
    assert.equal(parseLoggedLine(text), undefined, text);
  }
});
