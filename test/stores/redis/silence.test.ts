import assert from "node:assert/strict";
import type { Socket } from "node:net";
import type { Redis } from "ioredis";
import { describe, it, type TestContext, vi } from "vitest";
import { RetiredConnection } from "../../../src/stores/redis/connection/retired-connection.ts";
import { connectRedis } from "../../../src/stores/redis/engines/single-link.ts";
import { StoreFailure } from "../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openReplyProxy } from "../../support/wire/reply-proxy.ts";
import { openTcpProxy } from "../../support/wire/tcp-proxy.ts";

const REFUSAL = "return redis.error_reply('ERR it is refused')";

async function linkTo(t: TestContext, port: number) {
  const url = `redis://127.0.0.1:${port}`;
  const link = connectRedis({ address: { kind: "redis", url, shown: url } });
  t.onTestFinished(() => link.close());
  await link.tried;
  return link;
}

type Linked = Awaited<ReturnType<typeof linkTo>>;

/**
 * Sends a script behind a command that waits for a value of `list`: Redis reads nothing more of that
 * connection until then.
 */
function sendScript(link: Linked, list: string) {
  link.send(list, "blpop", [list, 0]).catch(() => undefined);
  return link.send("k", "eval", ["return 1", 0], (reply) => reply);
}

/** The failure of a script whose connection was given up, with what may still come of it. */
async function givenUp(script: Promise<unknown>) {
  const failure = await script.catch((error: StoreFailure) => error);
  assert.ok(failure instanceof StoreFailure && failure.later !== undefined);
  return { message: failure.message, later: failure.later };
}

async function linked(t: TestContext) {
  const redis = await startRedis();
  t.onTestFinished(() => redis.close());
  const link = await linkTo(t, redis.port);
  const client = await redis.client();
  const connections = async () => {
    return String(await client.call("client", "list", "type", "normal"))
      .trim()
      .split("\n").length;
  };
  return { redis, link, client, connections };
}

