import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, type TestContext, vi } from "vitest";
import { each } from "../../../support/each.ts";
import { eventually } from "../../../support/poll.ts";
import { startRedis } from "../../../support/redis/redis.ts";
import { redisTls } from "../../../support/redis/redis-tls.ts";
import { openAuthority } from "../../../support/wire/certificates.ts";
import {
  account,
  open,
  openFor,
  perDay,
  spend,
  startServer,
} from "../../quotas/redis/redis-kit.ts";

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
  "+zadd",
];

describe("a store with a password", () => {
  it("is opened by it, and a wrong one is told from it without a word of either", async (t) => {
    const redis = await startServer(t, ["--requirepass", PASSWORD]);
    const right = await openFor(t, `redis://:${QUOTED}@127.0.0.1:${redis.port}`);
    assert.equal((await spend(right.store, account("a"), perDay(1))).admitted, true);

    const wrong = await openFor(t, `redis://:not-${QUOTED}@127.0.0.1:${redis.port}`);
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
    const redis = await startServer(t);
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...LEAST);
    const { store, failures } = await openFor(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
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
      async () => (await spend(store, account("acl"), strict)).decision.ban !== undefined,
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
    const redis = await startServer(t);
    const admin = await redis.client();
    const less = LEAST.filter((rule) => rule !== "+hset");
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
    const { store, failures } = await openFor(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
    assert.deepEqual(await store.charge(account("acl"), perDay(1)), { unavailable: true });
    assert.match(failures[0]?.message ?? "", /permission/);
    assert.deepEqual(await admin.keys("tg:*production*"), []);
  });

  it("neither loses a count nor denies a ban when its user may not read bans", async (t) => {
    const redis = await startServer(t);
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...LEAST);
    const { store } = await openFor(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
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

it("a ban, its end and a reset by a user who may not DEL are told as done, which they are", async (t) => {
  const redis = await startServer(t);
  const admin = await redis.client();
  const less = LEAST.filter((rule) => rule !== "+del");
  await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less, "+zcard", "+zadd");
  const { store } = await openFor(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
  const acme = account("acme");
  await spend(store, acme, perDay(9));
  const times = { lengthMs: 60_000, keptMs: 60_000 };
  await store.ban(acme, { ...times, window: "day", plan: "free", reason: "" });
  assert.equal((await store.bans()).length, 1);
  assert.equal(await store.liftBan(acme), true);
  assert.deepEqual(await store.bans(), []);
  assert.deepEqual(
    (await store.reset(acme)).map(({ units }) => units),
    [1],
  );
});

describe("a store that denies what gateways tell each other by", () => {
  it("is told by the right to take what a command did, which waits until it is granted", async (t) => {
    const redis = await startServer(t);
    const admin = await redis.client();
    const less = LEAST.filter((rule) => rule !== "+del");
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
    const url = `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`;
    const taken: string[] = [];
    const { told } = await openFor(t, url, {
      onAdminEvent: ({ accountRef }) => taken.push(accountRef.account),
    });
    const command = await openFor(t, redis.url);
    await spend(command.store, account("a"), perDay(9));
    await command.store.reset(account("a"));
    const missing = () => told.filter(({ message }) => message === "store_right_missing");
    await eventually(() => assert.equal(missing().length, 1));
    assert.match(
      String(missing()[0]?.details?.why),
      /no right to HGETALL or to DEL tg:\{0\}:resets, /,
    );
    assert.deepEqual(taken, []);
    await admin.call("ACL", "SETUSER", "gate", "+del");
    await command.store.liftBan(account("a"));
    await command.store.reset(account("a"));
    await eventually(() => assert.deepEqual([...new Set(taken)], ["a"]));
    assert.equal(missing().length, 1);
  });

  it("is told by the right, once until it is granted, and is not connected to again and again", async (t) => {
    const redis = await startServer(t);
    const admin = await redis.client();
    const less = LEAST.filter((rule) => !/subscribe|publish|get$/.test(rule)).concat("+hget");
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
    const url = `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`;
    const { store, told } = await openFor(t, url);
    await store.reset(account("a"));
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
    await store.reset(account("a"));
    await admin.call("ACL", "SETUSER", "gate", "-publish");
    await store.reset(account("a"));
    assert.deepEqual(named().slice(3), ["PUBLISH tg:events"]);
  });
});

it("a reset by a user who may not publish is done, told as done, and heard of within a second by the number alone", async (t) => {
  const redis = await startServer(t);
  const admin = await redis.client();
  const less = LEAST.filter((rule) => rule !== "+publish");
  await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
  const url = `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`;
  const [one, other] = [await openFor(t, url), await openFor(t, url)];
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
  const redis = await startServer(
    t,
    gone.flatMap((command) => ["--rename-command", command, ""]),
  );
  const { store, told } = await openFor(t, redis.url);
  assert.equal((await spend(store, account("a"), perDay(1))).admitted, true);
  await store.reset(account("a")).catch(() => undefined);
  const named = () =>
    told.map(({ details }) => / to ([A-Z]+.*?), or /.exec(String(details?.why))?.[1]).toSorted();
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
  const redis = await startServer(t);
  const admin = await redis.client();
  const less = LEAST.filter((rule) => rule !== "+info");
  await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...less);
  const warned = vi.spyOn(console, "warn");
  t.onTestFinished(() => warned.mockRestore());
  const { store } = await openFor(t, `redis://gate:${QUOTED}@127.0.0.1:${redis.port}`);
  assert.equal((await spend(store, account("a"), perDay(1))).admitted, true);
  assert.deepEqual(warned.mock.calls, []);
});

describe("a store whose greeting fails", () => {
  async function userWith(t: TestContext, rights: readonly string[]) {
    const redis = await startServer(t);
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "gate", "on", `>${PASSWORD}`, ...rights);
    return { admin, url: `redis://gate:${QUOTED}@127.0.0.1:${redis.port}` };
  }

  it("is not database 0 where SELECT of another one is refused, and the code says NOPERM", async (t) => {
    const { admin, url } = await userWith(t, LEAST);
    const { store, failures } = await openFor(t, `${url}/1`);
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
    const { store } = await openFor(t, `${url}/1`);
    assert.equal((await spend(store, account("a"), perDay(2))).admitted, true);
    await admin.call("CLIENT", "KILL", "USER", "gate");
    await eventually(async () => {
      assert.deepEqual(
        "decision" in (await store.charge(account("a"), perDay(2))) && store.health().ok,
        true,
      );
    });
    assert.equal(await admin.dbsize(), 0);
    await admin.select(1);
    assert.ok((await admin.dbsize()) > 0);
  });

  it("comes when the right is granted, without a restart", async (t) => {
    const { admin, url } = await userWith(t, LEAST);
    const { store } = await openFor(t, `${url}/1`);
    await eventually(() => assert.match(String(store.health().why), /permission/));
    await admin.call("ACL", "SETUSER", "gate", "+select");
    const result = await eventually(async () => {
      const given = await store.charge(account("a"), perDay(1));
      return "decision" in given ? given : assert.fail("not yet");
    });
    assert.equal(result.admitted, true);
    assert.deepEqual(store.health(), { ok: true });
  });

  it("is none where a password is given to a server that has none", async (t) => {
    const redis = await startServer(t);
    const { store } = await openFor(t, `redis://:${QUOTED}@127.0.0.1:${redis.port}`);
    assert.deepEqual(await store.charge(account("a"), perDay(1)), { unavailable: true });
    const { ok, why } = store.health();
    assert.equal(ok, false);
    assert.match(String(why), /its default user has no password/);
    assert.ok(!String(why).includes(PASSWORD));
  });
});

describe("a store behind TLS", () => {
  it("is trusted by its certificate, and refused without", async (t) => {
    using authority = openAuthority();
    const redis = await startRedis({ tls: redisTls(authority) });
    t.onTestFinished(() => redis.close());
    const { store } = await openFor(t, redis.url, { tls: { ca: authority.ca } });
    assert.equal((await spend(store, account("tls"), perDay(1))).admitted, true);
    const stranger = await openFor(t, redis.url);
    assert.deepEqual(await stranger.store.charge(account("tls"), perDay(1)), { unavailable: true });
    assert.equal(stranger.store.health().ok, false);
  });

  it("that is left in the middle of a handshake ends no process", async (t) => {
    using authority = openAuthority();
    const redis = await startRedis({ tls: redisTls(authority) });
    t.onTestFinished(() => redis.close());
    const errors: string[] = [];
    const onError = ({ message }: Error) => void errors.push(message);
    process.on("uncaughtExceptionMonitor", onError);
    t.onTestFinished(() => void process.off("uncaughtExceptionMonitor", onError));
    for (let i = 0; i < 16; i++) {
      const { store } = await open(redis.address);
      await sleep(i % 4);
      await store.close();
    }
    // Each socket has ended when Redis has no connection but that of this client.
    const admin = await redis.client();
    await eventually(async () =>
      assert.equal(String(await admin.client("LIST")).match(/id=/g)?.length, 1),
    );
    assert.deepEqual(errors, []);
  });
});

describe("a store that may throw counters away", () => {
  it("is warned of, and one that may not is not", async (t) => {
    const redis = await startServer(t);
    const safe = await openFor(t, redis.url);
    await (await redis.client()).config("SET", "maxmemory-policy", "allkeys-lru");
    const { told } = await openFor(t, redis.url);
    await eventually(() => told.length > 0);
    assert.deepEqual(
      told.map(({ level, message, details }) => [level, message, details?.maxmemoryPolicy]),
      [["warn", "store_evicts", "allkeys-lru"]],
    );
    assert.deepEqual(safe.told, []);
  });
});
