import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { describe, it, type TestContext } from "vitest";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import { openTcpProxy } from "../../support/wire/tcp-proxy.ts";
import { account, openFor, perDay, spend, startServer } from "../quotas/redis/redis-kit.ts";

type Fickle = (socket: Socket) => unknown;

describe("a store that is away", () => {
  it("does not keep a gateway from starting, and is found when it comes", async (t) => {
    const port = await freePort();
    const startedMs = performance.now();
    const url = `redis://127.0.0.1:${port}`;
    const { value, stalledMs } = await watchStalls(() => openFor(t, url));
    const { store } = value;
    const tookMs = performance.now() - startedMs;
    assert.ok(tookMs < 1_500 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
    assert.equal(store.health().ok, false);
    assert.deepEqual(await store.charge(account("late"), perDay(1)), { unavailable: true });
    const redis = await startRedis({ port });
    t.onTestFinished(() => redis.close());
    await eventually(() => store.health().ok);
    assert.equal((await spend(store, account("late"), perDay(1))).admitted, true);
  });

  it("as it loads its data does not keep a gateway from starting, is told by LOADING, and comes when it has", async (t) => {
    const redis = await startServer(t, ["--enable-debug-command", "yes"]);
    const admin = await redis.client();
    await admin.config("SET", "loading-process-events-interval-bytes", "1024");
    await admin.call("DEBUG", "POPULATE", "2000", "other", "100");
    await admin.config("SET", "key-load-delay", "5000");
    const looker = await redis.client();
    const loaded = admin.call("DEBUG", "RELOAD");
    await eventually(() => assert.rejects(looker.get("other"), /^ReplyError: LOADING/));
    const { store, failures } = await openFor(t, redis.url);
    assert.match(String(store.health().why), /it is loading its data/);
    assert.deepEqual(await store.charge(account("a"), perDay(1)), { unavailable: true });
    assert.deepEqual([failures[0]?.code, failures[0]?.executed], ["LOADING", "no"]);
    await assert.rejects(looker.get("other"), /LOADING/, "all of this came before it had loaded");
    await looker.config("SET", "key-load-delay", "0");
    await loaded;
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
  });

  it("whose greeting never ends does not keep a gateway from starting", async (t) => {
    const endless = createServer((socket) => {
      socket.on("error", () => undefined).write("$4000000000\r\n");
      const dripping = setInterval(() => socket.write("x"), 20);
      socket.resume().on("close", () => clearInterval(dripping));
    });
    endless.listen(0, "127.0.0.1");
    await once(endless, "listening");
    t.onTestFinished(() => void endless.close());
    const { port } = endless.address() as AddressInfo;
    const { store } = await openFor(t, `redis://127.0.0.1:${port}`);
    assert.match(String(store.health().why), /its greeting does not end/);
  });

  it("and takes what it is sent without a word is late after 50 ms, not before", async (t) => {
    const redis = await startServer(t);
    const { store, failures } = await openFor(t, redis.url, { timeoutMs: 50 });
    // A machine that stalls has a call run after its deadline, which is no answer either.
    await eventually(async () => {
      assert.equal((await spend(store, account("warm"), perDay(99))).by, "store");
    });
    const before = failures.length;
    redis.stop();
    const startedMs = performance.now();
    const { value, stalledMs } = await watchStalls(() => store.charge(account("slow"), perDay(9)));
    const tookMs = performance.now() - startedMs;
    redis.cont();
    assert.deepEqual(value, { unavailable: true });
    // Timers of Node count in whole milliseconds of a clock that is read once in a turn.
    assert.ok(tookMs >= 49 && tookMs < 500 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
    assert.deepEqual(
      failures.slice(before).map(({ code, executed }) => [code, executed]),
      [["late", "unknown"]],
    );
  });

  it("is not taken to be away when only the event loop of the gateway stalls", async (t) => {
    const redis = await startServer(t);
    // Redis on a busy machine answers within this, and the event loop stands still for longer.
    const timeoutMs = 400;
    const { store, failures } = await openFor(t, redis.url, { timeoutMs });
    await spend(store, account("warm"), perDay(999));
    const held = new Int32Array(new SharedArrayBuffer(4));
    for (let i = 0; i < 5; i++) {
      const answer = spend(store, account("stall"), perDay(999));
      // The call is on its way; the answer comes while nothing here can read it.
      await new Promise((resolve) => setImmediate(resolve));
      await new Promise((resolve) => setImmediate(resolve));
      Atomics.wait(held, 0, 0, 1.4 * timeoutMs);
      assert.equal((await answer).admitted, true);
    }
    assert.deepEqual(failures, []);
  });

  it("is never sent anything twice when the connection breaks before the answer", async (t) => {
    const redis = await startServer(t);
    await using proxy = await openTcpProxy(redis);
    const { store, failures } = await openFor(t, `redis://127.0.0.1:${proxy.port}`);
    await spend(store, account("once"), perDay(99));
    proxy.behave({ cutAfterBytes: 0 });
    assert.deepEqual(await store.charge(account("once"), perDay(99)), { unavailable: true });
    proxy.behave({});
    assert.equal(failures[0]?.executed, "unknown");
    await eventually(() => store.health().ok);
    const { decision } = await spend(store, account("once"), perDay(99));
    assert.equal(decision.windows[0]?.used, 3);
  });
});

describe("the reason for which a store is away", () => {
  const FAULTS = [
    {
      of: "a replica, to which a gateway connects anew in case that it is a master again",
      begin: (admin: Redis) => admin.replicaof("127.0.0.1", 1),
      why: /: it is a read-only replica$/,
    },
    {
      of: "a Redis that takes no further client, and may reset the connection with its refusal on it",
      begin: async (admin: Redis) => {
        await admin.config("SET", "maxclients", "1");
        await cutClients(admin);
      },
      why: /: ERR max number of clients reached$/,
    },
    {
      of: "a Redis whose connections are cut, by each of which it was reached",
      begin: cutClients,
      goesOn: true,
      // The system finds the connection gone as it is read, or as it is written to.
      why: /: the connection was lost$|: ECONNRESET$|: EPIPE$/,
    },
  ];
  for (const { of, begin, goesOn = false, why } of FAULTS) {
    it(`stays the same between two attempts to connect: ${of}`, async (t) => {
      const redis = await startServer(t);
      const admin = await redis.client();
      const { store } = await openFor(t, redis.url);
      await spend(store, account("a"), perDay(99));
      await eventually(async () => {
        await begin(admin);
        await store.charge(account("a"), perDay(99));
        assert.match(String(store.health().why), why);
      });
      const told = new Set<string>();
      for (let i = 0; i < 300; i++) {
        if (goesOn && i % 10 === 0) await begin(admin);
        if (i % 3 === 0) void store.charge(account("a"), perDay(99));
        const health = store.health();
        if (!health.ok) told.add(health.why ?? "");
        await sleep(5);
      }
      assert.ok(told.size > 0);
      assert.deepEqual(
        [...told].filter((one) => !why.test(one)),
        [],
      );
    });
  }
});

/** A server that refuses the password of the first clients, and then does something else. */
async function startFickle(t: TestContext): Promise<{ url: string; change(to: Fickle): void }> {
  let does: Fickle = (socket) => socket.write("-WRONGPASS invalid username-password pair\r\n");
  const server = createServer((socket) => {
    socket.on("error", () => undefined).once("data", () => does(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return {
    url: `redis://:other@127.0.0.1:${port}`,
    change: (to) => {
      does = to;
    },
  };
}

describe("the reason for which a store is away, where it refused a password before", () => {
  const CHANGES: readonly (readonly [string, Fickle, RegExp])[] = [
    ["ends each connection", (socket) => socket.end(), /: the connection was lost$/],
    ["resets each connection", (socket) => socket.resetAndDestroy(), /: ECONNRESET$|was lost$/],
  ];
  for (const [what, change, why] of CHANGES) {
    it(`is another one where it ${what} by now`, async (t) => {
      const server = await startFickle(t);
      const { store } = await openFor(t, server.url);
      const first = /password are wrong/;
      await eventually(() => assert.match(String(store.health().why), first));
      server.change(change);
      await eventually(() => assert.match(String(store.health().why), why));
    });
  }
});

async function cutClients(admin: Redis): Promise<void> {
  await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
}
