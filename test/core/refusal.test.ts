import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  accept,
  closesAfter,
  errorBody,
  isDecision,
  isUpstreamFault,
  type RefusalCode,
  refusalFieldNames,
  refuse,
  statusOf,
} from "../../src/core/refusal.ts";
import { REFUSALS } from "../../src/core/refusal-table.ts";

/** Written down a second time: clients rely on each code having the status that it has. */
const STATUSES: Readonly<Record<RefusalCode, number>> = {
  bad_request: 400,
  key_missing: 401,
  key_invalid: 401,
  account_suspended: 403,
  address_refused: 403,
  cost_over_limit: 403,
  meter_missing: 403,
  scope_required: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  gone: 410,
  brownout: 410,
  body_too_large: 413,
  uri_too_long: 414,
  expectation_failed: 417,
  misdirected: 421,
  rate_limited: 429,
  meter_held: 429,
  key_banned: 429,
  too_concurrent: 429,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  upstream_unreachable: 502,
  upstream_invalid: 502,
  store_unavailable: 503,
  plan_missing: 503,
  maintenance: 503,
  draining: 503,
  too_many_tunnels: 503,
  upstream_timeout: 504,
  http_version: 505,
  loop_detected: 508,
};

describe("A refusal", () => {
  for (const [code, status] of Object.entries(STATUSES) as [RefusalCode, number][]) {
    it(`${code} is answered with ${status}, with code, message and status and nothing else`, () => {
      assert.equal(statusOf(code), status);
      const { message, ...rest } = JSON.parse(errorBody({ code }, "plain")) as Record<
        string,
        unknown
      >;
      assert.deepEqual(rest, { code, status });
      assert.match(String(message), /^[A-Z][^\n]{15,}[^.]$/);
    });
  }

  it("ends the connection where the framing is not to be believed, and for no other code", () => {
    const closing = Object.keys(REFUSALS).filter((code) => closesAfter(code as RefusalCode));
    assert.deepEqual(closing, [
      "bad_request",
      "request_timeout",
      "body_too_large",
      "uri_too_long",
      "expectation_failed",
      "headers_too_large",
      "internal_error",
      "not_implemented",
      "draining",
      "http_version",
    ]);
  });

  it("stands in place of the store's decision in four rows, and blames the upstream in three", () => {
    const codes = Object.keys(REFUSALS) as RefusalCode[];
    assert.deepEqual(codes.filter(isDecision), [
      "account_suspended",
      "cost_over_limit",
      "meter_missing",
      "too_concurrent",
    ]);
    assert.deepEqual(codes.filter(isUpstreamFault), [
      "upstream_unreachable",
      "upstream_invalid",
      "upstream_timeout",
    ]);
  });

  it("challenges with every 401, and tells every client of a 429 when to come back", () => {
    for (const [code, { status }] of Object.entries(REFUSALS)) {
      const fields = refusalFieldNames(code as RefusalCode);
      const challenges = status === 401 || code === "scope_required";
      assert.equal(fields.includes("WWW-Authenticate"), challenges, code);
      if (status === 429) assert.ok(fields.includes("Retry-After"), code);
    }
  });

  it("has a reason for the log only where one was given", () => {
    assert.deepEqual(refuse("gone"), { ok: false, refusal: { code: "gone" } });
    assert.deepEqual(refuse("gone", "too late"), {
      ok: false,
      refusal: { code: "gone", why: "too late" },
    });
    const message = "The day limit, 5 units, is used up";
    assert.deepEqual(refuse("gone", undefined, { message }), {
      ok: false,
      refusal: { code: "gone", message },
    });
    assert.deepEqual(JSON.parse(errorBody({ code: "gone", message }, "plain")), {
      ...{ code: "gone", message, status: 410 },
    });
    assert.deepEqual(accept(7), { ok: true, value: 7 });
  });
});