describe("a connection to Redis on which nothing is read", () => {
  it("ends after a second if a command waits for its reply, and is made again", async (t) => {
    const { redis, link } = await linked(t);
    assert.equal(await link.send("k", "ping", []), "PONG");
    redis.stop();
    t.onTestFinished(() => redis.cont());
    const sentMs = performance.now();
    await assert.rejects(link.send("k", "ping", []), {
      message: "Redis cannot be reached: the connection was lost",
      executed: "unknown",
    });
    const tookMs = performance.now() - sentMs;
    assert.ok(tookMs >= 1_000, `it ended after ${tookMs} ms`);
    redis.cont();
    await eventually(() => link.health().ok);
    assert.equal(await link.send("k", "ping", []), "PONG");
  });

  it("ends too if the first commands were answered, and later ones are not", async (t) => {
    const { link, client, connections } = await linked(t);
    assert.equal(await link.send("k", "ping", []), "PONG");
    const blocked = link.send("list", "blpop", ["list", 0], (reply) => reply);
    blocked.catch(() => undefined);
    await eventually(async () => String(await client.client("LIST")).includes("cmd=blpop"));
    const sentMs = performance.now();
    await assert.rejects(blocked);
    const tookMs = performance.now() - sentMs;
    assert.ok(tookMs >= 500 && tookMs < 10_000, `it ended after ${tookMs} ms`);
    await eventually(() => link.health().ok);
    // A command that has charged nothing is no reason to read on.
    const isAll = async () => assert.equal(await connections(), 2, "this one and the client's");
    await eventually(isAll, { withinMs: 8_000 });
  });

  it("fails its commands after a second, and is read for their replies until two later ones are silent too", async (t) => {
    const { link, client, connections } = await linked(t);
    const laters: Promise<unknown>[] = [];
    const refusals: Promise<unknown>[] = [];
    for (let i = 0; i < 3; i++) {
      await eventually(() => link.health().ok);
      // Redis reads nothing more of a connection on which this waits.
      link.send("list", "blpop", ["list", 0]).catch(() => undefined);
      const script = link.send(
        "k",
        "eval",
        ["return ARGV[1]", 0, String(i)],
        (reply) => `read ${reply}`,
      );
      const refused = link.send("k", "eval", [REFUSAL, 0], (reply) => reply);
      const { message, later } = await givenUp(script);
      assert.equal(message, "Redis cannot be reached: the connection was lost");
      const health = link.health();
      assert.ok(!health.ok);
      assert.equal(health.failure.message, "Redis cannot be reached: it does not reply");
      laters.push(later);
      refusals.push((await givenUp(refused)).later);
    }
    const [oldest, ...kept] = laters;
    const silentMs = performance.now();
    await assert.rejects(oldest as Promise<unknown>, { executed: "unknown" });
    assert.ok(performance.now() - silentMs < 8_000, "only its time has ended it");
    const pushedMs = performance.now();
    await client.rpush("list", "a", "b", "c");
    assert.deepEqual(await Promise.all(kept), ["read 1", "read 2"]);
    for (const each of refusals.slice(1)) await assert.rejects(each, /it is refused/);
    await eventually(async () => assert.equal(await connections(), 2, "this one and the client's"));
    assert.ok(performance.now() - pushedMs < 10_000, "only their time has ended them");
  });

  it("is read while two later ones are silent of which one had its replies", async (t) => {
    const { link, client } = await linked(t);
    const { later: first } = await givenUp(sendScript(link, "first"));
    await eventually(() => link.health().ok);
    const { later: second } = await givenUp(sendScript(link, "second"));
    await client.rpush("second", "a");
    assert.equal(await second, 1);
    await eventually(() => link.health().ok);
    await givenUp(sendScript(link, "third"));
    await client.rpush("first", "a");
    assert.equal(await first, 1);
  });

  it("ends with its time, and the connection that has taken its place stays", async (t) => {
    const { link, connections } = await linked(t);
    const script = sendScript(link, "list");
    const redis = link.nodeOf(0) as Redis;
    let ends = 0;
    redis.on("close", () => {
      ends += 1;
    });
    new RetiredConnection(redis, new Error("it does not reply"), 500);
    const { later } = await givenUp(script);
    await eventually(() => link.health().ok);
    await assert.rejects(later, { executed: "unknown" });
    await eventually(async () => assert.equal(await connections(), 2, "this one and the client's"));
    assert.deepEqual([link.health().ok, ends], [true, 1]);
  });

  it("leaves no timer that keeps the process from ending once it has its replies", async (t) => {
    const { link, client } = await linked(t);
    const script = sendScript(link, "list");
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    t.onTestFinished(() => void vi.useRealTimers());
    new RetiredConnection(link.nodeOf(0) as Redis, new Error("it does not reply"), 12_000);
    const { later } = await givenUp(script);
    vi.advanceTimersByTime(1_000);
    await eventually(() => link.health().ok);
    assert.equal(vi.getTimerCount(), 1);
    await client.rpush("list", "a");
    assert.equal(await later, 1);
    await eventually(() => assert.equal(vi.getTimerCount(), 0));
  });

  it("ends, and the process does not, with one reply more than it has commands", async (t) => {
    const { redis, connections } = await linked(t);
    await using proxy = await openReplyProxy(redis);
    const link = await linkTo(t, proxy.port);
    const before = await connections();
    const { later } = await givenUp(sendScript(link, "list"));
    await eventually(() => link.health().ok);
    proxy.behave(({ name }, reply) => {
      return name === "eval" ? [Buffer.concat([reply, Buffer.from(":7\r\n")])] : undefined;
    });
    await link.send("list", "rpush", ["list", "a"], (reply) => reply);
    assert.equal(await later, 1);
    await eventually(async () => assert.equal(await connections(), before));
  });

  it("is not waited for once it has a reply that cannot be read", async (t) => {
    const { redis } = await linked(t);
    await using proxy = await openReplyProxy(redis);
    const link = await linkTo(t, proxy.port);
    const { later } = await givenUp(sendScript(link, "list"));
    await eventually(() => link.health().ok);
    proxy.behave(({ name }) => (name === "blpop" ? [Buffer.from("no reply\r\n")] : undefined));
    const pushedMs = performance.now();
    await link.send("list", "rpush", ["list", "a"], (reply) => reply);
    await assert.rejects(later, { executed: "unknown" });
    assert.ok(performance.now() - pushedMs < 8_000, "only its time has ended it");
  });

  it("is not waited for once it is cut", async (t) => {
    const redis = await startRedis();
    t.onTestFinished(() => redis.close());
    const proxy = await openTcpProxy(redis);
    t.onTestFinished(() => proxy.close());
    const link = await linkTo(t, proxy.port);
    const { later } = await givenUp(sendScript(link, "list"));
    await eventually(() => link.health().ok);
    const cutMs = performance.now();
    proxy.reset();
    await assert.rejects(later, { executed: "unknown" });
    assert.ok(performance.now() - cutMs < 8_000, "only its time has ended it");
  });

  it("is not read for late replies once another server has taken its place", async (t) => {
    const [{ link }, other] = await Promise.all([linked(t), linked(t)]);
    const { later } = await givenUp(sendScript(link, "list"));
    const failedMs = performance.now();
    (link.nodeOf(0) as Redis).options.port = other.redis.port;
    await assert.rejects(later, { executed: "unknown" });
    await eventually(() => link.health().ok);
    assert.ok(performance.now() - failedMs < 10_000, "only its time has ended it");
  });

  it("is not read for late replies once another server answers at its address", async (t) => {
    const servers = await Promise.all([startRedis(), startRedis()]);
    for (const each of servers) t.onTestFinished(() => each.close());
    const [{ port }, other] = servers;
    const target = { port };
    const proxy = await openTcpProxy(target);
    t.onTestFinished(() => proxy.close());
    const link = await linkTo(t, proxy.port);
    const script = sendScript(link, "list");
    target.port = other.port;
    const { later } = await givenUp(script);
    const failedMs = performance.now();
    await assert.rejects(later, { executed: "unknown" });
    assert.ok(performance.now() - failedMs < 10_000, "only its time has ended it");
  });

  it("stays if no command waits, and if the process stood still while the reply came", async (t) => {
    const { link, connections } = await linked(t);
    await link.send("k", "client", ["setname", "first"]);
    const before = await connections();
    const reply = link.send("k", "ping", []);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000);
    assert.equal(await reply, "PONG");
    assert.equal(await link.send("k", "client", ["getname"]), "first");
    assert.equal(await connections(), before);
  });
});

describe("a connection to Redis that ends", () => {
  it("is told as lost by a command that comes while it ends", async (t) => {
    const { link } = await linked(t);
    // The socket is so between the end of the server's side and its close.
    (link.nodeOf(0) as unknown as { readonly stream: Socket }).stream.end();
    await assert.rejects(link.send("k", "ping", []), {
      message: "Redis cannot be reached: the connection was lost",
      executed: "no",
    });
  });
});

describe("replies of Redis", () => {
  it("are whole however large they are and however many come together", async (t) => {
    const { link } = await linked(t);
    const texts = [1, 100, 4_096, 65_536, 70_001, 300_000].map((length, i) => {
      return String.fromCharCode(97 + i).repeat(length);
    });
    await Promise.all(texts.map((text, i) => link.send("k", "set", [`k${i}`, text])));
    const asked = Array.from({ length: 40 }, (_, i) => i % texts.length);
    const replies = await Promise.all(asked.map((i) => link.send("k", "get", [`k${i}`])));
    asked.forEach((i, at) => {
      assert.ok(replies[at] === texts[i], `reply ${at} of ${texts[i]?.length} characters`);
    });
  });
});
