import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { makeKey } from "../../src/core/keys/key.ts";
import { eventually } from "../support/poll.ts";
import { openClient } from "../support/wire/client.ts";
import type { RawResponse } from "../support/wire/response.ts";
import { lawHolds, openAttacked } from "./attacked.ts";

/** Well-formed keys, from dice that are loaded: each its own. */
const [unknown, revoked, expired, elsewhere, planless] = [1, 2, 3, 4, 5].map((n) => {
  return makeKey("pets", "live", (max) => n % max);
}) as [string, string, string, string, string];

const house = await openAttacked({
  keys: {
    [revoked]: { id: "revoked", revokedMs: 1 },
    [expired]: { id: "expired", expiresMs: Date.now() - 1 },
    [elsewhere]: { id: "elsewhere", environment: "staging" },
  },
});
afterAll(() => house[Symbol.asyncDispose]());

const BAD: Readonly<Record<string, string>> = {
  unknown,
  revoked,
  expired,
  "of another environment": elsewhere,
  "of another tag": makeKey("pets", "test", () => 1),
  "of another prefix": makeKey("cats", "live", () => 1),
  "with a wrong checksum": `${planless.slice(0, -1)}${planless.endsWith("a") ? "b" : "a"}`,
  "too short": planless.slice(0, -1),
  malformed: "a b c",
};

/**
 * Leaves out the parts that differ between any two answers: the id, and the allowance that goes
 * down.
 */
function constant({ status, reason, fields, body }: RawResponse): string {
  const same = fields.filter(([name]) => !["X-Request-Id", "Date"].includes(name));
  const shown = same.map(([name, value]) => {
    return /^(?:X-RateLimit-(?:Remaining|Reset)|RateLimit)$/.test(name)
      ? name
      : `${name}: ${value}`;
  });
  return [status, reason, ...shown, body.toString("hex")].join("\n");
}

test("every bad key gets the same answer, byte for byte but for the id", async () => {
  await using client = await openClient(house.port);
  const first = constant(await client.ask({ key: unknown }));
  assert.match(first, /WWW-Authenticate: Bearer realm="tollgate", error="invalid_token"/);
  for (const [name, key] of Object.entries(BAD)) {
    assert.equal(constant(await client.ask({ key })), first, name);
  }
});

test("the log alone knows which it was", async () => {
  await eventually(() => assert.equal(house.lines.length, 1 + Object.keys(BAD).length));
  const why = new Set(house.lines.map((entry) => entry.why));
  assert.ok(why.size >= 6, [...why].join());
  assert.ok(house.lines.every(({ code, charged }) => code === "key_invalid" && charged === 0));
});

test("the law holds after all of it", () => lawHolds(house));
