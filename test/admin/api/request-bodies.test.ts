import assert from "node:assert/strict";
import { it } from "vitest";
import { refuseBody } from "../../../src/admin/api/refuse-request.ts";
import {
  parseAccountChange,
  parseBanRequest,
  parseImport,
  parseKeyChange,
  parseSuspension,
} from "../../../src/admin/api/request-bodies.ts";

it("every member of a body is part of what is asked", () => {
  const caps = [{ window: "day", limit: 5 }];
  const change = { name: "web", expires: "2h", caps: { day: 5 } };
  const expiresInMs = 7_200_000;
  assert.deepEqual(parseKeyChange(change), { name: "web", expiresInMs, caps });
  assert.equal(parseKeyChange({ expires: "never" }).expiresInMs, "never");
  assert.deepEqual(parseAccountChange({ plan: "pro", limits: { day: 5 } }), {
    plan: "pro",
    limits: caps,
  });
  assert.deepEqual(parseSuspension({ for: "2h", reason: "unpaid" }), {
    forMs: 7_200_000,
    reason: "unpaid",
  });
  assert.deepEqual(parseBanRequest({ id: "a", for: "2h", reason: "scrapes" }), {
    ok: true,
    value: { id: "a", lengthMs: 7_200_000, reason: "scrapes" },
  });
});

it("an import is whole and of exported records unless told, and a body of many mistakes tells twenty", () => {
  const records = [{ record: "key" }];
  assert.deepEqual(parseImport({ records }), { records, plain: false, dryRun: false });
  const members = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`m${i}`, 1]));
  const { message } = JSON.parse(String(refuseBody(members, {})?.body));
  const named = Array.from({ length: 20 }, (_, i) => `"m${i}" is unknown (there is none to send)`);
  assert.equal(message, `Cannot use the body: ${named.join("; ")}`);
});
