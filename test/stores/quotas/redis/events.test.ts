import assert from "node:assert/strict";
import { afterEach, describe, it } from "vitest";
import type { RedisAddress } from "../../../../src/config/schema/addresses.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { openTcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

let opened: QuotaStore[] = [];
afterEach(async () => {
  await Promise.all(opened.map((store) => store.close()));
  opened = [];
});
const { server, redis } = await useRedis();

const CHANNEL = "tg:events";
const VERSION = "tg:{0}:version";
const accountRef = account("a");

/** A store that listens, and has polled the version, and knows of the account. */
async function knowing(address: RedisAddress = server.address): Promise<QuotaStore> {
  const polls = await server.calls("get");
  const { store } = await open(address);
  opened.push(store);
  await eventually(async () => assert.equal((await redis.pubsub("NUMSUB", CHANNEL))[1], 1));
  // At the start, and once it listens.
  await eventually(async () => assert.ok((await server.calls("get")) >= polls + 2));
  await spend(store, accountRef, perDay(9));
  assert.ok(store.lastKnown(accountRef));
  return store;
}

const knows = (store: QuotaStore) => store.lastKnown(accountRef) !== undefined;

describe("what is known of an account", () => {
  it("survives messages that are none, and is forgotten by one that names it", async () => {
    const store = await knowing();
    for (const text of ["", "x", "1.5 other production:a", "1 other"]) {
      await redis.publish(CHANNEL, text);
    }
    await redis.publish(CHANNEL, "1 other production:b");
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.ok(knows(store));
    await redis.publish(CHANNEL, "2 other production:a");
    await eventually(() => !knows(store));
  });

  it("is forgotten when a message was missed before one that names another", async () => {
    const store = await knowing();
    await redis.publish(CHANNEL, "7 other production:b");
    await eventually(() => !knows(store));
  });

  it("is forgotten within two seconds of a change that no message told, and then listened anew", async () => {
    const store = await knowing();
    const before = await subscribers();
    await redis.incr(VERSION);
    await eventually(() => !knows(store), { withinMs: 60_000 });
    await eventually(async () => {
      const now = await subscribers();
      return now.length === 1 && now[0] !== before[0];
    });
  });

  it("is forgotten once by a change whose message comes late, and listened to as before", async () => {
    const store = await knowing();
    const before = await subscribers();
    await redis.incr(VERSION);
    await eventually(() => !knows(store), { withinMs: 60_000, everyMs: 2 });
    await redis.publish(CHANNEL, "1 other production:b");
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    assert.deepEqual(await subscribers(), before);
  });
});

describe("a store that is closed while it waits for an answer", () => {
  it("asks nothing more", async () => {
    await using proxy = await openTcpProxy(server);
    const url = `redis://127.0.0.1:${proxy.port}`;
    const store = await knowing({ kind: "redis", url, shown: url });
    proxy.behave({ blackHole: true });
    const before = store.commandCount?.() ?? 0;
    await eventually(() => (store.commandCount?.() ?? 0) > before, { withinMs: 60_000 });
    await store.close();
    const last = store.commandCount?.();
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    assert.equal(store.commandCount?.(), last);
  });
});

/** The connections that listen, by the number that Redis gave them. */
async function subscribers(): Promise<string[]> {
  const list = String(await redis.call("CLIENT", "LIST", "TYPE", "pubsub"));
  return [...list.matchAll(/^id=(\d+)/gm)].map(([, id]) => `${id}`);
}
