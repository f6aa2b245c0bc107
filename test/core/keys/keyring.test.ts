import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { revokeKeys, rotateKey, updateKey } from "../../../src/core/keys/edit-keys.ts";
import { PERIOD_MS_MAX } from "../../../src/core/keys/edit-rules.ts";
import { findAccount, findKeys } from "../../../src/core/keys/find-records.ts";
import { checkKeyFormat, digestKey } from "../../../src/core/keys/key.ts";
import { checkKeyRecord, type Records } from "../../../src/core/keys/records.ts";
import { DAY, first, issue, LIMITS, NOON, refusal, ring } from "./ring.ts";

describe("Rotating a key", () => {
  const graceMs = DAY;
  const from = ["192.0.2.0/24"];
  const { records } = issue({
    account: "acme",
    limits: LIMITS,
    scopes: ["beta"],
    name: "ci",
    from,
  });
  const old = first(records.keys);
  const rotate = (from: Records, id: string, nowMs = NOON + 1_000, more = {}) =>
    rotateKey(from, id, { ...ring(nowMs), graceMs, ...more });

  it("makes a new id and secret for the same account on the same terms", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const { key, record } = edited.issued;
    assert.equal(checkKeyFormat(key, "pets", "live").ok, true);
    const { id, digest, createdMs, ...same } = record;
    const { id: oldId, digest: oldDigest, createdMs: _, ...before } = old;
    assert.deepEqual(same, before);
    assert.ok(id !== oldId && digest !== oldDigest && digest === digestKey(key));
    assert.equal(createdMs, NOON + 1_000);
    assert.deepEqual(edited.records.keys, [edited.previous, record]);
    assert.equal(edited.records.accounts, records.accounts);
  });

  it("leaves every other key as it is", () => {
    const { records: all } = issue({ account: "other", count: 2 }, records);
    const edited = rotate(all, old.id);
    assert.ok(edited.ok);
    const others = all.keys.slice(1);
    assert.deepEqual(edited.records.keys, [edited.previous, ...others, edited.issued.record]);
  });

  it("lets the old one work for the grace, and not at its end", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const endMs = NOON + 1_000 + graceMs;
    assert.equal(checkKeyRecord(edited.previous, "production", endMs - 1).ok, true);
    assert.equal(checkKeyRecord(edited.previous, "production", endMs).ok, false);
    const atOnce = rotate(records, old.id, NOON, { graceMs: 0 });
    assert.ok(atOnce.ok);
    assert.equal(checkKeyRecord(atOnce.previous, "production", NOON).ok, false);
  });

  it("carries the expiry over, and does not put off that of the old one", () => {
    const { records: expiring } = issue({ expiresInMs: graceMs / 2 });
    const edited = rotate(expiring, first(expiring.keys).id);
    assert.ok(edited.ok);
    assert.equal(edited.issued.record.expiresMs, NOON + graceMs / 2);
    assert.equal(edited.previous.expiresMs, NOON + graceMs / 2);
  });

  it("is refused for a key that was rotated: its successor is named, and can be", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const successor = edited.issued.record.id;
    assert.match(refusal(rotate(edited.records, old.id)), new RegExp(`rotate ${successor}$`));
    const again = rotate(edited.records, successor, NOON + 2_000);
    assert.ok(again.ok);
    assert.equal("expiresMs" in again.issued.record, false);
    assert.equal("replacedBy" in again.issued.record, false);
  });

  it("is refused for one that is revoked or expired, and for an environment that is gone", () => {
    const revoked = revokeKeys(records, old.id, NOON);
    assert.ok(revoked.ok);
    assert.match(refusal(rotate(revoked.records, old.id)), /^refused: .* as it is revoked/);
    const { records: expiring } = issue({ expiresInMs: 1_000 });
    assert.match(refusal(rotate(expiring, first(expiring.keys).id)), /as it is expired/);
    const gone = rotate(records, old.id, NOON, { environments: [] });
    assert.match(refusal(gone), /"production" is no longer configured/);
  });

  it("is unknown for an unknown ID, and wrong usage with a wrong grace", () => {
    assert.match(refusal(rotate(records, "nobody")), /^unknown: Cannot find "nobody"/);
    for (const wrong of [-1, Number.NaN, PERIOD_MS_MAX + 1]) {
      assert.match(refusal(rotate(records, old.id, NOON, { graceMs: wrong })), /^usage: .*grace/);
    }
    assert.ok(rotate(records, old.id, NOON, { graceMs: PERIOD_MS_MAX }).ok);
  });

  it("takes an account for its only working key, and asks which when there are several", () => {
    const edited = rotate(records, "acme");
    assert.ok(edited.ok);
    assert.equal(edited.previous.id, old.id);
    const told = refusal(rotate(edited.records, "acme"));
    assert.match(told, /^refused: .* as 2 work: name one of k_\w+, k_\w+$/);
    const eleven = issue({ account: "acme", count: 11 }).records;
    assert.match(refusal(rotate(eleven, "acme")), /as 11 work: name one of k_\w+(?:, k_\w+){9}$/);
    const none = { ...records, keys: [] };
    assert.match(refusal(rotate(none, "acme")), /^refused: .*it has none/);
  });
});

