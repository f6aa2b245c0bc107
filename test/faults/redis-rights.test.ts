import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { it } from "vitest";
import { parseStoreAddress } from "../../src/config/schema/addresses.ts";
import { failOverStore, removeStore, whyUnusable } from "../../src/stores/open-stores.ts";
import { each } from "../support/each.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { addReplica, startCluster } from "../support/redis/redis-engines.ts";
import { openTcpProxy, type TcpProxy } from "../support/wire/tcp-proxy.ts";
import {
  askTimed,
  changes,
  dayUsed,
  metric,
  openRedisHouse,
  readyWithin,
  windowUsed,
} from "./redis-house.ts";

/** Takes the store away for as long as it needs to be noticed, with something owed to it. */
async function away(
  house: TestGateway,
  proxy: TcpProxy,
  key: string,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  await proxy.refuse();
  await eventually(async () => {
    assert.ok([200, 429].includes((await askTimed(house, key)).status));
    return changes(house).includes("store_away");
  });
  await meanwhile();
  await proxy.listen();
  await readyWithin(house, 3_000);
}

/** The rights that docs/operations.md lists, and those that it adds for `prove`. */
async function documentedRights(): Promise<readonly (readonly string[])[]> {
  const text = await readFile(new URL("../../docs/operations.md", import.meta.url), "utf8");
  const lines = [...text.matchAll(/^ACL SETUSER tollgate (.*)$/gm)].map(([, rights = ""]) => {
    return rights.replace("PASSWORD", "s3cret").split(" ");
  });
  assert.equal(lines.length, 2, "both lines are there");
  return lines;
}

const TOKENS = { hold: 1, max: 9, used: ["header x-used"] };

/** Charges a meter and a cap, settles, reads what was used, and resets it. */
async function useMeterAndCap(house: TestGateway): Promise<void> {
  house.backend.answer((_seen, response) => {
    response.writeHead(200, { "X-Used": 5 }).end("[]");
  });
  const capped = await house.issue({ caps: { day: 9 } });
  assert.equal((await house.ask(capped.key, "/v1/chat", { method: "POST" })).status, 200);
  const used = (window: string) => windowUsed(house, capped.id, window);
  await eventually(async () => {
    assert.deepEqual([await used("tokens.year"), await used("key.day")], [5, 1]);
  });
  const reset = `/api/accounts/${capped.account}/reset`;
  assert.equal((await house.admin(reset, { method: "POST", body: "{}" })).status, 200);
  assert.deepEqual([await used("tokens.year"), await used("key.day")], [0, 0]);
}

it("a user with the rights that docs/operations.md lists can do all that a gateway does, and no right is missing", async () => {
  const [rule = []] = await documentedRights();
  const server = await startRedis();
  const proxy = await openTcpProxy(server);
  try {
    const admin = await server.client();
    await admin.call("ACL", "SETUSER", "tollgate", ...rule);
    await admin.call("ACL", "SETUSER", "default", "resetpass", ">other");
    await admin.config("SET", "maxmemory-policy", "allkeys-lru");
    // A busy machine is late for the 50 ms of the product, and the store is not back then.
    await using house = await openRedisHouse(proxy, {
      environment: { api: null, costs: [{ match: "POST /v1/chat", meters: { tokens: TOKENS } }] },
      config: {
        store: `redis://tollgate:s3cret@127.0.0.1:${proxy.port}`,
        keys: "redis",
        history: "400d",
        plans: { free: { second: 1, day: 60, meters: { tokens: { year: 90 } } } },
        bans: { strikes: 1, within: "1m", grace: "0s", duration: "1h" },
      },
    });
    const { key, account, id } = await house.issue();
    await useMeterAndCap(house);
    await eventually(async () => (await askTimed(house, key)).code === "key_banned");
    assert.equal((await house.admin("/api/bans")).status, 200);
    const lifted = await house.admin(`/api/bans/${account}`, { method: "DELETE", body: "{}" });
    assert.equal(lifted.status, 200, await lifted.text());
    assert.ok((await dayUsed(house, account)) >= 1);
    const stored = (await admin.keys(`tg:*:production:${account}`))[0] ?? "";
    await admin.del(stored);
    await admin.set(stored, "not a hash");
    await eventually(async () => (await askTimed(house, key)).status === 200, { everyMs: 300 });

    await away(house, proxy, key, () => admin.set(stored, "not a hash"));
    // The keys have a connection of their own, which may come back a moment later.
    const rotate = () => house.admin(`/api/keys/${id}/rotate`, { method: "POST", body: "{}" });
    await eventually(async () => (await rotate()).ok, { everyMs: 100 });
    await eventually(async () =>
      assert.equal(await metric(house, "tollgate_store_unsafe_policy"), 1),
    );
    await eventually(() => assert.deepEqual(changes(house), ["store_away", "store_back"]));
    const denied = (await admin.call("ACL", "LOG")) as unknown[][];
    assert.deepEqual(
      denied.map((each) => each[each.indexOf("object") + 1]),
      [],
      "nothing was refused",
    );
    const said = JSON.stringify([...house.said, ...house.lines]);
    assert.ok(!said.includes("s3cret"), "the password is in no line");
  } finally {
    await proxy.close();
    await server.close();
  }
});

