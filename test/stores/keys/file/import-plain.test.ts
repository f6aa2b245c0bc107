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
  return mistakeIn([plain ? line : members], plain);
}

function mistakeIn(values: readonly object[], plain: boolean): string | undefined {
  const foreignKeys = [{ prefix: "sk_", min: 22 }];
  const lines = values.map((value, i) => ({ at: `${i + 1}`, value }));
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

describe("an import of what no other way takes", () => {
  const created = "2026-11-24T00:00:00Z";
  const common = { version: 2, environment: "production", created };
  const account = { record: "account", ...common, id: "shop", plan: "free", limits: {} };
  const key = { record: "key", ...common, id: "k_1", digest: "a".repeat(64), account: "shop" };
  const good = { ...key, name: "", scopes: [], from: [] };
  const ofAccount = (more: object) => mistakeIn([{ ...account, ...more }], false);
  const ofKey = (more: object) => mistakeIn([account, { ...good, ...more }], false);
  const many = (count: number) => Array.from({ length: count }, (_, i) => `n${i}`);
  const metaOf = (count: number) => Object.fromEntries(many(count).map((name) => [name, "v"]));

  it("refuses a key that is too long to be sent, and takes the longest that is not", () => {
    const keyOf = (length: number) => `sk_${"c".repeat(length - 3)}`;
    assert.equal(mistakeOf({ key: keyOf(512) }), undefined);
    assert.match(mistakeOf({ key: keyOf(513) }) ?? "", /^1: the key cannot be sent: /);
  });

  it("refuses more scopes, networks and metadata than a record may have", () => {
    assert.deepEqual(
      [ofAccount({ meta: metaOf(16) }), ofKey({ scopes: many(20) })],
      [undefined, undefined],
    );
    assert.match(ofAccount({ meta: metaOf(17) }) ?? "", /^1: Cannot keep more than 16 names/);
    assert.match(ofKey({ scopes: many(21) }) ?? "", /^2: Cannot use the scopes .*at most 20/);
    const from = many(65).map((_, i) => `10.0.0.${i}`);
    assert.match(ofKey({ from }) ?? "", /^2: Cannot use more than 64 networks/);
  });

  it("refuses a whole key in metadata, in a name and in a reason", () => {
    for (const held of [OURS, FOREIGN]) {
      const suspended = { since: created, reason: `for ${held}` };
      assert.equal(ofAccount({ meta: { was: held } }), "1: meta holds a whole key");
      assert.equal(ofAccount({ suspended }), "1: suspended holds a whole key");
      assert.equal(ofKey({ name: `my ${held}` }), "2: name holds a whole key");
    }
  });
});
