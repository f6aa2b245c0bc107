import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { suspendAccount, updateAccounts } from "../../../src/core/keys/edit-accounts.ts";
import { issueKeys, rotateKey, updateKey } from "../../../src/core/keys/edit-keys.ts";
import type { KeyContext } from "../../../src/core/keys/edit-rules.ts";
import { findById, replaceById, setIndex } from "../../../src/core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../src/core/keys/records.ts";

const COUNT = 1_000;
const NOW = Date.UTC(2026, 6, 1);
const context: KeyContext = {
  keyPrefix: "pets",
  environments: [{ name: "production", keyTag: "live" }],
  plans: new Map([["free", []]]),
  random: (max) => Math.floor(Math.random() * max),
  nowMs: NOW,
};

/** Records that count how often one of them is asked for its id, with an index or without. */
function counted(isIndexed: boolean): { records: Records; looks: () => number } {
  let looks = 0;
  const counting = <T extends object>(id: string, members: T): T & { readonly id: string } => {
    return Object.defineProperty(members as T & { id: string }, "id", {
      enumerable: true,
      get: () => {
        looks += 1;
        return id;
      },
    });
  };
  const terms = { environment: "production", createdMs: NOW };
  const keys: KeyRecord[] = [];
  const accounts: AccountRecord[] = [];
  for (let i = 0; i < COUNT; i++) {
    const own = { digest: `${i}`, account: `a_${i}`, name: "", scopes: [], from: [] };
    keys.push(counting(`k_${i}`, { ...terms, ...own }));
    accounts.push(counting(`a_${i}`, { ...terms, plan: "free", limits: [], meta: {} }));
  }
  if (isIndexed) {
    setIndex(keys, new Map(keys.map((key) => [key.id, key])));
    setIndex(accounts, new Map(accounts.map((account) => [account.id, account])));
  }
  looks = 0;
  return { records: { keys, accounts }, looks: () => looks };
}

const EDITS: Record<string, (records: Records) => { readonly ok: boolean }> = {
  "a key on an account of its own": (records) =>
    issueKeys(records, { environment: "production", plan: "free" }, context),
  "a key on an account that is there": (records) => issueKeys(records, { account: "a_7" }, context),
  "twenty keys": (records) =>
    issueKeys(records, { environment: "production", plan: "free", count: 20 }, context),
  "a rotation": (records) => rotateKey(records, "k_999", { ...context, graceMs: 5 }),
  "a change of a key": (records) => updateKey(records, "k_999", { name: "x" }, NOW),
  "a change of an account": (records) =>
    updateAccounts(records, ["a_999", "k_3"], { meta: { tenant: "4" } }, context),
  "a suspension": (records) => suspendAccount(records, "a_999", {}, NOW),
};

describe("of indexed records", () => {
  for (const [name, edit] of Object.entries(EDITS)) {
    it(`${name} looks at few, where it looked at many without the index`, () => {
      const [indexed, plain] = [counted(true), counted(false)];
      assert.equal(edit(indexed.records).ok, true);
      assert.equal(edit(plain.records).ok, true);
      assert.ok(indexed.looks() < COUNT / 10, `${indexed.looks()} looks`);
      assert.ok(plain.looks() > indexed.looks());
    });
  }

  it("one is found by its id, and none that is not there", () => {
    for (const isIndexed of [true, false]) {
      const { records } = counted(isIndexed);
      assert.equal(findById(records.keys, "k_5"), records.keys[5]);
      assert.equal(findById(records.keys, "a_5"), undefined);
    }
  });

  it("those that are replaced keep their places, and unknown ones are left out", () => {
    for (const isIndexed of [true, false]) {
      const { keys } = counted(isIndexed).records;
      const fresh = { ...(keys[5] as KeyRecord), name: "new" };
      const stranger = { ...fresh, id: "k_stranger" };
      const after = replaceById(keys, [fresh, stranger]);
      assert.equal(after.length, COUNT);
      assert.deepEqual(
        after.flatMap((key, i) => (key === keys[i] ? [] : [i])),
        [5],
      );
      assert.equal(after[5], fresh);
    }
  });
});
