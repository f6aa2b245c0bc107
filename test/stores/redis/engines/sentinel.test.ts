import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { Sentinels } from "../../../../src/stores/redis/engines/sentinels.ts";
import { connectRedis, failOver } from "../../../../src/stores/redis/engines/single-link.ts";
import { eventually } from "../../../support/poll.ts";
import { freePort } from "../../../support/redis/redis.ts";
import { startSentinel } from "../../../support/redis/redis-engines.ts";
import { type Garble, openReplyProxy } from "../../../support/wire/reply-proxy.ts";
import { account, open, perDay, spend } from "../../quotas/redis/redis-kit.ts";

const CLIENTS = 16;

describe("Redis behind Sentinel", () => {
  it("that is away does not keep a gateway from starting", async (t) => {
    const url = `redis+sentinel://127.0.0.1:${await freePort()}/main`;
    const startedMs = performance.now();
    const { store } = await open({ kind: "sentinel", url, shown: url });
    t.onTestFinished(() => store.close());
    assert.ok(performance.now() - startedMs < 3_000);
    assert.equal(store.health().ok, false);
    assert.deepEqual(await store.charge(account("a"), perDay(1)), { unavailable: true });
  });

  it("that name a replica, or no master, are told, and nothing is sent there", async (t) => {
    const group = await startSentinel();
    t.onTestFinished(() => group.close());
    const sentinel = await group.sentinel.client();
    await sentinel.call("SENTINEL", "MONITOR", "odd", "127.0.0.1", group.replica.port, 1);
    for (const [name, why] of [
      ["odd", `127.0.0.1:${group.replica.port} is named the master, and says that it is a replica`],
      ["none", "none of the 1 Sentinels knows a master none"],
    ] as const) {
      const url = group.address.url.replace("/main", `/${name}`);
      const { store } = await open({ kind: "sentinel", url, shown: url });
      t.onTestFinished(() => store.close());
      assert.deepEqual(await store.charge(account("a"), perDay(1)), { unavailable: true });
      await eventually(() => {
        assert.deepEqual(store.health(), { ok: false, why: `Redis cannot be reached: ${why}` });
      });
    }
    assert.equal(await (await group.replica.client()).dbsize(), 0);
  });

  it("whose master is renamed is said to be split by that name, and stays connected", async (t) => {
    const group = await startSentinel(undefined, undefined, { allLive: true });
    t.onTestFinished(() => group.close());
    const { store } = await open(group.address);
    t.onTestFinished(() => store.close());
    const link = connectRedis({ address: group.address });
    t.onTestFinished(() => link.close());
    await link.tried;
    const sentinel = await group.sentinel.client();
    await sentinel.call("SENTINEL", "REMOVE", "main");
    await sentinel.call("SENTINEL", "MONITOR", "other", "127.0.0.1", group.master.port, 1);
    await eventually(() => {
      assert.equal(link.split(), "none of the 1 Sentinels knows a master main");
    });
    assert.equal((await spend(store, account("a"), perDay(9))).admitted, true);
  });

  it("of which fewer than most Sentinels can be asked is told so, because Redis may be well", async (t) => {
    const group = await startSentinel();
    t.onTestFinished(() => group.close());
    const gone = `127.0.0.1:${await freePort()},127.0.0.1:${await freePort()}`;
    const url = group.address.url.replace("/main", `,${gone}/main`);
    const { store } = await open({ kind: "sentinel", url, shown: url });
    t.onTestFinished(() => store.close());
    await eventually(() => {
      const why =
        /^Redis cannot be reached: fewer than most of the 3 Sentinels can be asked \(Sentinel 127\.0\.0\.1:\d+\): ECONNREFUSED$/;
      assert.match(store.health().why ?? "", why);
    });
  });

  it("whose Sentinels have a user of their own is reached as that user of the address; a password that neither takes is told with its Sentinel", async (t) => {
    const group = await startSentinel(undefined, undefined, { allLive: true });
    t.onTestFinished(() => group.close());
    const login = ["gate", "on", ">letmein", "~*", "&*", "+@all"];
    for (const server of [group.master, group.replica]) {
      await (await server.client()).call("ACL", "SETUSER", ...login);
    }
    const sentinel = await group.sentinel.client();
    const rights = "+ping +subscribe +sentinel|get-master-addr-by-name +sentinel|replicas";
    const url = group.address.url.replace("://", "://gate:letmein@");
    const address = { ...group.address, url };
    const reached = async () => {
      const { store } = await open(address);
      t.onTestFinished(() => store.close());
      assert.equal((await spend(store, account("a"), perDay(9))).admitted, true);
    };
    await reached();
    await sentinel.call("ACL", "SETUSER", "gate", "on", ">letmein", "&*", ...rights.split(" "));
    await sentinel.call("ACL", "SETUSER", "default", "off");
    await reached();
    const asked = await failOver({ address });
    assert.match(asked.ok ? "" : asked.why, /lacks a permission/, "logged in, to ask for one");
    await sentinel.call("ACL", "SETUSER", "gate", "resetpass", ">another");
    const { store, failures } = await open(address);
    t.onTestFinished(() => store.close());
    const place = `Sentinel 127.0.0.1:${group.sentinel.port}`;
    const why = `Redis: user or password are wrong (${place})`;
    assert.deepEqual(store.health(), { ok: false, why });
    assert.deepEqual(await store.charge(account("a"), perDay(9)), { unavailable: true });
    assert.deepEqual([failures[0]?.code, failures[0]?.message], ["WRONGPASS", why]);
  });

  for (const { what, rules, code, said } of [
    { what: "a login", rules: "resetpass >s", code: "NOAUTH", said: "it asks for a password" },
    {
      what: "the right to name the master",
      rules: "-sentinel|get-master-addr-by-name",
      code: "NOPERM",
      said: "the user lacks a permission, for sentinel|get-master-addr-by-name: docs/operations.md lists those that are needed",
    },
  ]) {
    it(`whose Sentinel refuses ${what} is told with that Sentinel`, async (t) => {
      const group = await startSentinel(undefined, undefined, { allLive: true });
      t.onTestFinished(() => group.close());
      const sentinel = await group.sentinel.client();
      await sentinel.call("ACL", "SETUSER", "default", ...rules.split(" "));
      const { store, failures } = await open(group.address);
      t.onTestFinished(() => store.close());
      const why = `Redis: ${said} (Sentinel 127.0.0.1:${group.sentinel.port})`;
      await eventually(() => assert.deepEqual(store.health(), { ok: false, why }));
      assert.deepEqual(await store.charge(account("a"), perDay(9)), { unavailable: true });
      assert.deepEqual([failures[0]?.code, failures[0]?.message], [code, why]);
    });
  }

  it("waits with no more listeners the longer a Sentinel refuses the login", async (t) => {
    const warned: string[] = [];
    const hear = ({ message }: Error) => void warned.push(message);
    process.on("warning", hear);
    t.onTestFinished(() => void process.off("warning", hear));
    let refused = 0;
    const server = createServer((socket) => {
      socket.on("error", () => undefined).once("data", () => socket.end("-WRONGPASS no\r\n"));
      refused += 1;
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    t.onTestFinished(() => void server.close());
    const host = { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
    const link = { lazyConnect: true, replyMapping: "legacy", retryStrategy: () => 1 } as const;
    const login = { password: "another" };
    const options = { hosts: [host], name: "main", login, link, onChange: () => undefined };
    const sentinels = new Sentinels(options);
    t.onTestFinished(() => sentinels.close());
    for (; refused < 100; await sleep(1)) await sentinels.ask();
    assert.deepEqual(warned, []);
  });

  it("is sent nothing by a process that stood still, until the Sentinels are heard again", async (t) => {
    const group = await startSentinel();
    t.onTestFinished(() => group.close());
    const link = connectRedis({ address: group.address });
    t.onTestFinished(() => link.close());
    await link.tried;
    const write = () => link.send("tg:{0}:x", "incr", ["tg:{0}:x"]);
    assert.equal(await write(), 1);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_300);
    await assert.rejects(write(), /no word of the Sentinels for a second/);
    assert.equal(await eventually(write), 2);
  });

  it("goes on at the promoted replica after a failover under load, and charges none twice", async (t) => {
    const password = "correct-horse";
    const group = await startSentinel(password);
    t.onTestFinished(() => group.close());
    const { store, failures } = await open(group.address);
    t.onTestFinished(() => store.close());
    let [admitted, running, lastAtMs] = [0, true, 0];
    t.onTestFinished(() => {
      running = false;
    });
    const load = Array.from({ length: CLIENTS }, async () => {
      while (running) {
        const answer = await store.charge(account("fail"), perDay(1e9));
        if ("admitted" in answer && answer.admitted) {
          admitted++;
          lastAtMs = performance.now();
        }
        await sleep(1);
      }
    });
    await eventually(() => admitted > 200);
    const replica = await group.replica.client({ password });
    await group.master.kill();
    const killedAtMs = performance.now();
    await eventually(() => lastAtMs > killedAtMs + 400 && store.health().ok, { withinMs: 60_000 });
    running = false;
    await Promise.all(load);
    const text = await replica.hget(accountKey("tg", account("fail")), "d");
    const counted = Number(text?.split(" ")[1]);
    const unknown = failures.filter(({ executed }) => executed === "unknown").length;
    // A call whose answer was lost may have been about a request of each client.
    const most = admitted + CLIENTS * unknown;
    assert.ok(
      counted <= most,
      `${counted} counted, ${admitted} admitted, ${unknown} calls unknown`,
    );
    assert.ok(failures.length > 0, "the failover was noticed");
    assert.ok(counted > 0);
    for (const { message } of failures) assert.ok(!message.includes(password), message);
  });
});

describe("a reply of a Sentinel that is not the one of its command", () => {
  const asks = (what: string) => (name: string, args: readonly string[]) =>
    name === "sentinel" && args[0] === what;
  const isMaster = asks("get-master-addr-by-name");
  const isReplicas = asks("replicas");
  const isBoth = (name: string) => name === "sentinel";
  const NULL = Buffer.from("$-1\r\n");
  let group: Awaited<ReturnType<typeof startSentinel>>;
  beforeAll(async () => {
    group = await startSentinel(undefined, undefined, { allLive: true });
  });
  afterAll(() => group.close());
  for (const [what, isMeant, replies, times] of [
    ["one more before the master", isMaster, (reply: Buffer) => [NULL, reply], 1],
    ["one more behind the replicas", isReplicas, (reply: Buffer) => [reply, NULL], 1],
    ["the master twice", isMaster, (reply: Buffer) => [reply, reply], 1],
    ["the master lost", isMaster, () => [], 1],
    ["the replicas lost", isReplicas, () => [], 1],
    ["both lost", isBoth, () => [], 2],
  ] as const) {
    it(`ends that connection, and the Sentinel is asked on another: ${what}`, async (t) => {
      await using proxy = await openReplyProxy(group.sentinel);
      const url = `redis+sentinel://127.0.0.1:${proxy.port}/main`;
      const link = connectRedis({ address: { kind: "sentinel", url, shown: url } });
      t.onTestFinished(() => link.close());
      await link.tried;
      const before = proxy.accepted();
      let left: number = times;
      const garble: Garble = ({ name, args }, reply) => {
        if (left === 0 || !isMeant(name, args)) return undefined;
        left -= 1;
        return replies(reply);
      };
      proxy.behave(garble);
      await eventually(() => assert.equal(proxy.accepted(), before + 1));
      assert.equal(left, 0);
      await eventually(() => assert.equal(link.split(), undefined));
      assert.equal(proxy.accepted(), before + 1);
    });
  }
});
