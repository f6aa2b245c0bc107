import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, onTestFinished } from "vitest";
import { openFileKeyStore } from "../../../../src/stores/keys/file/file-key-store.ts";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { accountFor, add, record } from "../record.ts";

/** A key file with two keys, in which a text is replaced, as a command reads it. */
async function damagedFile(from: string, to: string) {
  const directory = await mkdtemp(join(tmpdir(), "tollgate-over-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const path = join(directory, "keys.json");
  const open = () => openFileKeyStore({ path, report: () => {}, watch: false });
  const [first, other] = [record("k_1", { name: "first" }), record("k_2")];
  const whole = await open();
  await add(whole, first, other);
  await whole.close();
  const text = (await readFile(path, "utf8")).replace(from, to);
  await writeFile(path, text);
  const store = await open();
  onTestFinished(() => store.close());
  return { store, first, other, text: () => readFile(path, "utf8"), damaged: text };
}

async function addAccount(store: KeyStore, id: string): Promise<void> {
  await store.change(({ keys, accounts }) => {
    const account = accountFor(record(id));
    return { records: { keys, accounts: [...accounts, account] }, result: undefined };
  });
}

describe("A change of a key file with a damaged record", () => {
  it("does not put a new account in the place of the one that is damaged", async () => {
    const { store, text, damaged } = await damagedFile(
      '"id":"k_1","environment":"production","plan":"free"',
      '"id":"k_1","environment":"production","plan":7',
    );
    assert.equal(store.damage().length, 2, store.damage().join("\n"));
    await assert.rejects(addAccount(store, "k_1"), /the ID k_1: the record that has it is damaged/);
    assert.equal(await text(), damaged);
    await addAccount(store, "k_3");
    assert.match(await text(), /"plan":7/);
  });

  it("does not put a key in the place of the one that is damaged, by its ID or its digest", async () => {
    const { store, first, other, text, damaged } = await damagedFile('"name":"first"', '"name":7');
    const again = { ...first, name: "" };
    await assert.rejects(add(store, again), /the ID k_1: the record that has it is damaged/);
    await assert.rejects(add(store, { ...again, id: "k_9", account: "k_2" }), /damaged/);
    assert.equal(await text(), damaged);
    await add(store, record("k_3"));
    assert.match(await text(), /"name":7/);
    assert.deepEqual(store.find(other.digest), other);
  });

  it("joins a key whose account was gone to that account, once, unless it is another key", async () => {
    const { store, first, text } = await damagedFile(
      '"id":"k_1","environment":"production","plan":"free"',
      '"id":"k_7","environment":"production","plan":"free"',
    );
    assert.match(store.damage().join(), /there is no record of this account: k_1/);
    const stranger = { ...record("k_1"), name: "stranger" };
    await assert.rejects(add(store, stranger), /the ID k_1: the record that has it is damaged/);
    assert.equal(store.find(first.digest), undefined);
    await add(store, first);
    assert.deepEqual([store.find(first.digest), store.damage()], [first, []]);
    assert.deepEqual(
      (await text()).match(/"id":"k_1"/g)?.length,
      2,
      "the key and its account, once",
    );
  });

  it("does not give a key the cap number of a damaged one of its account, but another number", async () => {
    const limits = [{ window: "day", limit: 5 }] as const;
    const capped = (id: string, number: number, account = "k_1") =>
      record(id, { account, caps: { number, limits } });
    const { store } = await damagedFile('"name":"first"', '"name":7,"caps":{"number":0}');
    assert.equal(store.records().keys.length, 1);
    await assert.rejects(
      add(store, capped("k_3", 0)),
      /Cannot use the cap number of key k_3: the record that has it is damaged/,
    );
    await add(store, capped("k_4", 1));
    await add(store, capped("k_5", 0, "k_2"));
    assert.equal(store.records().keys.length, 3);
  });
});
