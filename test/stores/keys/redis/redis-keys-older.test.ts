import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "vitest";
import type { KeyRecord } from "../../../../src/core/keys/records.ts";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { eventually } from "../../../support/poll.ts";
import { add, record } from "../record.ts";
import { HASH, redisKeysOfFile } from "./redis-keys-kit.ts";

const { redis, told, open, close, copyFile } = await redisKeysOfFile();

/** Puts one key in the place of the one with its id. */
async function replace(store: KeyStore, by: KeyRecord): Promise<void> {
  await store.change(({ keys, accounts }) => {
    const next = keys.map((key) => (key.id === by.id ? by : key));
    return { records: { keys: next, accounts }, result: undefined };
  });
}

/** Has the hash as it was given before. */
async function restore(backup: Record<string, string>): Promise<void> {
  await redis.multi().del(HASH).hset(HASH, backup).exec();
}

const lines = (start: string) => told.filter((line) => line.startsWith(start));
const OLDER = "error: Redis has older key records";
const FORGOTTEN = "error: Redis had forgotten";

describe("Keys of a Redis that lost records while no gateway ran", () => {
  it("are told as gone and set aside when a command writes the first ones after the loss", async () => {
    const file = copyFile();
    const first = record("k_1");
    const before = await open(file);
    await add(before, first);
    await close(before);
    await redis.flushall();
    const store = await open(file);
    assert.deepEqual(store.find(first.digest), first);

    await add(await open(undefined, false), record("k_2"));
    await eventually(() => assert.equal(store.find(first.digest), undefined));
    await eventually(async () => assert.match(await readFile(`${file}.lost`, "utf8"), /"k_1"/));
    assert.match(store.health().lost ?? "", /^1 key and 1 account are gone.*import \S+\.lost$/);
    assert.deepEqual(store.troubles().lost, 2);
    await add(store, first);
    assert.deepEqual(store.health(), { ok: true });
  });

  it("expire as they did before a backup was restored, and what it lacks is told and set aside", async () => {
    const file = copyFile();
    const [first, other] = [record("k_1"), record("k_2")];
    const before = await open(file);
    await add(before, first);
    const backup = await redis.hgetall(HASH);
    await replace(before, { ...first, expiresMs: 5_000 });
    await add(before, other);
    await close(before);

    await restore(backup);
    const store = await open(file);
    assert.equal(store.find(first.digest)?.expiresMs, 5_000);
    assert.match((await redis.hget(HASH, "k_1")) ?? "", /"expires":"1970/);
    assert.match(store.health().lost ?? "", /^1 key and 1 account are gone/);
    await eventually(async () => assert.match(await readFile(`${file}.lost`, "utf8"), /"k_2"/));
  });

  it("of a backup that lacks no record are told as older, each by name, whatever differs", async () => {
    const file = copyFile();
    const first = record("k_1", { createdMs: 1 });
    const other = record("k_2", { createdMs: 2, expiresMs: 5_000 });
    const before = await open(file);
    await add(before, first, other, record("k_3"));
    const backup = await redis.hgetall(HASH);
    await replace(before, { ...first, name: "renamed" });
    await replace(before, { ...other, expiresMs: 9_000 });
    await close(before);
    await restore(backup);
    const store = await open(file);
    assert.match(lines(OLDER).join(), /differ from before: key k_1, key k_2$/);
    assert.equal(store.troubles().older, 1);
  });

  it("keep an expiry that was put off while no gateway ran", async () => {
    const file = copyFile();
    const first = record("k_1", { expiresMs: 5_000 });
    const before = await open(file);
    await add(before, first);
    await close(before);
    await replace(await open(undefined, false), { ...first, expiresMs: 9_000 });
    const store = await open(file);
    assert.equal(store.find(first.digest)?.expiresMs, 9_000);
    assert.deepEqual([lines(OLDER), store.health()], [[], { ok: true }]);
  });
});

describe("Keys after a failover to a replica that was behind", () => {
  it("expire as they did if as many changes came since as were lost", async () => {
    const store = await open();
    const first = record("k_1");
    await add(store, first);
    const backup = await redis.hgetall(HASH);
    await replace(store, { ...first, expiresMs: 5_000 });
    await restore({ ...backup, ":version": "2.abcdefabcdef" });
    await eventually(() => assert.equal(lines(OLDER).length, 1));
    assert.equal(store.find(first.digest)?.expiresMs, 5_000);
  });

  it("expire as they did if more changes came since than were lost", async () => {
    const store = await open();
    const first = record("k_1");
    await add(store, first);
    const backup = await redis.hgetall(HASH);
    await replace(store, { ...first, expiresMs: 5_000 });
    // Another gateway has changed the replica twice before this one reads it.
    const changes = JSON.parse(backup[":changes"] ?? "") as unknown[];
    const from = backup[":version"] ?? "";
    const more = [...changes, [from, "2.aaaaaaaaaaaa", ["k_1"]], ["2.aaaaaaaaaaaa", "3.bb", []]];
    await restore({ ...backup, ":version": "3.bb", ":changes": JSON.stringify(more) });
    await eventually(() => assert.equal(lines(OLDER).length, 1));
    assert.equal(store.find(first.digest)?.expiresMs, 5_000);
  });
});

describe("Keys after a failover that lost a new key", () => {
  it("are told as older, by name, if others lost a change as well, and not if all others are as they were", async () => {
    const file = copyFile();
    const store = await open(file);
    const network = record("k_1", { createdMs: 1 });
    const cap = record("k_2", { account: "k_1", createdMs: 2 });
    const lost = record("k_3");
    await add(store, network, cap);
    const backup = await redis.hgetall(HASH);
    const lose = async () => {
      told.length = 0;
      await restore(backup);
      await eventually(() => assert.equal(lines("error: 1 key and 1 account are gone").length, 1));
    };
    await add(store, lost);
    await lose();
    assert.deepEqual([lines(OLDER), store.troubles().older], [[], 0]);

    await replace(store, { ...network, from: ["10.0.0.0/8"] });
    const limits = [{ window: "day", limit: 1 }] as const;
    await replace(store, { ...cap, caps: { limits, number: 1 } });
    await store.change(({ keys, accounts }) => {
      const suspended = { sinceMs: 1, reason: "" };
      const next = accounts.map((each) => (each.id === "k_1" ? { ...each, suspended } : each));
      return { records: { keys, accounts: next }, result: undefined };
    });
    await add(store, lost);
    await lose();
    assert.equal(store.troubles().older, 1);
    const [line = "", ...more] = lines(OLDER);
    assert.match(line, /differ from before: k_1 \(state\), key k_1 \(from\), key k_2 \(caps\)$/);
    assert.deepEqual(more, []);
    await eventually(async () =>
      assert.match(await readFile(`${file}.lost`, "utf8"), /10\.0\.0\.0/),
    );
  });
});

describe("A revocation that Redis forgot while it refuses writes", () => {
  it("fails the check until it is written there, as soon as Redis takes it", async () => {
    const store = await open();
    const first = record("k_1");
    await add(store, first);
    const backup = await redis.hgetall(HASH);
    await replace(store, { ...first, revokedMs: 5_000 });
    // No message, so that the gateway reads when the old hash is whole and Redis refuses already.
    const refusing = redis.multi().del(HASH).hset(HASH, backup);
    await refusing.call("CONFIG", "SET", "min-replicas-to-write", "1").exec();
    await eventually(() => assert.equal(lines(FORGOTTEN).length, 1));
    assert.equal(store.find(first.digest)?.revokedMs, 5_000);
    assert.match(store.health().why ?? "", /forgotten.*cannot be written/);
    await assert.rejects(add(store, record("k_2")), /min-replicas|NOREPLICAS|replicas/i);

    await redis.call("CONFIG", "SET", "min-replicas-to-write", "0");
    await eventually(async () => {
      assert.match((await redis.hget(HASH, "k_1")) ?? "", /"revoked":"1970/);
    });
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    assert.equal((await open(undefined, false)).find(first.digest)?.revokedMs, 5_000);
    assert.deepEqual(
      lines(FORGOTTEN).map((line) => line.includes("cannot be written")),
      [true, false],
    );
  });
});
