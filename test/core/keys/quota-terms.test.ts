import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { hasOtherTerms } from "../../../src/core/keys/record-events.ts";
import type { AccountRecord, KeyRecord } from "../../../src/core/keys/records.ts";

const ACCOUNT: AccountRecord = {
  ...{ id: "acme", environment: "production", plan: "free", createdMs: 1 },
  ...{ limits: [{ window: "day", limit: 5 }], meta: {} },
};
const KEY: KeyRecord = {
  ...{ id: "k1", digest: "0a", name: "", environment: "production", account: "acme" },
  ...{ scopes: [], from: [], createdMs: 1 },
};
const CALENDAR = { anchorDay: 15 } as unknown as NonNullable<AccountRecord["calendar"]>;
const CAPS = { number: 1, limits: [{ window: "day", limit: 5 }] } as const;

describe("the windows of an account are other ones", () => {
  it.each<[string, Partial<AccountRecord>]>([
    ["its plan", { plan: "paid" }],
    ["a limit of its own", { limits: [{ window: "day", limit: 6 }] }],
    ["the window of a limit of its own", { limits: [{ window: "hour", limit: 5 }] }],
    ["its calendar", { calendar: CALENDAR }],
  ])("by %s", (_, change) => {
    assert.equal(hasOtherTerms([ACCOUNT, { ...ACCOUNT, ...change }]), true);
    assert.equal(hasOtherTerms([{ ...ACCOUNT, ...change }, ACCOUNT]), true);
  });

  it.each<[string, AccountRecord | undefined]>([
    ["a copy of its record", structuredClone(ACCOUNT)],
    ["what its backend is told", { ...ACCOUNT, meta: { tier: "gold" } }],
    ["its suspension", { ...ACCOUNT, suspended: { sinceMs: 2, reason: "unpaid" } }],
    ["its first record", undefined],
  ])("not by %s", (_, before) => {
    assert.equal(hasOtherTerms([before, ACCOUNT]), false);
  });

  it("by the caps of its keys, and by nothing else of them", () => {
    const capped = { ...KEY, caps: CAPS };
    const higher = { ...CAPS, limits: [{ window: "day", limit: 6 }] } as const;
    assert.equal(hasOtherTerms([KEY, capped]), true);
    assert.equal(hasOtherTerms([capped, { ...KEY, caps: higher }]), true);
    assert.equal(hasOtherTerms([capped, { ...capped, revokedMs: 2, replacedBy: "k2" }]), false);
    assert.equal(hasOtherTerms([undefined, capped]), false);
  });
});
