import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Lifecycle } from "../../../src/core/http/lifecycle.ts";
import { ownFieldsOf } from "./answered.ts";

const SINCE = Date.UTC(2025, 11, 5);
const SUNSET = Date.UTC(2030, 11, 5, 23, 59, 59);
const WHOLE: Lifecycle = {
  deprecated: true,
  deprecatedMs: SINCE,
  sunsetMs: SUNSET,
  successor: "/v1/pets?status=available",
  stability: "beta",
};
const DEPRECATION = ["Deprecation", "@1764892800"];
const SUNSET_FIELD = ["Sunset", "Thu, 05 Dec 2030 23:59:59 GMT"];
const LINK = ["Link", '</v1/pets?status=available>; rel="successor-version"'];

describe("The fields of an operation's life", () => {
  const cases: readonly (readonly [string, Lifecycle, readonly string[]])[] = [
    ["are none for an operation of no age", { deprecated: false }, []],
    ["are none for a deprecated one without dates and successor", { deprecated: true }, []],
    [
      "are all four, in the formats of RFC 9745, 8594 and 5829",
      WHOLE,
      [...DEPRECATION, ...SUNSET_FIELD, ...LINK, "X-API-Stability", "beta"],
    ],
    [
      "are the stability alone where the operation is not deprecated, whatever dates it has",
      { ...WHOLE, deprecated: false, stability: "experimental" },
      ["X-API-Stability", "experimental"],
    ],
    [
      "leave out a missing date of deprecation",
      { deprecated: true, sunsetMs: SUNSET },
      SUNSET_FIELD,
    ],
    ["leave out a missing sunset", { deprecated: true, deprecatedMs: SINCE }, DEPRECATION],
    ["name the successor alone", { deprecated: true, successor: WHOLE.successor ?? "" }, LINK],
    [
      "tell a date within a second by that second",
      { deprecated: true, deprecatedMs: SINCE + 999 },
      DEPRECATION,
    ],
  ];
  for (const [claim, lifecycle, fields] of cases) {
    it(claim, () => assert.deepEqual(ownFieldsOf({ lifecycle }).slice(2), fields));
  }
});
