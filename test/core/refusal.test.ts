import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { accept, errorBody, type RefusalCode, refuse, statusOf } from "../../src/core/refusal.ts";

/** Contract 4, code by code; what it leaves open is the gateway's own. */
const STATUSES: Readonly<Record<RefusalCode, number>> = {
  bad_request: 400,
  key_missing: 401,
  key_invalid: 401,
  scope_required: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  gone: 410,
  body_too_large: 413,
  uri_too_long: 414,
  expectation_failed: 417,
  misdirected: 421,
  rate_limited: 429,
  key_banned: 429,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  upstream_unreachable: 502,
  upstream_invalid: 502,
  store_unavailable: 503,
  plan_missing: 503,
  draining: 503,
  too_many_tunnels: 503,
  upstream_timeout: 504,
  http_version: 505,
  loop_detected: 508,
};

describe("A refusal (contract 4)", () => {
  for (const [code, status] of Object.entries(STATUSES) as [RefusalCode, number][]) {
    it(`${code} is answered with ${status}, in the Error shape of spec 2 and nothing else`, () => {
      assert.equal(statusOf(code), status);
      const { message, ...rest } = JSON.parse(errorBody(code)) as Record<string, unknown>;
      assert.deepEqual(rest, { code, status });
      assert.match(String(message), /^[A-Z][^\n]{15,}[^.]$/);
    });
  }

  it("has a reason for the log only where one was given", () => {
    assert.deepEqual(refuse("gone"), { ok: false, refusal: { code: "gone" } });
    assert.deepEqual(refuse("gone", "too late"), {
      ok: false,
      refusal: { code: "gone", why: "too late" },
    });
    assert.deepEqual(accept(7), { ok: true, value: 7 });
  });
});
