import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { digestKey, judgeRecord, judgeShape, type KeyRecord } from "../../../src/core/keys/key.ts";
import { findKeys, revokeKey, rotateKey } from "../../../src/core/keys/keyring.ts";
import { PERIOD_MS_MAX } from "../../../src/core/keys/keyring-rules.ts";
import { DAY, first, issue, LIMITS, NOON, refusal, ring } from "./ring.ts";

describe("Rotating a key", () => {
  const graceMs = DAY;
  const { records } = issue({ account: "acme", limits: LIMITS, scopes: ["beta"], name: "ci" });
  const old = first(records);
  const rotate = (from: readonly KeyRecord[], id: string, nowMs = NOON + 1_000, more = {}) =>
    rotateKey(from, id, { ...ring(nowMs), graceMs, ...more });

  it("makes a new id and secret for the same account on the same terms", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const { key, record } = edited.issued;
    assert.equal(judgeShape(key, "pets", "live").ok, true);
    const { id, digest, createdMs, ...same } = record;
    const { id: oldId, digest: oldDigest, createdMs: _, ...before } = old;
    assert.deepEqual(same, before);
    assert.ok(id !== oldId && digest !== oldDigest && digest === digestKey(key));
    assert.equal(createdMs, NOON + 1_000);
    assert.deepEqual(edited.records, [edited.previous, record]);
  });

  it("leaves every other key as it is", () => {
    const { records: all } = issue({ account: "other", count: 2 }, records);
    const edited = rotate(all, old.id);
    assert.ok(edited.ok);
    const others = all.slice(1);
    assert.deepEqual(edited.records, [edited.previous, ...others, edited.issued.record]);
  });

  it("lets the old one work for the grace, and not at its end", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const endMs = NOON + 1_000 + graceMs;
    assert.equal(judgeRecord(edited.previous, "production", endMs - 1).ok, true);
    assert.equal(judgeRecord(edited.previous, "production", endMs).ok, false);
    const atOnce = rotate(records, old.id, NOON, { graceMs: 0 });
    assert.ok(atOnce.ok);
    assert.equal(judgeRecord(atOnce.previous, "production", NOON).ok, false);
  });

  it("carries the expiry over, and does not put off that of the old one", () => {
    const { records: expiring } = issue({ expiresInMs: graceMs / 2 });
    const edited = rotate(expiring, first(expiring).id);
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
    const revoked = revokeKey(records, old.id, NOON);
    assert.ok(revoked.ok);
    assert.match(refusal(rotate(revoked.records, old.id)), /^refused: .* as it is revoked/);
    const { records: expiring } = issue({ expiresInMs: 1_000 });
    assert.match(refusal(rotate(expiring, first(expiring).id)), /as it is expired/);
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
  });
});

describe("Revoking a key", () => {
  const { records } = issue({ account: "acme", count: 2 });
  const [one, two] = records;

  it("holds from then on, whatever a clock says, and leaves the others alone", () => {
    const edited = revokeKey(records, one?.id ?? "", NOON + 5);
    assert.ok(edited.ok);
    assert.deepEqual(edited.records, [{ ...one, revokedMs: NOON + 5 }, two]);
    assert.deepEqual(edited.revoked, edited.records[0]);
    assert.equal(judgeRecord(edited.revoked, "production", NOON).ok, false);
  });

  it("twice is fine, and keeps the first instant and the very records", () => {
    const once = revokeKey(records, one?.id ?? "", NOON);
    assert.ok(once.ok);
    const twice = revokeKey(once.records, one?.id ?? "", NOON + 9);
    assert.ok(twice.ok);
    assert.equal(twice.records, once.records);
    assert.equal(twice.revoked.revokedMs, NOON);
  });

  it("by account takes the only one that works, or the last when none does", () => {
    assert.match(refusal(revokeKey(records, "acme", NOON)), /as 2 work: name one/);
    const once = revokeKey(records, two?.id ?? "", NOON);
    assert.ok(once.ok);
    const rest = revokeKey(once.records, "acme", NOON + 1);
    assert.ok(rest.ok);
    assert.equal(rest.revoked.id, one?.id);
    const { records: three } = issue({ account: "gone", count: 3 });
    const gone = three.map((record) => ({ ...record, revokedMs: NOON }));
    const last = revokeKey(gone, "gone", NOON + 1);
    assert.ok(last.ok);
    assert.equal(last.revoked.id, three.at(-1)?.id);
  });

  it("is unknown for an unknown ID", () => {
    assert.match(refusal(revokeKey(records, "nobody", NOON)), /^unknown: /);
  });
});

describe("Finding by ID", () => {
  const { records: own } = issue();
  const { records } = issue({ account: "acme", count: 2 }, own, ring(NOON + 1));

  it("finds a key with all keys of its account", () => {
    const key = records[1];
    const found = findKeys(records, key?.id ?? "");
    assert.ok(found.ok);
    assert.deepEqual(found, {
      ok: true,
      account: "acme",
      environment: "production",
      key,
      keys: records.slice(1),
    });
  });

  it("finds an account with its keys and no key", () => {
    const found = findKeys(records, "acme");
    assert.ok(found.ok);
    assert.deepEqual([found.key, found.keys], [undefined, records.slice(1)]);
  });

  it("takes an ID that is both for the key", () => {
    const { id } = first(own);
    const found = findKeys(records, id);
    assert.ok(found.ok);
    assert.deepEqual([found.key?.id, found.account], [id, id]);
  });

  it("is unknown for anything else", () => {
    assert.equal(
      refusal(findKeys(records, "ACME")),
      'unknown: Cannot find "ACME": no key or account has this ID',
    );
  });
});
