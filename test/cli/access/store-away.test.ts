import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterAll, beforeAll, describe, it } from "vitest";
import { freePort, startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const PASSWORD = "hunter2-hunter2";

describe("verbs whose store is away", () => {
  let [redis, folder, file] = [] as unknown as [TestRedis, Folder, string];
  let id: string;
  beforeAll(async () => {
    redis = await startRedis({ args: ["--requirepass", PASSWORD] });
    folder = await openFolder();
    const store = `redis://:${PASSWORD}@127.0.0.1:${redis.port}`;
    file = await writeConfig(folder, { store, keys: "redis" });
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    ({ id } = jsonOf<{ id: string }>(await runVerb([...create, "--config", file])));
  });
  afterAll(async () => {
    await redis.close();
    await folder[Symbol.asyncDispose]();
  });

  const verbs = () => [
    ["keys", "create", "--env", "production", "--plan", "free"],
    ["keys", "list"],
    ["keys", "show", id],
    ["keys", "rotate", id],
    ["keys", "revoke", id],
    ["bans", "list"],
    ["bans", "lift", id],
    ["usage", id],
  ];

  /** Each ends with 1, says what failed, where and why in one line, and nothing else. */
  async function allFail(why: RegExp): Promise<void> {
    await Promise.all(
      verbs().map(async (args) => {
        const said = await runVerb([...args, "--config", file, "--json"]);
        assert.deepEqual({ status: said.status, out: said.out }, { status: 1, out: "" }, `${args}`);
        assert.match(said.err, /^Cannot (read the keys in|ask the store) redis:\S+: Redis\b.*\n$/);
        assert.ok(said.err.includes(`127.0.0.1:${redis.port}`), said.err);
        assert.match(said.err, why);
        assert.ok(!said.err.includes(PASSWORD), said.err);
      }),
    );
  }

  it("is not what fails where a key file cannot be read: what needs no key is done, and the rest says why", async () => {
    const store = `redis://:${PASSWORD}@127.0.0.1:${redis.port}`;
    await using own = await openFolder();
    const unread = await writeConfig(own, { store, keys: "." });
    const listed = await runVerb(["bans", "list", "--config", unread, "--json"]);
    assert.deepEqual([listed.status, listed.out.trim()], [0, "[]"], listed.err);
    const said = await runVerb(["usage", id, "--config", unread, "--json"]);
    assert.deepEqual([said.status, said.out], [1, ""]);
    assert.match(said.err, /^Cannot ask .*: Cannot read the keys file .*\(EISDIR\)\n$/);
  });

  it("and is full or a replica, name it when they change keys, and change none", async () => {
    const admin = await redis.client({ password: PASSWORD });
    const before = await admin.hgetall("tg:{0}:keys");
    const refused = async (why: string) => {
      for (const args of [...verbs().slice(0, 1), ["keys", "revoke", id]]) {
        const { status, out, err } = await runVerb([...args, "--config", file]);
        const line = `Cannot change the keys in redis://:***@127.0.0.1:${redis.port}: Redis: ${why}\n`;
        assert.deepEqual([status, out, err], [1, "", line]);
      }
    };
    await admin.config("SET", "maxmemory", "1");
    await refused("it is out of memory: raise maxmemory");
    await admin.config("SET", "maxmemory", "0");
    await admin.replicaof("127.0.0.1", redis.port);
    await refused("it is a read-only replica");
    await admin.replicaof("NO", "ONE");
    assert.deepEqual(await admin.hgetall("tg:{0}:keys"), before);
  });

  it("and answers each call in the same two letters, say that the answer cannot be read", async (t) => {
    const server = createServer((socket) => {
      // A client sends an array of strings: each command begins with one star.
      socket
        .on("error", () => undefined)
        .on("data", (sent) => {
          socket.write("+OK\r\n".repeat(String(sent).match(/^\*/gm)?.length ?? 0));
        });
    });
    t.onTestFinished(() => void server.close());
    await once(server.listen(0, "127.0.0.1"), "listening");
    const store = `redis://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await using own = await openFolder();
    const odd = await writeConfig(own, { store, more: "history: 400d\n" });
    const made = ["--env", "production", "--plan", "free", "--account", "acme", "--config", odd];
    assert.equal((await runVerb(["keys", "create", ...made])).status, 0);
    const why = `Cannot ask the store ${store}: Cannot read the store's answer: `;
    for (const verb of [
      "bans list",
      "bans add --for 1h acme",
      "bans lift acme",
      "accounts reset acme",
      "usage acme",
      "usage acme --days 30",
      "usage --month 2026-10 --csv",
    ]) {
      const { status, out, err } = await runVerb([...verb.split(" "), "--config", odd]);
      const unread = /it is (no (list|number)|that of another command)\n$/;
      assert.deepEqual([status, out, err.replace(unread, "")], [1, "", why], verb);
    }
    const unknown = await runVerb(["deprecations", "--config", odd, "--json"]);
    assert.ok(unknown.err.startsWith(`Cannot tell who calls them: ${why}`), unknown.err);
    assert.equal(unknown.status, 1);
    const keys = await writeConfig(own, { store, keys: "redis" });
    const { status, err } = await runVerb(["keys", "list", "--config", keys]);
    assert.equal(status, 1);
    assert.match(err, /^Cannot read the keys in redis:\S+: Cannot read the store's answer: it is /);
  });

  it("and takes connections, but answers nothing, end with 1 and say so", async () => {
    redis.stop();
    await allFail(/Redis cannot be reached: |Redis: no answer in/);
    redis.cont();
    assert.equal((await runVerb(["usage", id, "--config", file])).status, 0);
  });

  it("and takes no connection, end with 1 and say so", async () => {
    await redis.kill();
    await allFail(/Redis cannot be reached: /);
  });

  it.each(["redis://", "redis+sentinel://", "redis+cluster://"])(
    "and takes no connection at %s, say what keeps them from it",
    async (scheme) => {
      const port = await freePort();
      const name = scheme.includes("sentinel") ? "/mymaster" : "";
      const store = `${scheme}127.0.0.1:${port}${name}`;
      const away = await writeConfig(folder, { store, keys: "redis" });
      const { status, err } = await runVerb(["keys", "list", "--config", away]);
      const line = `Cannot read the keys in ${store}: Redis cannot be reached: ECONNREFUSED`;
      assert.equal(status, 1);
      assert.ok(err.startsWith(line), err);
    },
  );

  it("and has other keys, for an account known from the key file: usage says why", async () => {
    const filed = await writeConfig(folder, { store: redis.url });
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const made = jsonOf<{ id: string }>(await runVerb([...create, "--config", filed]));
    const said = await runVerb(["usage", made.id, "--config", filed, "--json"]);
    assert.deepEqual({ status: said.status, out: said.out }, { status: 1, out: "" });
    assert.match(said.err, /^Cannot ask the store redis:\S+: Redis cannot be reached: /);
  });
});
