import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "vitest";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import { openTcpProxy, type TcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { add, record, withAccounts } from "../record.ts";
import { HASH, redisKeysOfFile } from "./redis-keys-kit.ts";

const { server, redis, told, open, openAt, close, copyFile } = await redisKeysOfFile();

/** A command's store behind a proxy. */
function openThrough({ host, port }: TcpProxy): Promise<KeyStore> {
  const url = `redis://${host}:${port}`;
  return openAt({ kind: "redis", url, shown: url });
}

describe("Keys in Redis", () => {
  it("are found without a command, the unknown ones too", async () => {
    const store = await open(undefined, false);
    await add(store, record("k_1"));
    const before = Number(/total_commands_processed:(\d+)/.exec(await redis.info("stats"))?.[1]);
    for (let i = 0; i < 10_000; i++) store.find(i.toString(16).padStart(64, "0"));
    const after = Number(/total_commands_processed:(\d+)/.exec(await redis.info("stats"))?.[1]);
    assert.ok(after - before <= 3, `${after - before} commands`);
  });

  it("are not ready where Redis is away and there is no copy, and are once it is there", async () => {
    await add(await open(undefined, false), record("k_1"));
    const data = await redis.hgetall(HASH);
    await server.kill();
    const store = await open(copyFile());
    assert.deepEqual([store.ready, store.health().ok, store.records().keys], [false, false, []]);
    await server.restart();
    await eventually(() => redis.hset(HASH, data));
    await eventually(
      () => assert.deepEqual([store.ready, store.records().keys.length], [true, 1]),
      {
        withinMs: 60_000,
      },
    );
  });

  it("are known from the copy on disk where Redis is away at the start", async () => {
    const file = copyFile();
    const first = record("k_1");
    const store = await open(file);
    await add(store, first);
    await close(store);
    await server.kill();
    const later = await open(file);
    assert.deepEqual([later.ready, later.find(first.digest)], [true, first]);
    await assert.rejects(add(later, record("k_2")), /Redis cannot be reached/);
    await assert.rejects(
      open(undefined, false),
      /Cannot read the keys in redis:.*cannot be reached/,
    );
  });

  it("do not start from a damaged copy where Redis has none: it is named and left as it was", async () => {
    const file = copyFile();
    await add(await open(file), record("k_1"));
    await eventually(async () => assert.match(await readFile(file, "utf8"), /"k_1"/));
    await redis.flushall();
    const damaged = `{"version":1,"keys":[\n{"id"\n`;
    const later = copyFile();
    await mkdir(dirname(later));
    await writeFile(later, damaged);
    const isNamed = /state\.json:3:1: Cannot read this as JSON/;
    await assert.rejects(open(later), isNamed);
    await server.stop();
    await assert.rejects(open(later), isNamed);
    assert.deepEqual(await readdir(dirname(later)), ["state.json"]);
    assert.equal(await readFile(later, "utf8"), damaged);
  });

  it("are those in Redis where the copy on disk is damaged, which is told and kept", async () => {
    const file = copyFile();
    const store = await open(file);
    const first = record("k_1");
    await add(store, first);
    await close(store);
    for (const damaged of [`{"version":1,"keys":[\n{"id"\n`, `{"version":1,"keys":[{}]}`]) {
      told.length = 0;
      await writeFile(file, damaged);
      const again = await open(file);
      assert.deepEqual([again.find(first.digest), again.health().ok], [first, true]);
      assert.match(
        told.join("\n"),
        /^error: .*state\.json:\d+:\d+: Cannot .*The gateway goes on without/s,
      );
      await close(again);
      assert.match(await readFile(file, "utf8"), /"k_1"/);
      const kept = (await readdir(dirname(file))).filter((name) => name.includes(".damaged."));
      const texts = await Promise.all(
        kept.map((name) => readFile(join(dirname(file), name), "utf8")),
      );
      assert.ok(texts.includes(damaged));
    }
  });

  it("are copied to disk as soon as that can be written, with trouble told once", async () => {
    const file = copyFile();
    const store = await open(file);
    await add(store, record("k_1"));
    await eventually(async () => assert.match(await readFile(file, "utf8"), /"k_1"/));
    await mkdir(`${file}.tmp`);
    const about = () => told.filter((line) => line.includes("copy"));
    await add(store, record("k_2"));
    await eventually(() => assert.equal(about().length, 1));
    await add(store, record("k_3"));
    await rm(`${file}.tmp`, { recursive: true });
    await eventually(async () => {
      await add(store, record(`k_${performance.now()}`));
      assert.equal(about().length, 2);
    });
    assert.match(about()[0] ?? "", /^error: Cannot write the copy of the keys to /);
    assert.equal(about()[1], "info: keys_copy_written");
    await close(store);
    assert.match(await readFile(file, "utf8"), /"k_3"/);
  });

  it("are changed once, and said to be, when the answer to the change was lost", async () => {
    await using proxy = await openTcpProxy(server);
    const store = await openThrough(proxy);
    await add(store, record("k_0"));
    let edits = 0;
    const done = store.change((records) => {
      edits += 1;
      proxy.behave({ swallowReplies: true });
      return { records: withAccounts(...records.keys, record("k_1")), result: "done" };
    });
    await eventually(async () => assert.equal(await redis.hlen(HASH), 6));
    proxy.behave({});
    proxy.reset();
    assert.deepEqual([await done, edits, store.records().keys.length], ["done", 1, 2]);
  });

  it("are not said to be changed when the change did not arrive", async () => {
    await using proxy = await openTcpProxy(server);
    const store = await openThrough(proxy);
    const failed = store.change((records) => {
      proxy.reset();
      return { records: withAccounts(...records.keys, record("k_1")), result: "done" };
    });
    await assert.rejects(failed, /Redis/);
    assert.equal(await redis.hlen(HASH), 0);
  });

  it("stay in use when a record in Redis is damaged, told once, until it is whole", async () => {
    const store = await open();
    const [first, other] = [record("k_1"), record("k_2")];
    await add(store, first, other);
    const good = (await redis.hget(HASH, "k_1")) ?? "";
    await redis.hset(HASH, "k_1", `{"oops":"${first.digest}"`, ":version", "7.x");
    await eventually(() => assert.equal(store.health().ok, false));
    assert.deepEqual(store.find(first.digest), first);
    assert.equal(store.health().why, "1 key records in Redis are damaged: the log names them");
    // As a line of an export has it.
    await redis.hset(HASH, "k_1", good.replace("{", '{"record":"key",'), ":version", "8.x");
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    assert.deepEqual(store.find(first.digest), first);
    assert.deepEqual(
      told.map((line) => line.slice(0, 5)),
      ["error", "info:"],
    );
  });

  it("can be changed beside a damaged one, which stays as it was found", async () => {
    const store = await open();
    const [first, other] = [record("k_1"), record("k_2")];
    await add(store, first, other);
    await redis.hset(HASH, "k_1", "{oops", ":version", "7.x");
    const writer = await open(undefined, false);
    assert.match(writer.damage().join(), /Cannot use k_1 in the hash tg:\{0\}:keys: /);
    const revoked = { ...other, revokedMs: 5 };
    await writer.change((before) => {
      assert.deepEqual(before.keys, [other]);
      return { records: { ...before, keys: [revoked] }, result: 0 };
    });
    await eventually(() => assert.deepEqual(store.find(other.digest), revoked));
    assert.deepEqual(store.find(first.digest), first);
    assert.equal(await redis.hget(HASH, "k_1"), "{oops");
  });

  it("of a field whose name is not the record's id are damaged, and named", async () => {
    await add(await open(), record("k_1"));
    const text = (await redis.hget(HASH, "k_1")) ?? "";
    await redis.hset(
      HASH,
      "k_2",
      text.replace(/"digest":"\w{4}/, '"digest":"0000'),
      ":version",
      "7.x",
    );
    const writer = await open(undefined, false);
    assert.match(
      writer.damage().join(),
      /Cannot use k_2\.id in the hash .*: it must be the name of the field that holds it/,
    );
    assert.deepEqual(
      writer.records().keys.map(({ id }) => id),
      ["k_1"],
    );
  });

  it("of a copy on disk stay in use, and the gateway says so, when Redis is there but empty", async () => {
    const file = copyFile();
    const first = record("k_1");
    const store = await open(file);
    await add(store, first);
    await close(store);
    await redis.flushall();
    const later = await open(file);
    assert.deepEqual([later.find(first.digest), later.health().ok], [first, false]);
    assert.match(told[0] ?? "", /^error: Redis has no key records, the last copy on disk has some/);
    assert.equal(await redis.hlen(HASH), 0);
  });

  it("reach a gateway by the poll whose subscription was cut", async () => {
    const store = await open();
    const writer = await open(undefined, false);
    await redis.call("CLIENT", "KILL", "ID", await onlySubscriber());
    const fresh = record("k_1");
    await add(writer, fresh);
    const doneMs = performance.now();
    const { stalledMs } = await watchStalls(() => {
      return eventually(() => store.find(fresh.digest) !== undefined);
    });
    // A second by the poll; twice that where the machine is busy.
    const tookMs = performance.now() - doneMs;
    assert.ok(tookMs < 2_000 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
  });

  it("are listened to anew once two changes came that no message told", async () => {
    const store = await open();
    await add(await open(undefined, false), record("k_1"));
    await eventually(() => assert.equal(store.records().keys.length, 1));
    const before = await onlySubscriber();
    let version = 7;
    // A message of the first key that is read late has the change that came before it told.
    await eventually(async () => {
      const reads = await server.calls("hscan");
      await redis.hset(HASH, ":version", `${version}.x`);
      version += 1;
      await eventually(async () => assert.ok((await server.calls("hscan")) > reads));
      assert.notEqual(await onlySubscriber(), before);
    });
  });

  it("reach other gateways by message, without reading all of them again", async () => {
    const store = await open();
    const writer = await open(undefined, false);
    await add(writer, record("k_1"));
    await eventually(() => assert.equal(store.records().keys.length, 1));
    const before = await server.calls("hscan");
    for (let i = 2; i < 8; i++) {
      await add(writer, record(`k_${i}`));
      await eventually(() => assert.equal(store.records().keys.length, i));
    }
    assert.ok((await server.calls("hscan")) - before <= 1);
  });
});

/** The connection that listens, once there is one: a store is open before. */
function onlySubscriber(): Promise<string> {
  return eventually(async () => {
    const [id = "", ...others] = await subscribers();
    assert.deepEqual([id !== "", others], [true, []]);
    return id;
  });
}

/** The connections that listen. */
async function subscribers(): Promise<string[]> {
  const list = String(await redis.call("CLIENT", "LIST", "TYPE", "pubsub"));
  return [...list.matchAll(/^id=(\d+)/gm)].map(([, id]) => `${id}`);
}
