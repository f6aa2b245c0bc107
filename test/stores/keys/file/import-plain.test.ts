import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { KeyContext } from "../../../../src/core/keys/edit-rules.ts";
import { importNow } from "../../../../src/stores/keys/file/import-records.ts";

const RING: KeyContext = {
  keyPrefix: "pets",
  environments: [{ name: "production", keyTag: "live" }],
  plans: new Map([["free", [{ window: "day", limit: 9 }]]]),
  random: () => 0,
  nowMs: 5_000,
};
const OURS = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
const FOREIGN = `sk_${"c".repeat(22)}`;

/** The mistake in a line, with these members in place of those of a good one. */
function mistakeOf(members: object, plain = true): string | undefined {
  const line = { key: OURS, account: "shop", plan: "free", environment: "production", ...members };
  const foreignKeys = [{ prefix: "sk_", min: 22 }];
  const lines = [{ at: "1", value: plain ? line : members }];
  const done = importNow({ accounts: [], keys: [] }, lines, { plain, foreignKeys, context: RING });
  if (done.ok) return undefined;
  assert.ok(done.reason === "refused");
  return done.message;
}

describe("an import of keys that stand where no key belongs", () => {
  it("keeps no key as the account or the name of itself or another", () => {
    assert.equal(mistakeOf({}), undefined);
    for (const held of [OURS, FOREIGN]) {
      for (const member of ["account", "name"]) {
        assert.equal(mistakeOf({ [member]: held }), `1: ${member} holds a whole key`, member);
      }
    }
  });

  it("repeats no key that stands as the plan or the environment", () => {
    for (const held of [OURS, FOREIGN]) {
      for (const member of ["plan", "environment"]) {
        const told = mistakeOf({ [member]: held });
        assert.match(told ?? "", /is unknown/);
        assert.doesNotMatch(told ?? "", /Smuggle|cccc/, member);
      }
    }
  });

  it("repeats no key that stands as the name of a limit in a record", () => {
    const record = { record: "account", version: 2, id: "a", environment: "production" };
    const rest = { plan: "free", limits: { [OURS]: 1 }, created: "2026-11-24T00:00:00Z" };
    const told = mistakeOf({ ...record, ...rest }, false);
    assert.match(told ?? "", /^1: limits\..* cannot be used/);
    assert.doesNotMatch(told ?? "", /Smuggle/);
  });
});
