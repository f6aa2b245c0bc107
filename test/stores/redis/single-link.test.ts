import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, it, type TestContext, vi } from "vitest";
import { each } from "../../support/each.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import { redisTls } from "../../support/redis/redis-tls.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import { openTcpProxy } from "../../support/wire/tcp-proxy.ts";
import { account, open, perDay, spend } from "../quotas/redis/redis-kit.ts";

const PASSWORD = "p@ss:w/rd";
const QUOTED = encodeURIComponent(PASSWORD);

/** The rights that counting needs, and nothing else: a part of those in docs/operations.md. */
const LEAST = [
  "~tg:*",
  "&tg:events",
  "-@all",
  "+evalsha",
  "+eval",
  "+time",
  "+hmget",
  "+hset",
  "+hget",
  "+hgetall",
  "+hlen",
  "+hdel",
  "+del",
  "+pexpire",
  "+pttl",
  "+get",
  "+incr",
  "+publish",
  "+subscribe",
  "+scan",
  "+info",
];

async function server(t: TestContext, args: readonly string[] = []) {
  const redis = await startRedis({ args });
  t.onTestFinished(() => redis.close());
  return redis;
}

async function opened(t: TestContext, url: string, more: Parameters<typeof open>[1] = {}) {
  const all = await open({ kind: "redis", url, shown: "redis://…" }, more);
  t.onTestFinished(() => all.store.close());
  return all;
}

