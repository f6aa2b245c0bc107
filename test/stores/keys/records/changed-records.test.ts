import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { KeyRecord, Records } from "../../../../src/core/keys/records.ts";
import { exportLines } from "../../../../src/stores/keys/file/export-records.ts";
import { importNow, prepareImport } from "../../../../src/stores/keys/file/import-records.ts";
import { checkEdit } from "../../../../src/stores/keys/records/check-edit.ts";
import { accountFor, record, withAccounts } from "../record.ts";

const [first, second, third] = [record("k_1"), record("k_2"), record("k_3")] as const;
const before = withAccounts(first, second);

async function isRefused(after: Records): Promise<boolean> {
  const find = (digest: string) => before.keys.find((key) => key.digest === digest);
  try {
    await checkEdit({ records: before, damaged: [] }, after, { find });
    return false;
  } catch (error) {
    assert.match(String(error), /an id or a digest comes twice, or an account is missing/);
    return true;
  }
}

const keys = (...all: KeyRecord[]): Records => ({ ...before, keys: all });

describe("records that an edit has made", () => {
  it("are kept where each is new or takes the place of its own", async () => {
    assert.equal(await isRefused(withAccounts(first, second, third)), false);
    assert.equal(await isRefused(keys({ ...first, revokedMs: 5 }, second)), false);
    assert.equal(await isRefused(keys({ ...first, digest: third.digest }, second)), false);
    assert.equal(await isRefused(keys(second)), false, "gone");
    assert.equal(await isRefused(keys({ ...first, id: "k_9" }, second)), false, "renamed");
    assert.equal(await isRefused(withAccounts(second)), false, "its account as well");
  });

  it("are refused where an id comes twice", async () => {
    assert.equal(
      await isRefused(keys(first, second, { ...third, id: "k_1", account: "k_1" })),
      true,
    );
    const twins = [third, { ...third, digest: "d" }];
    assert.equal(await isRefused(withAccounts(first, second, ...twins)), true);
    const accounts = [...before.accounts, accountFor(first)];
    assert.equal(await isRefused({ ...before, accounts }), true);
  });

  it("are refused where a digest comes twice", async () => {
    assert.equal(await isRefused(keys(first, second, { ...first, id: "k_9" })), true);
    assert.equal(await isRefused(keys({ ...first, digest: second.digest }, second)), true);
    const twins = [third, { ...third, id: "k_4", account: "k_3" }];
    const accounts = [...before.accounts, accountFor(third)];
    assert.equal(await isRefused({ keys: [first, second, ...twins], accounts }), true);
  });

  it("are refused where their account is not there", async () => {
    assert.equal(await isRefused(keys(first, second, third)), true);
    assert.equal(await isRefused({ ...before, accounts: before.accounts.slice(1) }), true);
  });
});

const context = {
  keyPrefix: "pets",
  environments: [{ name: "production", keyTag: "live" }],
  plans: new Map([["free", []]]),
  random: () => 0,
  nowMs: 5,
};
const options = { plain: false, foreignKeys: [], context };

const linesOf = (records: Records) => {
  return [...exportLines(records)].map((line, index) => {
    return { at: `${index}`, value: JSON.parse(line) };
  });
};

it("an import that was prepared is judged anew where the records have changed since", async () => {
  const edit = await prepareImport(before, linesOf(withAccounts(third)), options);
  const idsAfter = (records: Records) => {
    const edited = edit(records);
    assert.ok(edited.ok);
    return edited.records.keys.map(({ id }) => id);
  };
  assert.deepEqual(idsAfter(before), ["k_1", "k_2", "k_3"]);
  assert.deepEqual(idsAfter(withAccounts(second)), ["k_2", "k_3"]);
});

it("an import refuses another key of a known id by its line, that of an older account too", () => {
  const imported = importNow(before, linesOf(withAccounts({ ...first, digest: third.digest })), {
    ...options,
  });
  assert.ok(!imported.ok);
  assert.equal(imported.message, "1: another key or account has the ID k_1");
});
