import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { rotateKey } from "../../../../src/core/keys/edit-keys.ts";
import type { KeyContext } from "../../../../src/core/keys/edit-rules.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../../src/core/keys/records.ts";
import { importNow } from "../../../../src/stores/keys/file/import-records.ts";
import { encodeAccount, encodeKey } from "../../../../src/stores/keys/records/record-format.ts";

const RING: KeyContext = {
  keyPrefix: "pets",
  environments: [
    { name: "production", keyTag: "live" },
    { name: "staging", keyTag: "test" },
  ],
  plans: new Map([["free", [{ window: "day", limit: 9 }]]]),
  random: () => 0,
  nowMs: 5_000,
};

function account(id: string, more: Partial<AccountRecord> = {}): AccountRecord {
  const terms = { environment: "production", plan: "free", limits: [], meta: {} };
  return { id, ...terms, createdMs: 1_000, ...more };
}

/** A key whose digest and id follow from a number; with a cap number it may take 5 a day. */
function key(number: number, capNumber?: number, more: Partial<KeyRecord> = {}): KeyRecord {
  const limits = [{ window: "day", limit: 5 }] as const;
  return {
    ...{ id: `k_${number}`, digest: String(number).padStart(64, "0"), name: "" },
    ...{ environment: "production", account: "acme", scopes: [], from: [], createdMs: 1_000 },
    ...(capNumber !== undefined && { caps: { number: capNumber, limits } }),
    ...more,
  };
}

const HERE: Records = { accounts: [account("acme"), account("other")], keys: [key(1, 0)] };

function imported(records: Records, lines: readonly (AccountRecord | KeyRecord)[]) {
  const values = lines.map((one) => {
    const isKey = "digest" in one;
    const text = isKey ? encodeKey(one) : encodeAccount(one);
    return { record: isKey ? "key" : "account", ...(JSON.parse(text) as object) };
  });
  const at = values.map((value, i) => ({ at: `line ${i + 1}`, value }));
  return importNow(records, at, { plain: false, foreignKeys: [], context: RING });
}

function mistakeOf(...lines: readonly (AccountRecord | KeyRecord)[]): string {
  const done = imported(HERE, lines);
  assert.ok(!done.ok && done.reason === "refused");
  return done.message;
}

/** The cap numbers by key of an import into these records. */
function numbersAfter(records: Records, lines: readonly KeyRecord[]) {
  const done = imported(records, lines);
  assert.ok(done.ok, JSON.stringify(done));
  return done.records.keys.map(({ id, caps }) => [id, caps?.number] as const);
}

describe("an import of records that clash with those here", () => {
  it("refuses to rotate a key again that was rotated elsewhere, and tells what ended sooner", () => {
    const rotated = key(1, 0, { expiresMs: 9_000, replacedBy: "k_2" });
    const done = imported(HERE, [rotated, key(2, 0)]);
    assert.ok(done.ok);
    assert.deepEqual([done.keys, done.known, done.ended], [1, 1, 1]);
    const again = rotateKey(done.records, "k_1", { ...RING, graceMs: 0 });
    assert.ok(!again.ok);
    assert.match(again.message, /as it was rotated before: rotate k_2$/);
    const without = { ...HERE, keys: [key(1, 0, { expiresMs: 9_000 })] };
    const healed = imported(without, [rotated]);
    assert.ok(healed.ok);
    assert.deepEqual([healed.records.keys[0]?.replacedBy, healed.ended], ["k_2", 0]);
    const lacking = rotateKey(healed.records, "k_1", { ...RING, graceMs: 0 });
    assert.ok(!lacking.ok);
    assert.match(lacking.message, /replaced by k_2, which is not here: issue a new key$/);
  });

  it("refuses an account that lives in another environment or is on another plan here", () => {
    const moved = account("acme", { environment: "staging" });
    assert.match(
      mistakeOf(moved),
      /^line 1: account acme lives in production here, not in staging$/,
    );
    const upgraded = account("acme", { plan: "pro" });
    assert.match(mistakeOf(upgraded), /account acme is on plan free here, not on pro/);
  });

  it("refuses a key that is one of another account here, or has no account", () => {
    const taken = key(1, undefined, { account: "other" });
    assert.match(mistakeOf(taken), /this key is one of account acme here/);
    const orphan = key(2, undefined, { account: "ghost" });
    assert.match(mistakeOf(orphan), /there is no account ghost: it comes before its keys/);
    const abroad = key(2, undefined, { environment: "staging" });
    assert.match(mistakeOf(abroad), /account acme lives in production, not in staging/);
  });

  it("refuses another key under an id that a key or an account has", () => {
    assert.match(
      mistakeOf(key(2, undefined, { id: "k_1" })),
      /another key or account has the ID k_1/,
    );
    assert.match(mistakeOf(key(2, undefined, { id: "other" })), /has the ID other/);
    const twice = [key(2), key(3, undefined, { id: "k_2" })];
    assert.match(mistakeOf(...twice), /^line 2: another key or account has the ID k_2$/);
  });

  it("refuses an account under an id that a key has, so that an id means one thing", () => {
    assert.equal(mistakeOf(account("k_1")), "line 1: k_1 is a key of account acme here");
    const both = [key(2), account("k_2"), key(3, undefined, { account: "k_2" })];
    assert.match(mistakeOf(...both), /^line 2: k_2 is a key of account acme here$/m);
  });

  it("takes the first key of an older account, which has the id of that account, twice", () => {
    const older = [account("k_9"), key(9, undefined, { account: "k_9" })];
    const first = imported(HERE, older);
    assert.ok(first.ok);
    const again = imported(first.records, older);
    assert.ok(again.ok && again.records === first.records);
  });

  it("gives caps another number where theirs is taken, the same for keys that shared one", () => {
    assert.deepEqual(numbersAfter(HERE, [key(2, 0), key(3, 0), key(4, 7)]), [
      ["k_1", 0],
      ["k_2", 1],
      ["k_3", 1],
      ["k_4", 7],
    ]);
  });

  it("never joins the counts of two keys, also where a number was just given away", () => {
    assert.deepEqual(numbersAfter(HERE, [key(2, 0), key(3, 1), key(4, 1)]), [
      ["k_1", 0],
      ["k_2", 1],
      ["k_3", 2],
      ["k_4", 2],
    ]);
  });

  it("lets the successor of a known key share the number that this one has here", () => {
    const here = { ...HERE, keys: [key(1, 4)] };
    assert.deepEqual(numbersAfter(here, [key(1, 0), key(2, 0)]), [
      ["k_1", 4],
      ["k_2", 4],
    ]);
  });

  it("refuses more keys with caps than an account may have", () => {
    const keys = Array.from({ length: 1_024 }, (_, i) => key(i, i));
    const done = imported({ ...HERE, keys }, [key(5_000, 3)]);
    assert.ok(!done.ok);
    assert.match(done.message, /too many keys of account acme have caps/);
  });

  it("changes nothing at all if one line has a mistake", () => {
    const done = imported(HERE, [account("new"), key(2), key(1, undefined, { account: "other" })]);
    assert.ok(!done.ok && !("records" in done));
  });
});