describe("a store with a password", () => {
  it("is opened by it, and a wrong one is told from it without a word of either", async (t) => {
    const redis = await server(t, ["--requirepass", PASSWORD]);
    const right = await opened(t, `redis://:${QUOTED}@127.0.0.1:${redis.port}`);
    assert.equal((await spend(right.store, account("a"), perDay(1))).admitted, true);

    const wrong = await opened(t, `redis://:not-${QUOTED}@127.0.0.1:${redis.port}`);
    assert.deepEqual(await wrong.store.charge(account("a"), perDay(1)), { unavailable: true });
    const said = await eventually(() => {
      const { ok, why } = wrong.store.health();
      assert.equal(ok, false);
      assert.match(String(why), /password/);
      return JSON.stringify([why, wrong.told, wrong.failures.map(({ message }) => message)]);
    });
    assert.ok(!said.includes(PASSWORD) && !said.includes(QUOTED), said);
  });

  it("serves an ACL user with the least rights: decide, look, ban, lift, hear of it", async (t) => {
    const redis = await server(t);
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...LEAST);
    const { store, failures } = await opened(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
    const strict = perDay(1, {
      strikes: 1,
      withinMs: 60_000,
      graceMs: 0,
      durationMs: 60_000,
      factor: 2,
      maxMs: 60_000,
      forgetAfterMs: 0,
    });
    await eventually(
      async () => (await spend(store, account("acl"), strict)).verdict.ban !== undefined,
    );
    assert.equal((await store.bans()).length, 1);
    assert.equal(await store.liftBan(account("acl")), true);
    await admin.lpush("tg:{8}:production:other", "wrong type");
    assert.equal((await store.peek(account("acl"), strict)).windows[0]?.used, 1);
    assert.deepEqual(failures, []);
    assert.equal(store.health().ok, true);
    const denied = (await admin.call("ACL", "LOG")) as unknown[];
    assert.deepEqual(denied, []);
  });

  it("says which right is missing when a user lacks one", async (t) => {
    const redis = await server(t);
    const admin = await redis.client();
    const less = LEAST.filter((rule) => rule !== "+hset");
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
    const { store, failures } = await opened(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
    assert.deepEqual(await store.charge(account("acl"), perDay(1)), { unavailable: true });
    assert.match(failures[0]?.message ?? "", /permission/);
    assert.deepEqual(await admin.keys("tg:*production*"), []);
  });

  it("neither loses a count nor denies a ban when its user may not read bans", async (t) => {
    const redis = await server(t);
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...LEAST);
    const { store } = await opened(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
    await spend(store, account("acl"), perDay(9));
    const times = { lengthMs: 60_000, keptMs: 60_000 };
    const ban = { ...times, window: "day", plan: "free", reason: "" } as const;
    await store.ban(account("acl"), ban);
    const key = String(await admin.keys("tg:{*}:production:acl"));
    const before = await admin.hgetall(key);
    assert.equal(Object.keys(before).length, 2);
    await admin.call("ACL", "SETUSER", "gate", "-hget");
    await assert.rejects(store.ban(account("acl"), ban), /permission/);
    await assert.rejects(store.liftBan(account("acl")), /permission/);
    assert.deepEqual(await admin.hgetall(key), before);
  });
});

describe("a store that denies what gateways tell each other by", () => {
  it("is told by the right, once until it is granted, and is not connected to again and again", async (t) => {
    const redis = await server(t);
    const admin = await redis.client();
    const less = LEAST.filter((rule) => !/subscribe|publish|get$/.test(rule)).concat("+hget");
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
    const url = `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`;
    const { store, told } = await opened(t, url);
    await store.invalidateEverywhere([account("a")]);
    const missing = () => told.filter(({ message }) => message === "store_right_missing");
    const named = () =>
      missing().map(({ details }) => / to ([A-Z]+ \S+),/.exec(String(details?.why))?.[1]);
    const all = ["GET tg:{0}:version", "PUBLISH tg:events", "SUBSCRIBE tg:events"];
    await eventually(() => assert.deepEqual(named().toSorted(), all));

    const refusals = async (command = "get") => {
      const counted = new RegExp(`cmdstat_${command}:.*rejected_calls=(\\d+)`);
      return Number(counted.exec(await admin.info("commandstats"))?.[1]);
    };
    const connections = async () =>
      Number(/total_connections_received:(\d+)/.exec(await admin.info("stats"))?.[1]);
    const [refused, connected] = [await refusals(), await connections()];
    const asked = await refusals("subscribe");
    await eventually(async () => assert.ok((await refusals()) >= refused + 2), { everyMs: 100 });
    assert.equal(await connections(), connected);
    const looks = (await refusals()) - refused;
    assert.ok((await refusals("subscribe")) <= asked + 2 * looks, "a second apart, as the looks");
    assert.deepEqual(named().toSorted(), all);

    await admin.call("ACL", "SETUSER", "gate", ...LEAST);
    await eventually(async () => {
      assert.deepEqual(await admin.pubsub("NUMSUB", "tg:events"), ["tg:events", 1]);
    });
    await store.invalidateEverywhere([account("a")]);
    await admin.call("ACL", "SETUSER", "gate", "-publish");
    await store.invalidateEverywhere([account("a")]);
    assert.deepEqual(named().slice(3), ["PUBLISH tg:events"]);
  });
});

it("a reset by a user who may not publish is done, told as done, and heard of within a second by the number alone", async (t) => {
  const redis = await server(t);
  const admin = await redis.client();
  const less = LEAST.filter((rule) => rule !== "+publish");
  await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
  const url = `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`;
  const [one, other] = [await opened(t, url), await opened(t, url)];
  const full = account("full");
  await spend(one.store, full, perDay(1));
  // It answers from memory from now on.
  await eventually(async () =>
    assert.equal((await spend(other.store, full, perDay(1))).admitted, false),
  );
  assert.deepEqual(
    (await one.store.reset(full)).map(({ units }) => units),
    [1],
  );
  await eventually(async () =>
    assert.equal((await spend(other.store, full, perDay(1))).admitted, true),
  );
});

it("commands that Redis has no more are told as rights that are missing, and INFO is not needed", async (t) => {
  const gone = ["info", "get", "publish", "subscribe"];
  const redis = await server(
    t,
    gone.flatMap((command) => ["--rename-command", command, ""]),
  );
  const { store, told } = await opened(t, redis.url);
  assert.equal((await spend(store, account("a"), perDay(1))).admitted, true);
  await store.invalidateEverywhere([account("a")]).catch(() => undefined);
  const named = () =>
    told.map(({ details }) => / to ([A-Z]+.*), or /.exec(String(details?.why))?.[1]).toSorted();
  await eventually(() =>
    assert.deepEqual(named(), [
      "GET tg:{0}:version",
      "INFO",
      "PUBLISH tg:events",
      "SUBSCRIBE tg:events",
    ]),
  );
});

it("a user without INFO gets a connection, and no word of the client library on stderr", async (t) => {
  const redis = await server(t);
  const admin = await redis.client();
  const less = LEAST.filter((rule) => rule !== "+info");
  await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
  const warned = vi.spyOn(console, "warn");
  t.onTestFinished(() => warned.mockRestore());
  const { store } = await opened(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
  assert.equal((await spend(store, account("a"), perDay(1))).admitted, true);
  assert.deepEqual(warned.mock.calls, []);
});

describe("a store whose greeting fails", () => {
  async function userWith(t: TestContext, rights: readonly string[]) {
    const redis = await server(t);
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...rights);
    return { admin, url: `redis://gate:${QUOTED}@127.0.0.1:${redis.port}` };
  }

  it("is not database 0 where SELECT of another one is refused, and the code says NOPERM", async (t) => {
    const { admin, url } = await userWith(t, LEAST);
    const { store, failures } = await opened(t, `${url}/1`);
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(await store.charge(account("a"), perDay(1)), { unavailable: true });
    }
    assert.deepEqual(new Set(failures.map(({ code }) => code)), new Set(["NOPERM"]));
    assert.ok(each(failures).every(({ executed }) => executed === "no"));
    assert.match(String(store.health().why), /permission/);
    assert.deepEqual(Object.keys(store.health()), ["ok", "why"], "as /readyz tells it");
    assert.equal(await admin.dbsize(), 0, "nothing was written to database 0");
  });

  it("is the database of its address where SELECT is granted, also after the connection was cut", async (t) => {
    const { admin, url } = await userWith(t, [...LEAST, "+select"]);
    const { store } = await opened(t, `${url}/1`);
    assert.equal((await spend(store, account("a"), perDay(2))).admitted, true);
    await admin.call("CLIENT", "KILL", "USER", "gate");
    await eventually(async () => {
      assert.deepEqual(
        "verdict" in (await store.charge(account("a"), perDay(2))) && store.health().ok,
        true,
      );
    });
    assert.equal(await admin.dbsize(), 0);
    await admin.select(1);
    assert.ok((await admin.dbsize()) > 0);
  });

  it("comes when the right is granted, without a restart", async (t) => {
    const { admin, url } = await userWith(t, LEAST);
    const { store } = await opened(t, `${url}/1`);
    await eventually(() => assert.match(String(store.health().why), /permission/));
    await admin.call("ACL", "SETUSER", "gate", "+select");
    const answer = await eventually(async () => {
      const given = await store.charge(account("a"), perDay(1));
      return "verdict" in given ? given : assert.fail("not yet");
    });
    assert.equal(answer.admitted, true);
    assert.deepEqual(store.health(), { ok: true });
  });

  it("is none where a password is given to a server that has none", async (t) => {
    const redis = await server(t);
    const { store } = await opened(t, `redis://:${QUOTED}@127.0.0.1:${redis.port}`);
    assert.deepEqual(await store.charge(account("a"), perDay(1)), { unavailable: true });
    const { ok, why } = store.health();
    assert.equal(ok, false);
    assert.match(String(why), /without any password/);
    assert.ok(!String(why).includes(PASSWORD));
  });
});

