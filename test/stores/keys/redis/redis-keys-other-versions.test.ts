import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { describe, it } from "vitest";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { encodeKey } from "../../../../src/stores/keys/records/record-format.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import { add, record } from "../record.ts";
import { HASH, redisKeysOfFile } from "./redis-keys-kit.ts";

const { server, redis, told, open, openAt, close, copyFile } = await redisKeysOfFile();

async function isUnreadyWithinTwoSeconds(store: KeyStore): Promise<void> {
  const startMs = performance.now();
  const { stalledMs } = await watchStalls(() => eventually(() => !store.health().ok));
  const tookMs = performance.now() - startMs;
  assert.ok(tookMs < 2_000 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
}

describe("Keys in Redis that somebody else changed", () => {
  it("are not made by a message on the channel, nor written because of one", async () => {
    const store = await open();
    const [first, forged] = [record("k_1"), record("k_forged", { account: "k_1" })];
    await add(store, first);
    const version = (await redis.hget(HASH, ":version")) ?? "";
    const changed = [encodeKey(forged)];
    for (const message of [
      JSON.stringify({ from: version, to: "99.x", gone: [], changed }),
      JSON.stringify({ from: version, to: "99.x", gone: ["k_1"], changed: [] }),
      "99.x",
      "{",
    ]) {
      await redis.publish("tg:keys", message);
    }
    await pause(1_500);
    assert.equal(store.find(forged.digest), undefined);
    assert.deepEqual(store.find(first.digest), first);
    assert.equal(await redis.hget(HASH, ":version"), version);
    assert.equal(await redis.hget(HASH, "k_forged"), null);
  });

  it("that were revoked stay so when an older state of Redis comes back, which is written there", async () => {
    const store = await open();
    const [first, later] = [record("k_1"), record("k_2", { expiresMs: 9e12 })];
    await add(store, first, later);
    const backup = await redis.dumpBuffer(HASH);
    const writer = await open(undefined, false);
    const ended = [
      { ...first, revokedMs: 5 },
      { ...later, expiresMs: 8e12 },
    ];
    await writer.change((before) => ({ records: { ...before, keys: ended }, result: 0 }));
    await close(writer);
    await eventually(() => assert.equal(store.find(first.digest)?.revokedMs, 5));
    await redis.restore(HASH, 0, backup as unknown as string, "REPLACE");
    await eventually(async () => {
      const fresh = await open(undefined, false);
      assert.deepEqual(fresh.find(first.digest), ended[0]);
      assert.deepEqual(fresh.find(later.digest), ended[1]);
      await close(fresh);
    });
    assert.deepEqual(store.find(first.digest), ended[0]);
    await eventually(() => {
      assert.match(told.join("\n"), /Redis had forgotten that keys were revoked or expire/);
    });
  });

  it("that a copy on disk knows to be revoked end at the gateways that had read an older state", async () => {
    const file = copyFile();
    const knowing = await open(file);
    const first = record("k_1");
    await add(knowing, first);
    const backup = await redis.dumpBuffer(HASH);
    const revoked = { ...first, revokedMs: 5 };
    await knowing.change((before) => ({ records: { ...before, keys: [revoked] }, result: 0 }));
    await close(knowing);
    await redis.restore(HASH, 0, backup as unknown as string, "REPLACE");
    const other = await open();
    assert.deepEqual(other.find(first.digest), first);
    await open(file);
    await eventually(() => assert.deepEqual(other.find(first.digest), revoked));
  });

  it("are not brought back by a gateway that saw less: a revocation made meanwhile holds", async () => {
    const store = await open();
    const first = record("k_1");
    await add(store, first);
    const late = record("k_2");
    await add(store, late);
    // A failover to a replica that had not seen k_2, and a revocation on it by somebody else.
    await redis.hdel(HASH, "k_2", "@k_2");
    await redis.hset(HASH, ":version", "1.other", ":changes", "[]");
    const writer = await open(undefined, false);
    const revoked = { ...first, revokedMs: 5 };
    await writer.change((before) => ({ records: { ...before, keys: [revoked] }, result: 0 }));
    await eventually(() => assert.deepEqual(store.find(first.digest), revoked));
    await eventually(() => assert.equal(store.find(late.digest), undefined));
    assert.equal(await redis.hget(HASH, "k_2"), null);
    assert.match((await redis.hget(HASH, "k_1")) ?? "", /"revoked":"1970/);
  });

  it("that were deleted stay deleted, whoever remembers them; it is told, and kept aside", async () => {
    const file = copyFile();
    const store = await open(file);
    const first = record("k_1");
    await add(store, first);
    await redis.del(HASH);
    await eventually(() => assert.equal(store.find(first.digest), undefined));
    await eventually(() => {
      assert.match(
        told.join("\n"),
        /error: 1 key and 1 account are gone from Redis.* tollgate keys import .*\.lost/,
      );
    });
    await pause(1_200);
    assert.equal(await redis.exists(HASH), 0);
    await eventually(async () => assert.match(await readFile(`${file}.lost`, "utf8"), /"k_1"/));
  });

  it("of which one was deleted by hand lose that one alone", async () => {
    const store = await open();
    const [first, other] = [record("k_1"), record("k_2")];
    await add(store, first, other);
    await redis.hdel(HASH, "k_1");
    await eventually(() => assert.equal(store.find(first.digest), undefined));
    assert.deepEqual(store.find(other.digest), other);
  });

  it("that can no longer be read are told and unready within two seconds, without a byte of them", async () => {
    const store = await open();
    const first = record("k_1", { name: "Smuggle" });
    await add(store, first);
    // At once: keys that are read between the two are gone, which is another trouble.
    await redis.multi().rename(HASH, "aside").set(HASH, "not a hash").exec();
    await isUnreadyWithinTwoSeconds(store);
    assert.match(store.health().why ?? "", /WRONGTYPE/);
    assert.doesNotMatch(`${store.health().why} ${told}`, /Smuggle|k_1/);
    assert.deepEqual(store.find(first.digest), first);
    await redis.rename("aside", HASH);
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    assert.deepEqual(
      told.map((line) => line.slice(0, 5)),
      ["error", "info:"],
    );
  });

  it("that may no longer be read by this user are told and unready within two seconds", async () => {
    await redis.call("ACL", "SETUSER", "gate", "on", ">pw", "~*", "&*", "+@all");
    const url = server.url.replace("redis://", "redis://gate:pw@");
    const address = { ...server.address, url } as typeof server.address;
    const store = await openAt(address, true);
    await add(store, record("k_1"));
    await redis.call("ACL", "SETUSER", "gate", "-hget");
    await isUnreadyWithinTwoSeconds(store);
    assert.match(store.health().why ?? "", /the user lacks a permission/);
    assert.equal(told.length, 1, told.join("\n"));
    assert.match(told[0] ?? "", /^error: .* lacks a permission.* The keys read before stay in use/);
    await redis.call("ACL", "SETUSER", "gate", "+hget");
    await eventually(() => assert.equal(store.health().ok, true));
  });

  it("of the version before accounts were records are read, and written anew by the next change", async () => {
    const digest = (letter: string) => letter.repeat(64);
    const old = (id: string, more: object) =>
      JSON.stringify({
        ...{ id, name: "", environment: "production", account: "acme", scopes: ["beta"] },
        ...{ plan: "free", limits: {}, created: "2026-01-01T00:00:00.000Z", ...more },
      });
    await redis.hset(HASH, {
      ":version": "7.x",
      k_1: old("k_1", { digest: digest("a"), plan: "old", revoked: "2026-02-01T00:00:00.000Z" }),
      k_2: old("k_2", { digest: digest("b"), limits: { minute: 5 } }),
    });
    const store = await open();
    const account = store.account("acme");
    assert.deepEqual([account?.plan, account?.limits], ["free", [{ window: "minute", limit: 5 }]]);
    assert.equal(store.find(digest("a"))?.revokedMs, Date.UTC(2026, 1, 1));
    await add(store, record("k_3"));
    assert.match((await redis.hget(HASH, "@acme")) ?? "", /"version":2,"id":"acme"/);
    assert.match((await redis.hget(HASH, "k_1")) ?? "", /"version":2,"id":"k_1"/);
    const fresh = await open(undefined, false);
    assert.deepEqual(fresh.account("acme"), account);
    assert.equal(fresh.records().keys.length, 3);
  });
});