it("that user can use the prefix of prove, fail a Cluster over and remove the prefix, with the rights of prove alone", async (t) => {
  const cluster = await startCluster(1);
  t.onTestFinished(() => cluster.close());
  const replica = await addReplica(cluster);
  t.onTestFinished(() => replica.close());
  const nodes = [...cluster.clients, await replica.client()];
  const permit = async (rights: readonly string[]) => {
    for (const node of each(nodes)) await node.call("ACL", "SETUSER", "tollgate", ...rights);
  };
  const [rule = [], more = []] = await documentedRights();
  await permit([...rule, "+cluster|slots", "+asking"]);
  const url = cluster.address.url.replace("//", "//tollgate:s3cret@");
  const parsed = parseStoreAddress(url);
  assert.ok("value" in parsed && parsed.value.kind !== "memory");
  const address = parsed.value;
  assert.match(
    (await whyUnusable(address, "prove-x")) ?? "",
    /lacks a permission, for a key: docs\/operations\.md/,
  );
  const refused = await failOverStore(address);
  assert.match(refused.ok ? "" : refused.why, /lacks a permission, for cluster\|failover: /);
  await permit(more);
  assert.equal(await whyUnusable(address, "prove-x"), undefined);
  const master = `127.0.0.1:${replica.port}`;
  assert.deepEqual(await failOverStore(address), { ok: true, master });
  await eventually(() => removeStore(address, "prove-x"));
  assert.deepEqual(await nodes.at(-1)?.keys("prove-x:*"), []);
});

it("a user without the right to SELECT leaves database 0 alone: the store is away, with code NOPERM", async () => {
  const server = await startRedis();
  try {
    const admin = await server.client();
    const rights = "on >s3cret ~tg:* &tg:* +@all -select".split(" ");
    await admin.call("ACL", "SETUSER", "tollgate", ...rights);
    await using house = await startTestGateway({
      config: { store: `redis://tollgate:s3cret@127.0.0.1:${server.port}/1` },
    });
    const { key } = await house.issue();
    assert.equal((await house.ask(key)).status, 200, "decided without the store");
    const told = await eventually(
      () => house.said.find(({ kind }) => kind === "store_away") ?? assert.fail("not yet"),
    );
    assert.equal(told.code, "NOPERM");
    assert.match(String(told.why), /permission/);
    assert.equal((await fetch(`${house.adminUrl}/readyz`)).status, 503);
    assert.equal(await admin.dbsize(), 0);
  } finally {
    await server.close();
  }
});

it("an operator who asks for what needs a missing right is told so, and not to try again shortly", async () => {
  const server = await startRedis();
  try {
    const admin = await server.client();
    const rights = "on >s3cret ~tg:* &tg:* +@all -scan".split(" ");
    await admin.call("ACL", "SETUSER", "tollgate", ...rights);
    const store = `redis://tollgate:s3cret@127.0.0.1:${server.port}`;
    await using house = await startTestGateway({ config: { store } });
    const bans = await house.admin("/api/bans");
    assert.equal(bans.status, 503);
    assert.match(await bans.text(), /unavailable: Redis: the user lacks a permission/);
  } finally {
    await server.close();
  }
});

it("a store that refuses strikes for the missing right to HDEL is away, by a line that names it, until the right is there", async () => {
  const server = await startRedis();
  try {
    const admin = await server.client();
    const permit = (right: string) => {
      return admin.call(
        "ACL",
        "SETUSER",
        "tollgate",
        ..."on >s3cret ~tg:* &tg:* +@all".split(" "),
        right,
      );
    };
    await permit("-hdel");
    const store = `redis://tollgate:s3cret@127.0.0.1:${server.port}`;
    await using house = await startTestGateway({ config: { store } });
    const told = await eventually(
      () => house.said.find(({ kind }) => kind === "store_away") ?? assert.fail("not yet"),
    );
    assert.deepEqual([told.code, /for hdel: /.test(String(told.why))], ["NOPERM", true]);
    const probes = async () =>
      Number(/cmdstat_zadd:calls=(\d+)/.exec(await admin.info("commandstats"))?.[1]);
    const atLeast = (await probes()) + 2;
    await eventually(async () => (await probes()) >= atLeast);
    assert.equal((await fetch(`${house.adminUrl}/readyz`)).status, 503);
    assert.deepEqual(changes(house), ["store_away"]);
    await permit("+hdel");
    await readyWithin(house, 3_000);
  } finally {
    await server.close();
  }
});