describe("a store behind TLS", () => {
  it("is trusted by its certificate, and refused without", async (t) => {
    using authority = openAuthority();
    const redis = await startRedis({ tls: redisTls(authority) });
    t.onTestFinished(() => redis.close());
    const { store } = await opened(t, redis.url, { tls: { ca: authority.ca } });
    assert.equal((await spend(store, account("tls"), perDay(1))).admitted, true);
    const stranger = await opened(t, redis.url);
    assert.deepEqual(await stranger.store.charge(account("tls"), perDay(1)), { unavailable: true });
    assert.equal(stranger.store.health().ok, false);
  });
});

describe("a store that may throw counters away", () => {
  it("is warned of, and one that may not is not", async (t) => {
    const redis = await server(t);
    const safe = await opened(t, redis.url);
    await (await redis.client()).config("SET", "maxmemory-policy", "allkeys-lru");
    const { told } = await opened(t, redis.url);
    await eventually(() => told.length > 0);
    assert.deepEqual(
      told.map(({ level, message, details }) => [level, message, details?.maxmemoryPolicy]),
      [["warn", "store_evicts", "allkeys-lru"]],
    );
    assert.deepEqual(safe.told, []);
  });
});

describe("a store that is away", () => {
  it("does not keep a gateway from starting, and is found when it comes", async (t) => {
    const port = await freePort();
    const startedMs = performance.now();
    const url = `redis://127.0.0.1:${port}`;
    const { value, stalledMs } = await watchStalls(() => opened(t, url));
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
    const redis = await server(t, ["--enable-debug-command", "yes"]);
    const admin = await redis.client();
    await admin.config("SET", "loading-process-events-interval-bytes", "1024");
    await admin.call("DEBUG", "POPULATE", "2000", "other", "100");
    await admin.config("SET", "key-load-delay", "20000");
    const looker = await redis.client();
    const loaded = admin.call("DEBUG", "RELOAD");
    await eventually(() => assert.rejects(looker.get("other"), /^ReplyError: LOADING/));
    const { store, failures } = await opened(t, redis.url);
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
    const { store } = await opened(t, `redis://127.0.0.1:${port}`);
    assert.match(String(store.health().why), /its greeting does not end/);
  });

  it("and takes what it is sent without a word is late after 50 ms, not before", async (t) => {
    const redis = await server(t);
    const { store, failures } = await opened(t, redis.url, { timeoutMs: 50 });
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
    const redis = await server(t);
    // Redis on a busy machine answers within this, and the event loop stands still for longer.
    const timeoutMs = 400;
    const { store, failures } = await opened(t, redis.url, { timeoutMs });
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
    const redis = await server(t);
    await using proxy = await openTcpProxy(redis);
    const { store, failures } = await opened(t, `redis://127.0.0.1:${proxy.port}`);
    await spend(store, account("once"), perDay(99));
    proxy.behave({ cutAfterBytes: 0 });
    assert.deepEqual(await store.charge(account("once"), perDay(99)), { unavailable: true });
    proxy.behave({});
    assert.equal(failures[0]?.executed, "unknown");
    await eventually(() => store.health().ok);
    const { verdict } = await spend(store, account("once"), perDay(99));
    assert.equal(verdict.windows[0]?.used, 3);
  });
});
