import assert from "node:assert/strict";
import { it } from "vitest";
import {
  parseAccountChange,
  parseBanRequest,
  parseKeyChange,
  parseSuspension,
} from "../../../src/admin/api/request-bodies.ts";

it("every member of a body is part of what is asked", () => {
  const caps = [{ window: "day", limit: 5 }];
  const change = { name: "web", expires: "2h", caps: { day: 5 } };
  const expiresInMs = 7_200_000;
  assert.deepEqual(parseKeyChange(change), { ok: true, value: { name: "web", expiresInMs, caps } });
  const endless = parseKeyChange({ expires: "never" });
  assert.equal(endless.ok && endless.value.expiresInMs, "never");
  assert.deepEqual(parseAccountChange({ plan: "pro", limits: { day: 5 } }), {
    ok: true,
    value: { plan: "pro", limits: caps },
  });
  assert.deepEqual(parseSuspension({ for: "2h", reason: "unpaid" }), {
    ok: true,
    value: { forMs: 7_200_000, reason: "unpaid" },
  });
  assert.deepEqual(parseBanRequest({ id: "a", for: "2h", reason: "scrapes" }), {
    ok: true,
    value: { id: "a", lengthMs: 7_200_000, reason: "scrapes" },
  });
});
