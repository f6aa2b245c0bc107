import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { describe, it } from "vitest";
import { eventually } from "../../../support/poll.ts";
import { add, record } from "../record.ts";
import { redisKeysOfFile } from "./redis-keys-kit.ts";

const { server, redis, told, open, openAt, close, copyFile } = await redisKeysOfFile();

/** The same Redis under another address, as after `store` was changed. */
const other = { ...server.address, shown: "redis://elsewhere" };
const first = record("k_1");

/** A copy on disk, made by a gateway that had the key k_1. */
async function copied(): Promise<string> {
  const file = copyFile();
  const store = await open(file);
  await add(store, first);
  await close(store);
  return file;
}

/** Files of copies that were set aside. */
async function asides(file: string): Promise<readonly string[]> {
  const names = await readdir(dirname(file));
  return names
    .filter((name) => name.includes(".elsewhere."))
    .map((name) => `${dirname(file)}/${name}`);
}

describe("A copy of key records whose `store` was changed", () => {
  it("accepts no key at another Redis, is not told as lost, and is kept with the line that imports it", async () => {
    const file = await copied();
    await redis.flushall();
    const store = await openAt(other, true, file);
    assert.deepEqual([store.find(first.digest), store.health()], [undefined, { ok: true }]);
    await add(store, record("k_2"));
    await close(store);
    assert.match(await readFile(file, "utf8"), /"k_2"/);
    assert.doesNotMatch(await readFile(file, "utf8"), /"k_1"/);
    const [aside = "none", ...more] = await asides(file);
    assert.deepEqual(more, []);
    assert.match(await readFile(aside, "utf8"), /"k_1"/);
    assert.equal(told.length, 1);
    assert.match(told[0] ?? "", /^warn: .*of another store.*: tollgate keys import /);
    assert.ok(told[0]?.endsWith(` ${aside}`));
  });

  it("ends no key of the same id at another Redis that has records", async () => {
    const file = await copied();
    const before = await open(file);
    await before.change(({ keys, accounts }) => {
      const revoked = keys.map((key) => ({ ...key, revokedMs: 5_000 }));
      return { records: { keys: revoked, accounts }, result: undefined };
    });
    await close(before);
    await redis.flushall();
    await add(await openAt(other), first);
    const store = await openAt(other, true, file);
    assert.deepEqual([store.find(first.digest), store.health()], [first, { ok: true }]);
    await eventually(async () => assert.equal((await asides(file)).length, 1));
  });

  it("is of the same records where only the address is new: a loss is told, and none is set aside", async () => {
    const file = await copied();
    await add(await openAt(other), record("k_2"));
    await redis.hdel("tg:{0}:keys", "k_1");
    const store = await openAt(other, true, file);
    assert.match(store.health().lost ?? "", /^1 key is gone.*import \S+\.lost$/);
    await close(store);
    assert.match(await readFile(`${file}.lost`, "utf8"), /"k_1"/);
    assert.deepEqual(await asides(file), []);
  });

  it("is of the same store where only the login or TLS is new: its keys work while Redis is away", async () => {
    const file = copyFile();
    const before = await openAt({ ...server.address, shown: "redis://old:***@r:1/0" }, true, file);
    await add(before, first);
    await close(before);
    await server.kill();
    for (const shown of ["redis://new:***@r:1/0", "redis://***@r:1/0", "rediss://r:1/0"]) {
      const store = await openAt({ ...server.address, shown }, true, file);
      assert.equal(store.find(first.digest)?.id, "k_1", shown);
      await close(store);
    }
    for (const shown of ["redis://old:***@r:1/2", "redis://r:2/0", "redis+cluster://r:1"]) {
      const store = await openAt({ ...server.address, shown }, true, file);
      assert.equal(store.find(first.digest), undefined, shown);
      await close(store);
    }
  });

  it("accepts no key while the new address is unreachable, and is left as it is", async () => {
    const file = await copied();
    await server.kill();
    const store = await openAt(other, true, file);
    assert.deepEqual([store.ready, store.find(first.digest)], [false, undefined]);
    assert.equal(store.health().ok, false);
    assert.match(told.join("\n"), /^warn: .*of another store, and is not used/m);
    await close(store);
    assert.match(await readFile(file, "utf8"), /"k_1"/);
    assert.equal((await open(file)).find(first.digest)?.id, "k_1");
  });
});