describe("Revoking", () => {
  const { records } = issue({ account: "acme", count: 2 });
  const [one, two] = records.keys;
  const revoke = (from: Records, id: string, nowMs = NOON) => {
    const edited = revokeKeys(from, id, nowMs);
    assert.ok(edited.ok, edited.ok ? "" : edited.message);
    return edited;
  };

  it("a key holds from then on, whatever a clock says, and leaves the others alone", () => {
    const edited = revoke(records, one?.id ?? "", NOON + 5);
    const revoked = { ...one, revokedMs: NOON + 5 };
    assert.deepEqual(
      [edited.records.keys, edited.revoked, edited.one],
      [[revoked, two], [revoked], true],
    );
    assert.equal(checkKeyRecord(first(edited.revoked), "production", NOON).ok, false);
  });

  it("an account takes every key of it that works, and no other", () => {
    const { records: all } = issue({ account: "other" }, records, ring(NOON + 1));
    const edited = revoke(all, "acme", NOON + 9);
    assert.deepEqual(
      edited.revoked.map(({ id, revokedMs }) => [id, revokedMs]),
      [one, two].map((key) => [key?.id, NOON + 9]),
    );
    assert.equal(edited.one, false);
    assert.equal(edited.records.keys[2], all.keys[2]);
  });

  it("an account after a rotation takes the key that lives, not the dead one", () => {
    const { records: single } = issue();
    const old = first(single.keys);
    const rotated = rotateKey(single, old.id, { ...ring(NOON), graceMs: 0 });
    assert.ok(rotated.ok);
    const edited = revoke(rotated.records, old.account, NOON + 1);
    assert.deepEqual(
      edited.revoked.map(({ id }) => id),
      [rotated.issued.record.id],
    );
  });

  it("a key that no longer works is refused, with those of its account that still do", () => {
    const once = revoke(records, one?.id ?? "");
    assert.equal(
      refusal(revokeKeys(once.records, one?.id ?? "", NOON + 1)),
      `refused: Key ${one?.id} is revoked already. Of its account acme these still work: ${two?.id}`,
    );
    const { records: more } = issue({ account: "acme" }, once.records);
    assert.ok(
      refusal(revokeKeys(more, one?.id ?? "", NOON + 1)).endsWith(
        `still work: ${two?.id}, ${more.keys[2]?.id}`,
      ),
    );
    const { records: expiring } = issue({ expiresInMs: 1 });
    const told = refusal(revokeKeys(expiring, first(expiring.keys).id, NOON + 1));
    assert.match(told, /^refused: .* expired already, and no key of its account works$/);
  });

  it("twice is fine where nothing else works, and keeps the first instant and the very records", () => {
    const both = revoke(records, "acme");
    const twice = revoke(both.records, one?.id ?? "", NOON + 9);
    assert.equal(twice.records, both.records);
    assert.equal(first(twice.revoked).revokedMs, NOON);
    assert.match(
      refusal(revokeKeys(both.records, "acme", NOON)),
      /^refused: No key of account acme/,
    );
  });

  it("is unknown for an unknown ID, and never repeats a key", () => {
    assert.match(refusal(revokeKeys(records, "nobody", NOON)), /^unknown: /);
    const key = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
    assert.doesNotMatch(refusal(revokeKeys(records, key, NOON)), /Smuggle/);
  });
});

describe("Changing a key in place", () => {
  const { records } = issue({ scopes: ["beta", "read"], from: ["192.0.2.0/24"], expiresInMs: DAY });
  const { id } = first(records.keys);
  const set = (change: Parameters<typeof updateKey>[2], from = records) => {
    const edited = updateKey(from, id, change, NOON + 1);
    assert.ok(edited.ok, edited.ok ? "" : edited.message);
    return edited.changed;
  };

  it("changes only what is named", () => {
    const before = first(records.keys);
    assert.deepEqual(set({ name: "new" }), { ...before, name: "new" });
    assert.deepEqual(set({ addScopes: ["write", "beta"], dropScopes: ["read"] }), {
      ...before,
      scopes: ["beta", "write"],
    });
    assert.deepEqual(set({ from: ["::1"] }), { ...before, from: ["::1"] });
    assert.deepEqual(set({ from: [] }), { ...before, from: [] });
    assert.equal(set({ expiresInMs: 5 }).expiresMs, NOON + 6);
    assert.equal("expiresMs" in set({ expiresInMs: "never" }), false);
  });

  it("refuses what a key cannot be issued with, and a revoked key", () => {
    for (const change of [
      { name: "a\u202eb" },
      { addScopes: ["A"] },
      { dropScopes: [""] },
      { from: ["10.0.0.0/33"] },
      { expiresInMs: 0 },
    ]) {
      assert.match(refusal(updateKey(records, id, change, NOON)), /^usage: Cannot use /);
    }
    const revoked = revokeKeys(records, id, NOON);
    assert.ok(revoked.ok);
    assert.match(refusal(updateKey(revoked.records, id, { name: "x" }, NOON)), /as it is revoked/);
  });
});

describe("Finding by ID", () => {
  const { records: own } = issue();
  const { records } = issue({ account: "acme", count: 2 }, own, ring(NOON + 1));
  const acme = records.accounts.find(({ id }) => id === "acme");

  it("finds a key with all keys of its account", () => {
    const key = records.keys[1];
    const found = findKeys(records, key?.id ?? "");
    assert.deepEqual(found, { ok: true, account: acme, key, keys: records.keys.slice(1) });
  });

  it("finds an account with its keys and no key", () => {
    const found = findKeys(records, "acme");
    assert.ok(found.ok);
    assert.deepEqual([found.key, found.keys], [undefined, records.keys.slice(1)]);
  });

  it("takes an ID that is both for the key, or for the account, as it is asked", () => {
    const named = { ...first(own.keys), id: "acme" };
    const both = { ...records, keys: [...records.keys, named] };
    const found = findKeys(both, "acme");
    assert.ok(found.ok);
    assert.deepEqual([found.key, found.account.id], [named, named.account]);
    assert.equal(findAccount(both, "acme"), acme);
  });

  it("is unknown for anything else", () => {
    assert.equal(
      refusal(findKeys(records, "ACME")),
      'unknown: Cannot find "ACME": no key or account has this ID',
    );
    assert.equal(findAccount(records, "ACME"), undefined);
  });
});
