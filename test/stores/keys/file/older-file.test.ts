import assert from "node:assert/strict";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { takeLock } from "../../../../src/stores/files/file-lock.ts";
import { openFileKeyStore } from "../../../../src/stores/keys/file/file-key-store.ts";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { openFolder } from "../../../cli/kit.ts";
import { eventually } from "../../../support/poll.ts";
import { add, record } from "../record.ts";

const REVOKED_MS = Date.UTC(2026, 0, 2);
const EMPTY = '{"version":2,"keys":[],"accounts":[]}';

/** A store that follows its file as a gateway does, what it told, and a writer beside it. */
async function openGateway() {
  const folder = await openFolder();
  const path = join(folder.path, "keys.json");
  const told: { readonly event: string; readonly why: string; readonly file: unknown }[] = [];
  const report = (_level: string, event: string, details: object = {}) => {
    const { why = "", file } = details as { readonly why?: string; readonly file?: unknown };
    told.push({ event, why, file });
  };
  const store = await openFileKeyStore({ path, report, watch: true });
  const command = await openFileKeyStore({ path, report: () => {}, watch: false });
  return {
    ...{ path, told, store, command },
    events: () => told.map(({ event }) => event),
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

async function change(store: KeyStore, id: string, more: object): Promise<void> {
  await store.change((before) => {
    const keys = before.keys.map((key) => (key.id === id ? { ...key, ...more } : key));
    return { records: { ...before, keys }, result: undefined };
  });
}

describe("An older file of keys that is put in place under a gateway", () => {
  it("revives no key: its revocation and expiry hold, are told, and are written again", async () => {
    await using gateway = await openGateway();
    const { path, store, command, told } = gateway;
    const [revoked, ended, other] = [record("k_1"), record("k_2"), record("k_3")];
    await add(command, revoked, ended, other);
    await copyFile(path, `${path}.bak`);
    await change(command, "k_1", { revokedMs: REVOKED_MS });
    await change(command, "k_2", { expiresMs: REVOKED_MS });
    await eventually(() => assert.equal(store.find(ended.digest)?.expiresMs, REVOKED_MS));
    assert.deepEqual([told, store.health(), store.troubles().older], [[], { ok: true }, 0]);

    await copyFile(`${path}.bak`, path);
    await eventually(async () => assert.match(await readFile(path, "utf8"), /"revoked":"2026/));
    const events = ["keys_ended", "keys_older", "keys_set_aside"];
    await eventually(() => assert.deepEqual(gateway.events().toSorted(), events));
    assert.equal(store.find(revoked.digest)?.revokedMs, REVOKED_MS);
    assert.match(told[0]?.why ?? "", /^The keys file has older key records than it had/);
    assert.equal(store.troubles().older, 1);
    await command.refresh();
    assert.deepEqual(
      command.records().keys.map(({ revokedMs, expiresMs }) => [revokedMs, expiresMs]),
      [
        [REVOKED_MS, undefined],
        [undefined, REVOKED_MS],
        [undefined, undefined],
      ],
    );
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
  });

  it("fails the check while the gateway may not write its revocations", async () => {
    await using gateway = await openGateway();
    const { path, store, command, told } = gateway;
    await add(command, record("k_1"));
    await copyFile(path, `${path}.bak`);
    await change(command, "k_1", { revokedMs: REVOKED_MS });
    await eventually(() => assert.equal(store.records().keys[0]?.revokedMs, REVOKED_MS));
    // A directory in the place of the temporary file: refused even for root.
    await mkdir(`${path}.tmp`);
    await copyFile(`${path}.bak`, path);
    const isTold = ({ why }: (typeof told)[number]) => /hold here, and cannot be written/.test(why);
    await eventually(() => assert.ok(told.some(isTold), JSON.stringify(told)));
    assert.match(store.health().lost ?? "", /^The keys file lacks revocations/);
    assert.equal(store.records().keys[0]?.revokedMs, REVOKED_MS);
  });

  it("without records that were known fails the check until the line that it says is followed", async () => {
    await using gateway = await openGateway();
    const { path, store, command, told } = gateway;
    const [one, two] = [record("k_1"), record("k_2")];
    await add(command, one, two);
    await copyFile(path, `${path}.bak`);
    await change(command, "k_1", { revokedMs: REVOKED_MS });
    await eventually(() => assert.equal(store.find(one.digest)?.revokedMs, REVOKED_MS));

    await writeFile(path, EMPTY);
    await eventually(() => assert.equal(store.troubles().lost, 4));
    assert.equal(store.find(two.digest), undefined);
    const line = `2 keys and 2 accounts are gone from the keys file, and no command deleted them. This brings them back: tollgate keys import ${path}.lost`;
    assert.deepEqual(store.health(), { ok: false, why: line, lost: line });
    assert.deepEqual(
      [told[0]?.event, told[0]?.why, told[0]?.file],
      ["keys_lost", line, `${path}.lost`],
    );
    await eventually(async () => {
      const kept = JSON.parse(await readFile(`${path}.lost`, "utf8"));
      assert.deepEqual([kept.keys.length, kept.accounts.length], [2, 2]);
    });

    await copyFile(`${path}.bak`, path);
    await eventually(() => assert.equal(store.troubles().lost, 0));
    assert.ok(gateway.events().includes("keys_found"));
    assert.ok(store.find(two.digest));
    assert.equal(store.find(one.digest)?.revokedMs, REVOKED_MS, "it was revoked before the loss");
  });

  it("is told of a key whose account went first, when the key itself is gone", async () => {
    await using gateway = await openGateway();
    const { path, store, command } = gateway;
    await add(command, record("k_1"), record("k_2"));
    await eventually(() => assert.equal(store.records().keys.length, 2));
    const whole = JSON.parse(await readFile(path, "utf8"));
    const accounts = whole.accounts.slice(1);
    await writeFile(path, JSON.stringify({ ...whole, accounts }));
    await eventually(() =>
      assert.deepEqual([store.troubles().lost, store.troubles().damaged], [1, 1]),
    );
    await writeFile(path, JSON.stringify({ ...whole, accounts, keys: whole.keys.slice(1) }));
    await eventually(() => assert.equal(store.troubles().lost, 2));
  });

  it("revives no key whose account was away in between", async () => {
    await using gateway = await openGateway();
    const { path, store, command } = gateway;
    const revoked = record("k_1");
    await add(command, revoked, record("k_2"));
    const whole = JSON.parse(await readFile(path, "utf8"));
    await change(command, "k_1", { revokedMs: REVOKED_MS });
    await eventually(() => assert.equal(store.find(revoked.digest)?.revokedMs, REVOKED_MS));
    const accounts = whole.accounts.filter(({ id }: { readonly id: string }) => id === "k_2");
    await writeFile(path, JSON.stringify({ ...whole, accounts }));
    await eventually(() => assert.equal(store.troubles().damaged, 1));
    await writeFile(path, JSON.stringify(whole));
    await eventually(() => assert.equal(store.troubles().lost, 0));
    assert.equal(store.find(revoked.digest)?.revokedMs, REVOKED_MS);
  });

  it("does not keep a gateway from ending that waits for the lock to write its revocations", async () => {
    await using gateway = await openGateway();
    const { path, store, command, told } = gateway;
    await add(command, record("k_1"));
    await copyFile(path, `${path}.bak`);
    await change(command, "k_1", { revokedMs: REVOKED_MS });
    await eventually(() => assert.equal(store.records().keys[0]?.revokedMs, REVOKED_MS));
    const lock = await takeLock(path, 0);
    await copyFile(`${path}.bak`, path);
    await eventually(() => assert.ok(gateway.events().includes("keys_older")));
    const isTold = ({ why }: (typeof told)[number]) => /locked for 1000 ms/.test(why);
    await eventually(() => assert.ok(told.some(isTold), JSON.stringify(told)));
    lock?.release();
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
  });
});
