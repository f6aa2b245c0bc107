import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { findById } from "../../../../src/core/keys/record-index.ts";
import type { KeyRecord, Records } from "../../../../src/core/keys/records.ts";
import { RecordSet } from "../../../../src/stores/keys/records/record-set.ts";
import { sortByAge } from "../../../../src/stores/keys/records/sort-by-age.ts";
import { accountFor, record, withAccounts } from "../record.ts";

const COUNT = 6_000;

/** Records that count how often one of them is asked for its id or digest. */
function counted(): { readonly records: Records; readonly looks: () => number } {
  let looks = 0;
  const counting = <T extends object>(made: T, member: keyof T): T => {
    const value = made[member];
    return Object.defineProperty({ ...made }, member, {
      enumerable: true,
      get: () => {
        looks += 1;
        return value;
      },
    });
  };
  const keys = Array.from({ length: COUNT }, (_, i) => record(`k_${i}`));
  const accounts = keys.map(accountFor).map((account) => counting(account, "id"));
  const countingKeys = keys.map((key) => counting(counting(key, "id"), "digest"));
  return { records: { keys: countingKeys, accounts }, looks: () => looks };
}

const at = (records: Records, i: number) => records.keys[i] as KeyRecord;

describe("a set of many records", () => {
  it("looks at few of them for the change of one", async () => {
    const { records, looks } = counted();
    const set = new RecordSet();
    await set.replace(records);
    const before = looks();
    assert.ok(before >= COUNT);
    const changed: KeyRecord = { ...at(records, 7), name: "new" };
    const issued = record("k_issued");
    const keys = [...records.keys.with(7, changed), issued];
    await set.replace({ keys, accounts: [...records.accounts, accountFor(issued)] });
    assert.ok(looks() - before < 50, `${looks() - before} looks`);
    assert.equal(set.find(changed.digest), changed);
    assert.equal(set.find(issued.digest), issued);
    assert.deepEqual(set.account("k_issued"), accountFor(issued));
  });

  it("finds each as it is now, and none that is gone, however many changes there were", async () => {
    const set = new RecordSet();
    let records = withAccounts(...Array.from({ length: 3_000 }, (_, i) => record(`k_${i}`)));
    await set.replace(records);
    for (let round = 0; round < 5; round++) {
      const before = records;
      // A thousand get another digest, one goes, and one comes: 5,000 changes in all.
      const changed = before.keys.map((key, i) =>
        i % 3 === 0 ? record(key.id, { account: key.account }) : key,
      );
      const keys = [...changed.slice(0, -1), record(`k_new_${round}`)];
      records = { keys, accounts: [...before.accounts, accountFor(keys.at(-1) as KeyRecord)] };
      await set.replace(records);
      const kept = new Set(keys.map(({ digest }) => digest));
      for (const key of keys) {
        assert.equal(set.find(key.digest), key);
        assert.equal(findById(set.records.keys, key.id), key);
      }
      for (const old of before.keys) {
        if (!kept.has(old.digest)) assert.equal(set.find(old.digest), undefined);
      }
      const gone = at(before, before.keys.length - 1);
      assert.equal(findById(set.records.keys, gone.id), undefined);
      assert.equal(findById(before.keys, gone.id), gone, "the list before has its own");
      assert.equal(set.account(`k_new_${round}`), records.accounts.at(-1));
    }
  });
});

it("records are put in order by their age, and those of one age by their id", async () => {
  const shuffled = Array.from({ length: 9_001 }, (_, i) => {
    return record(`k_${(i * 7_919) % 9_001}`, { createdMs: ((i * 7_919) % 9_001) >> 2 });
  });
  const expected = shuffled.toSorted((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
  assert.deepEqual(await sortByAge(shuffled), expected);
  assert.deepEqual(await sortByAge([]), []);
});
