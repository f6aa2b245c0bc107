import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  type CorsPolicy,
  corsFields,
  isPreflight,
  preflightFields,
} from "../../../src/core/http/cors.ts";

const PAGE = "https://app.test";
const OURS = ["X-RateLimit-Limit", "Retry-After"];
const POLICY: CorsPolicy = {
  origins: [PAGE, "http://localhost:3000"],
  methods: ["GET", "POST"],
  headers: ["Authorization", "X-Own"],
  expose: ["X-Total"],
  credentials: false,
  maxAgeSeconds: 600,
};

function of(fields: readonly string[], name: string): string[] {
  return fields.flatMap((field, i) => (i % 2 === 0 && field === name ? [fields[i + 1] ?? ""] : []));
}

describe("the CORS fields of a response", () => {
  it("name the page's own origin and what it may read", () => {
    const fields = corsFields(POLICY, PAGE, OURS);
    assert.deepEqual(of(fields, "Access-Control-Allow-Origin"), [PAGE]);
    const exposed = [...OURS, "X-Total"].join(", ");
    assert.deepEqual(of(fields, "Access-Control-Expose-Headers"), [exposed]);
    assert.deepEqual(of(fields, "Access-Control-Allow-Credentials"), []);
  });

  it("are none for any origin that is not spelled exactly as one that is allowed", () => {
    for (const origin of [
      ...[undefined, "", "null", "https://app.test.evil.test", "https://app.test:443"],
      ...["HTTPS://APP.TEST", "https://app.test/", `${PAGE}, ${PAGE}`, "http://app.test", "*"],
    ]) {
      assert.deepEqual(corsFields(POLICY, origin, OURS), [], String(origin));
      assert.deepEqual(preflightFields(POLICY, origin), []);
    }
    fc.assert(
      fc.property(fc.string(), (origin) => {
        fc.pre(!POLICY.origins.includes(origin));
        assert.deepEqual(corsFields(POLICY, origin, OURS), []);
      }),
    );
  });

  it("are the same for any page, and without one, where any may call: a cache keeps them for pages", () => {
    const policy = { ...POLICY, origins: ["*"] };
    const fields = corsFields(policy, "https://anyone.test", OURS);
    assert.deepEqual(of(fields, "Access-Control-Allow-Origin"), ["*"]);
    assert.deepEqual(corsFields(policy, undefined, OURS), fields);
  });

  it("allow credentials where that is configured, and only to an allowed origin", () => {
    const policy = { ...POLICY, credentials: true };
    const name = "Access-Control-Allow-Credentials";
    assert.deepEqual(of(corsFields(policy, PAGE, OURS), name), ["true"]);
    assert.deepEqual(of(corsFields(policy, "https://evil.test", OURS), name), []);
  });
});

describe("a preflight", () => {
  const names = ["host", "origin", "access-control-request-method"];
  it("is OPTIONS with both fields, and nothing else is", () => {
    assert.equal(isPreflight({ method: "OPTIONS", names }), true);
    assert.equal(isPreflight({ method: "GET", names }), false);
    assert.equal(isPreflight({ method: "OPTIONS", names: names.slice(0, 2) }), false);
    assert.equal(
      isPreflight({ method: "OPTIONS", names: [names[0] ?? "", names[2] ?? ""] }),
      false,
    );
  });

  it("is told methods, fields and for how long to remember", () => {
    assert.deepEqual(preflightFields(POLICY, PAGE), [
      ...["Access-Control-Allow-Methods", "GET, POST"],
      ...["Access-Control-Allow-Headers", "Authorization, X-Own"],
      ...["Access-Control-Max-Age", "600"],
    ]);
  });
});
