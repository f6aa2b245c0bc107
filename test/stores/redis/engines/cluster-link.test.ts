import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { afterAll, beforeAll, describe, it } from "vitest";
import { bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { each } from "../../../support/each.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import {
  startCluster,
  startClusterNode,
  type TestCluster,
} from "../../../support/redis/redis-engines.ts";
import { chargeWhileMoving, namesOf } from "../../quotas/redis/moving-slot.ts";
import { account, open, perDay, spend } from "../../quotas/redis/redis-kit.ts";

describe("Redis Cluster", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  it("counts exactly, with accounts on every node and one call a bucket", async (t) => {
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const names = Array.from({ length: 300 }, (_, i) => `all${i}`);
    const answers = await Promise.all(
      names.flatMap((name) =>
        Array.from({ length: 5 }, () => spend(store, account(name), perDay(3))),
      ),
    );
    assert.equal(answers.filter(({ admitted }) => admitted).length, 900);
    assert.equal(new Set(names.map((name) => bucketOf(account(name)))).size, 16);
    const calls = await Promise.all(cluster.nodes.map((node) => node.calls("evalsha")));
    assert.ok(
      each(calls).every((each) => each > 0),
      `${calls}`,
    );
    assert.ok(calls.reduce((sum, each) => sum + each, 0) <= 40, `${calls}`);
    assert.deepEqual(failures, []);
    assert.deepEqual(store.health(), { ok: true });
  });

  it("is well as soon as its store is open: each node that owns keys is connected then", async (t) => {
    // Told of one node only, it learns of the others from that one.
    const url = cluster.address.url.replace(/,[^/]*/, "");
    const { store } = await open({ ...cluster.address, url });
    t.onTestFinished(() => store.close());
    assert.deepEqual(store.health(), { ok: true });
  });

  it("says what keeps it from one node, while another tells it who owns the slots", async (t) => {
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const [name = ""] = namesOf([0], 1, "shut");
    const node = cluster.clients[cluster.ownerOf(bucketSlot(0))];
    assert.ok(node);
    t.onTestFinished(async () => void (await node.config("SET", "requirepass", "")));
    await node.config("SET", "requirepass", "secret");
    await node.call("AUTH", "secret");
    await node.call("CLIENT", "KILL", "TYPE", "normal");
    await eventually(() =>
      assert.match(store.health().why ?? "", /asks for a password \(buckets? 0\b/),
    );
    await store.charge(account(name), perDay(3));
    assert.match(failures.at(-1)?.message ?? "", /asks for a password \(bucket 0 at \S+\)$/);
  });

  it("names the nodes that it is not connected to, their buckets, and what keeps it from each", async (t) => {
    const own = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    t.onTestFinished(() => own.close());
    const link = connectRedis({ address: own.address });
    t.onTestFinished(() => link.close());
    await eventually(() => assert.deepEqual(link.health(), { ok: true }));
    const at = (node: number) => {
      const buckets = [...Array(16).keys()].filter((one) => own.ownerOf(bucketSlot(one)) === node);
      return `(buckets ${buckets.join(", ")} at 127.0.0.1:${own.nodes[node]?.port})`;
    };
    const why = () => {
      const health = link.health();
      return health.ok ? "" : health.failure.message;
    };
    await own.nodes[1]?.kill();
    const refused = `Redis cannot be reached: ECONNREFUSED ${at(1)}`;
    await eventually(() => assert.equal(why(), refused));
    // This one takes connections, and says nothing on them.
    await own.clients[2]?.call("CLIENT", "KILL", "TYPE", "normal");
    own.nodes[2]?.stop();
    const told = new Set<string>();
    await eventually(() => {
      if (why().includes(at(2))) told.add(why());
      return told.size > 1;
    });
    const expected = ["not connected yet", "it does not reply"].map((one) => {
      return `Redis cannot be reached: ${one} ${at(2)}; ${refused}`;
    });
    assert.deepEqual([...told], expected);
  });

  it("lists and lifts bans of every node, and tells the other gateways", async (t) => {
    const [one, other] = [await open(cluster.address), await open(cluster.address)];
    t.onTestFinished(
      async () => void (await Promise.all([one.store.close(), other.store.close()])),
    );
    const quotaRequest = perDay(1, { ...DEFAULT_BANS, strikes: 1, graceMs: 0 });
    const names = Array.from({ length: 12 }, (_, i) => `ban${String(i).padStart(2, "0")}`);
    for (const name of names) {
      await eventually(
        async () =>
          (await spend(one.store, account(name), quotaRequest)).decision.ban !== undefined,
      );
      assert.ok((await spend(other.store, account(name), quotaRequest)).decision.ban);
    }
    const listed = await one.store.bans();
    assert.deepEqual(listed.map((ban) => ban.account).sort(), names);
    for (const name of names) assert.equal(await one.store.liftBan(account(name)), true);
    const liftedAtMs = performance.now();
    const { stalledMs } = await watchStalls(async () => {
      for (const name of names) {
        await eventually(async () => (await spend(other.store, account(name), perDay(9))).admitted);
      }
    });
    assert.ok(performance.now() - liftedAtMs < 1_000 + stalledMs);
    assert.deepEqual(await one.store.bans(), []);
  });

  it("fails no request and charges none twice while a slot moves under load", async (t) => {
    const opened = await open(cluster.address, { historyMs: 86_400_000 });
    t.onTestFinished(() => opened.store.close());
    const bucket = 3;
    const names = namesOf([bucket], 24, "m");
    await chargeWhileMoving({ cluster, opened, bucket, names, clients: 48 });
  });

  it("lets any number of requests wait for a node that is being connected, without a warning", async (t) => {
    const warnings: string[] = [];
    const onWarning = ({ name, message }: Error) => warnings.push(`${name}: ${message}`);
    process.on("warning", onWarning);
    t.onTestFinished(() => void process.off("warning", onWarning));
    // It takes connections, and says nothing on them until it goes on.
    const silent = cluster.nodes[1];
    silent?.stop();
    t.onTestFinished(() => silent?.cont());
    const link = connectRedis({ address: cluster.address });
    t.onTestFinished(() => link.close());
    await eventually(() => link.partOf(0)?.node !== "no node");
    const keys = Array.from({ length: 16 * 20 }, (_, i) => `tg:{${i % 16}}:none`);
    const asked = Promise.all(keys.map((key) => link.send(key, "get", [key])));
    silent?.cont();
    const answers = await asked;
    assert.ok(each(answers).every((answer) => answer === null));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(warnings, []);
  });

  it("is found by way of a later address, if the first one is of a node that was removed from it", async (t) => {
    const removed = await startClusterNode();
    t.onTestFinished(() => removed.close());
    const url = cluster.address.url.replace("//", `//127.0.0.1:${removed.port},`);
    const { store } = await open({ ...cluster.address, url });
    t.onTestFinished(() => store.close());
    await eventually(() => assert.deepEqual(store.health(), { ok: true }));
    const looked = async () => {
      return Promise.all(cluster.nodes.map((node) => node.calls("cluster\\|slots")));
    };
    const before = await looked();
    // Three times the pause after which a map is asked for again.
    await sleep(600);
    assert.deepEqual(await looked(), before, "nobody asks for the map on and on");
    const watcher = await removed.client();
    const connections = async () => {
      return /total_connections_received:\d+/.exec(await watcher.info("stats"))?.[0];
    };
    const reached = await connections();
    await store.bans();
    await store.bans();
    assert.equal(await connections(), reached, "it is not connected to for each list");
    const names = namesOf([0, 15], 1, "removed");
    for (const name of each(names))
      assert.ok((await spend(store, account(name), perDay(3))).admitted);
  });

  it("hears each channel by one connection, after the end of the one before too, until it is closed", async (t) => {
    const link = connectRedis({ address: cluster.address });
    t.onTestFinished(() => link.close());
    const channels = ["heard:1", "heard:2"];
    const nothing = () => undefined;
    const ups: string[] = [];
    for (const channel of channels) {
      link.subscribe(channel, {
        ...{ message: nothing, refused: nothing },
        up: () => void ups.push(channel),
      });
    }
    const heardBy = async () => {
      const replies = await Promise.all(
        cluster.clients.map((node) => node.call("PUBSUB", "NUMSUB", ...channels)),
      );
      const of = (i: number) => replies.map((reply) => Number((reply as unknown[])[i]));
      return [1, 3].map((i) => of(i).reduce((sum, count) => sum + count, 0));
    };
    await eventually(async () => assert.deepEqual(await heardBy(), [1, 1]));
    ups.length = 0;
    for (const node of cluster.clients) await node.call("CLIENT", "KILL", "TYPE", "pubsub");
    await eventually(() => assert.deepEqual([...ups].sort(), channels));
    assert.deepEqual(await heardBy(), [1, 1]);
    await link.close();
    await eventually(async () => assert.deepEqual(await heardBy(), [0, 0]));
  });

  it("has no node for the slots of one that it has forgotten, until another takes them", async (t) => {
    const own = await startCluster(2);
    t.onTestFinished(() => own.close());
    const link = connectRedis({ address: own.address });
    t.onTestFinished(() => link.close());
    await eventually(() => assert.deepEqual(link.health(), { ok: true }));
    const [kept, gone] = own.clients;
    assert.ok(kept !== undefined && gone !== undefined);
    const id = String(await gone.call("CLUSTER", "MYID"));
    await own.nodes[1]?.kill();
    const bucket = [...Array(16).keys()].findIndex((one) => own.ownerOf(bucketSlot(one)) === 1);
    const key = `tg:{${bucket}}:none`;
    const ask = () => link.send(key, "get", [key]);
    const whyNot = () => ask().then(String, ({ message }: Error) => message);
    await eventually(async () => assert.match(await whyNot(), /bucket \d+ at /));
    await kept.call("CLUSTER", "FORGET", id);
    await eventually(async () => {
      assert.equal(
        await whyNot(),
        "Redis cannot be reached: no node of the cluster owns the slot yet",
      );
    });
    assert.deepEqual(link.partOf(bucket)?.node, "no node");
    // It knows no node that could come back, and nobody asks it for a key.
    const url = own.address.url.replace(/,[^/]*/, "");
    const idle = connectRedis({ address: { ...own.address, url } });
    t.onTestFinished(() => idle.close());
    await eventually(() => {
      const nodes = [...Array(16).keys()].map((one) => idle.partOf(one)?.node);
      assert.ok(nodes[bucket] === "no node" && new Set(nodes).size === 2, `${nodes}`);
    });
    await kept.call("CLUSTER", "ADDSLOTSRANGE", 8192, 16_383);
    await eventually(() => assert.deepEqual(idle.health(), { ok: true }));
    await eventually(async () => assert.equal(await ask(), null));
    await eventually(() => assert.deepEqual(link.health(), { ok: true }));
  });

  it("says of the slots of a node that was reset that the Cluster knows no address of it", async (t) => {
    const own = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    t.onTestFinished(() => own.close());
    const link = connectRedis({ address: own.address });
    t.onTestFinished(() => link.close());
    await eventually(() => assert.deepEqual(link.health(), { ok: true }));
    const bucketsOf = (node: number) => {
      return [...Array(16).keys()].filter((one) => own.ownerOf(bucketSlot(one)) === node);
    };
    const [moved, [lost]] = [bucketsOf(0)[0] as number, bucketsOf(1)];
    // Nobody asks for it, so the link still knows it at the first node.
    await own.move(bucketSlot(moved), 1, async () => {});
    // The link may ask any node: each has to have heard of the move, and later of the reset.
    const eachKnows = (of: readonly Redis[], what: RegExp) => {
      return eventually(async () => {
        for (const one of of) assert.match(String(await one.call("CLUSTER", "NODES")), what);
      });
    };
    const [first, reset, third] = own.clients;
    assert.ok(first !== undefined && reset !== undefined && third !== undefined);
    const id = String(await reset.call("CLUSTER", "MYID"));
    const hasMoved = new RegExp(`^${id} .* ${bucketSlot(moved)}( |$)`, "m");
    await eachKnows([first, third], hasMoved);
    await reset.call("CLUSTER", "RESET", "HARD");
    await eachKnows([first, third], /noaddr/);
    const whyNot = (bucket: number | undefined) => {
      const key = `tg:{${bucket}}:none`;
      return link.send(key, "get", [key]).then(String, ({ message }: Error) => message);
    };
    const unaddressed =
      "Redis cannot be reached: the Cluster knows no address of the node that has these slots (CLUSTER NODES: noaddr)";
    assert.equal(await whyNot(moved), unaddressed);
    await eventually(async () => assert.equal(await whyNot(lost), unaddressed));
    assert.equal(link.partOf(Number(lost))?.node, "no node");
    const health = link.health();
    assert.ok(!health.ok);
    const buckets = [moved, ...bucketsOf(1)].toSorted((a, b) => a - b).join(", ");
    assert.equal(health.failure.message, `${unaddressed} (buckets ${buckets} at no node)`);
    const reached = async () => {
      const stats = await reset.info("stats");
      return Number(/total_connections_received:(\d+)/.exec(stats)?.[1]);
    };
    const before = await reached();
    await sleep(1_500);
    assert.ok((await reached()) - before <= 2, "the reset node is not connected to on and on");
  });
});
