import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, it, type TestContext } from "vitest";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { openRedisKeyStore } from "../../../../src/stores/keys/redis/redis-key-store.ts";
import { eventually } from "../../../support/poll.ts";
import { startRedis, type TestRedis } from "../../../support/redis/redis.ts";
import { add, record } from "../record.ts";

const HASH = "tg:{0}:keys";
/** Larger than what Redis keeps in one piece anyway, and than a small piece of ours. */
const MANY = Array.from({ length: 1_500 }, (_, i) => record(`k_${i}`));
const TWINS = new Set(["k_0", "k_300", "k_700", "k_1499"]);
let server: TestRedis;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = await server.client();
});
afterAll(() => server.close());
beforeEach(() => redis.flushall());

async function opened(t: TestContext, url = server.url): Promise<KeyStore> {
  const address = { ...server.address, url };
  const store = await openRedisKeyStore({ address, prefix: "tg", report: () => {}, watch: false });
  t.onTestFinished(() => store.close());
  return store;
}

const ids = (store: KeyStore) => store.records().keys.map(({ id }) => id);

/** As somebody does who writes a record without the log of changes. */
async function retouch(): Promise<void> {
  await redis.hset(HASH, ":version", `${Date.now()}.touched`);
}

describe("many keys in Redis", () => {
  it("are read in pieces, all of them, by a start and by whoever serves", async (t) => {
    await add(await opened(t), ...MANY);
    const store = await opened(t);
    assert.deepEqual(ids(store).toSorted(), MANY.map(({ id }) => id).toSorted());
    const scans = await server.calls("hscan");
    await retouch();
    await store.refresh();
    assert.ok((await server.calls("hscan")) - scans > 2, "small pieces");
    assert.equal(ids(store).length, MANY.length);
    assert.equal(await server.calls("hgetall"), 0);
  });

  it("are read by a user of Redis without the right to read pieces", async (t) => {
    await add(await opened(t), ...MANY);
    await redis.call("ACL", "SETUSER", "older", "on", ">secret", "~*", "&*", "+@all", "-hscan");
    const store = await opened(t, server.url.replace("//", "//older:secret@"));
    assert.equal(ids(store).length, MANY.length);
  });

  it("are those of one version, though somebody changes them while they are read", async (t) => {
    const writer = await opened(t);
    await add(writer, ...MANY);
    const store = await opened(t);
    let running = true;
    // Some keys change together: whoever reads one of them changed reads the others so.
    const seen = new Set<string>();
    const writing = (async () => {
      for (let i = 0; running; i++) {
        await writer.change(({ keys, accounts }) => {
          const changed = keys.map((key) => (TWINS.has(key.id) ? { ...key, name: `${i}` } : key));
          return { records: { keys: changed, accounts }, result: undefined };
        });
        await pause(1);
      }
    })();
    for (let i = 0; i < 1_000 && seen.size < 4; i++) {
      // The writer comes second where the version changes without a pause.
      await pause(5);
      await retouch();
      await store.refresh();
      const twins = store.records().keys.filter(({ id }) => TWINS.has(id));
      const names = new Set(twins.map(({ name }) => name));
      assert.deepEqual([twins.length, names.size], [TWINS.size, 1], [...names].join());
      seen.add([...names].join());
    }
    running = false;
    await writing;
    assert.ok(seen.size > 1, "it was changed meanwhile");
  });

  it("reach a follower by their changes alone, though more come while it reads", async (t) => {
    const [writer, follower] = [await opened(t), await opened(t)];
    await add(writer, ...MANY);
    await follower.refresh();
    const scans = await server.calls("hscan");
    for (let i = 0; i < 30; i++) {
      // A reader that a writer overtakes six times reads all: here one change comes while it reads.
      await Promise.all([follower.refresh(), add(writer, record(`k_more_${i}`))]);
    }
    await follower.refresh();
    assert.deepEqual(ids(follower).toSorted(), ids(writer).toSorted());
    assert.equal(await server.calls("hscan"), scans);
  });

  it("of a thousand issued at once reach a follower without reading the others", async (t) => {
    const [writer, follower] = [await opened(t), await opened(t)];
    await add(writer, ...MANY);
    await follower.refresh();
    const scans = await server.calls("hscan");
    const thousand = Array.from({ length: 1_000 }, (_, i) =>
      record(`k_${String(i).padStart(12)}`.replaceAll(" ", "x")),
    );
    await add(writer, ...thousand);
    await eventually(async () => {
      await follower.refresh();
      assert.equal(ids(follower).length, MANY.length + 1_000);
    });
    assert.equal(await server.calls("hscan"), scans);
  });
});
