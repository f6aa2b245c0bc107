import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "vitest";
import { DAY_MS } from "../../../src/core/quota/days.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openTcpProxy } from "../../support/wire/tcp-proxy.ts";
import { openAudited } from "../audit-kit.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const CREATE = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
const KNOWN = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
const SOON = /^[^\n]+: it takes effect within a second\n$/;

describe("the running gateway", () => {
  it("is told to read the records after a change, and not after a look at them", async () => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.writeHead(404).end("{}");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    await using folder = await openFolder();
    const { port } = server.address() as AddressInfo;
    const file = await writeConfig(folder, { admin: port });
    const refreshes = async (...verb: string[]) => {
      asked.length = 0;
      const said = await runVerb([...verb, "--config", file]);
      assert.equal(said.status, 0, said.err);
      return asked.filter((one) => one === "POST /api/keys/refresh").length;
    };
    try {
      const create = ["keys", "create", "--env", "production", "--plan", "free"];
      assert.equal(await refreshes(...create), 1);
      const listed = await runVerb(["keys", "list", "--json", "--config", file]);
      const [key] = jsonOf<{ id: string; account: string }[]>(listed);
      assert.equal(await refreshes("keys", "list"), 0);
      assert.equal(await refreshes("accounts", "show", key?.account ?? ""), 0);
      assert.equal(await refreshes("keys", "revoke", key?.id ?? ""), 1);
    } finally {
      server.close();
    }
  });

  it("that does not take the token of a command is not asked, and the command says when it works", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const token = ["$", "{TOLLGATE_ADMIN_TOKEN:-}"].join("");
    const file = await writeConfig(folder, { admin, token });
    const env = { TOLLGATE_ADMIN_TOKEN: "a-token-of-the-service-and-not-of-the-shell" };
    await using gateway = startTollgate(["start", "--config", file], { env });
    await gateway.line(({ msg }) => msg === "serving");
    const none = await runVerb([...CREATE, "--config", file]);
    assert.equal(none.status, 0);
    assert.match(none.err, SOON);
    assert.match(jsonOf<{ key: string }>(none).key, /_live_/);
    const right = await runVerb([...CREATE, "--config", file], { env });
    assert.deepEqual([right.status, right.err], [0, ""]);
  });

  it("that has no admin listener may not be there, and is not spoken of", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, { admin: "off" });
    assert.equal((await runVerb([...CREATE, "--config", file])).err, "");
  });

  it("that listens at any free port is not looked for at the usual one of HTTP", async () => {
    await using folder = await openFolder();
    // One of the sixteen million addresses of this machine, at which nothing else listens.
    const host = `127.${[1, 2, 3].map(() => 1 + Math.floor(Math.random() * 254)).join(".")}`;
    const asked: string[] = [];
    const server = createServer(({ url = "" }, response) => {
      asked.push(url);
      response.end("{}");
    });
    // Others than root may not listen there, on some systems.
    await new Promise<void>((resolve) => {
      server.on("error", () => resolve()).listen(80, host, resolve);
    });
    const file = await writeConfig(folder, { admin: 0 });
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace('listen: "127.0.0.1:0"', `listen: "${host}:0"`));
    const said = await runVerb([...CREATE, "--config", file], {
      env: { TOLLGATE_ADMIN_TOKEN: "a-token-of-the-admin-listener-0123456789" },
    });
    server.close();
    assert.deepEqual([said.status, said.err, asked], [0, "", []]);
  });

  it("that is not there is waited for by no command, and not spoken of", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    assert.equal((await runVerb([...CREATE, "--config", file])).err, "");
  });

  it("that lacks the plan of an account fails the command that put it there, and no other one", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const started = await writeConfig(folder, { admin });
    await using gateway = startTollgate(["start", "--config", started]);
    await gateway.line(({ msg }) => msg === "serving");
    // As if a reload of the gateway had dropped the plan after the command had read the file.
    const file = join(folder.path, "before.yaml");
    const text = await readFile(started, "utf8");
    await writeFile(file, text.replace(/^plans:\n/m, "plans:\n  gone: { minute: 5 }\n"));
    const create = (plan: string, account: string) => {
      const named = ["--env", "production", "--plan", plan, "--account", account];
      return runVerb(["keys", "create", ...named, "--json", "--config", file]);
    };
    const made = await create("gone", "acme");
    const words =
      /^Requests are answered 503 plan_missing: [^\n]* plan gone, and the account acme /;
    assert.deepEqual([made.status, jsonOf<{ account: string }>(made).account], [1, "acme"]);
    assert.match(made.err, words);
    const { why } = await gateway.line(({ msg }) => msg === "config_warning");
    assert.match(String(why), /there is no plan gone, and the account acme has it/);
    const move = ["accounts", "set", "acme", "--config", file, "--plan"];
    const others = [
      await create("free", "other"),
      await runVerb(["accounts", "set", "acme", "--meta", "tenant=1", "--config", file]),
      await runVerb([...move, "free"]),
    ];
    assert.deepEqual(
      others.map(({ status, err }) => [status, err]),
      Array(3).fill([0, ""]),
    );
    const moved = await runVerb([...move, "gone"]);
    assert.equal(moved.status, 1);
    assert.match(moved.err, words);
  });

  it("that has no limits for an account fails the command by which one more of its keys works, and no other one", async () => {
    await using house = await openAudited({ config: { plans: { free: { minute: 60 } } } });
    const text = await readFile(house.file, "utf8");
    const other = join(house.directory, "other.yaml");
    await writeFile(other, text.replace(/"?free"?:/, "gone: { minute: 5 }\n  free:"));
    const run = (verb: string, file = house.file, more = {}) =>
      runVerb([...verb.split(" "), "--config", file], more);
    const ended = { nowMs: Date.now() - 2 * DAY_MS };
    const create = "keys create --env production --plan gone --account acme --json";
    const { id } = jsonOf<{ id: string }>(await run(`${create} --expires 1d`, other, ended));
    const told = async (verb: string, more = {}, file = house.file) => {
      const { status, err } = await run(verb, file, more);
      const isTold = /^Requests are answered 503 [^\n]* plan gone, and the account acme /.test(err);
      return [status, isTold ? "told" : err];
    };
    assert.deepEqual(await told(`keys set ${id} --name Ada`), [0, ""], "it is expired");
    assert.deepEqual(await told(`keys set ${id} --expires never`), [1, "told"]);
    assert.deepEqual(await told(`keys set ${id} --expires 30d`), [0, ""], "it worked before");
    const made = await run("keys create --account acme --json");
    assert.deepEqual([made.status, /503 plan_missing/.test(made.err)], [1, true]);
    assert.deepEqual(await told(`keys rotate ${jsonOf<{ id: string }>(made).id}`), [0, ""]);
    assert.deepEqual(await told("keys create --env production --plan free"), [0, ""]);
    const plain = { key: KNOWN, account: "acme", plan: "gone", environment: "production" };
    const stdin = JSON.stringify(plain);
    assert.deepEqual(await told("keys import - --plain", { stdin }, other), [0, ""]);
    assert.deepEqual(await told("keys revoke acme"), [0, ""]);
    const remote = await told(`keys create --account acme --admin ${house.adminUrl}`);
    assert.equal(remote[0], 1);
    assert.match(String(remote[1]), /^Cannot issue a key of the account acme: no limits are /);
  });

  it("that cannot read the records says why, although a worker of it has not answered either", async () => {
    const server = createServer((_, response) => {
      response.setHeader("X-Tollgate-Missing", "worker 2");
      response.end(
        JSON.stringify({ ok: false, read: false, why: "Redis is away", withoutLimits: [] }),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    await using folder = await openFolder();
    const { port } = server.address() as AddressInfo;
    const file = await writeConfig(folder, { admin: port });
    const { err } = await runVerb([...CREATE, "--config", file]);
    server.close();
    assert.equal(err, "The gateway cannot read this change: Redis is away\n");
  });

  it("that cannot read the records says why, and the command that it cannot read the change", async () => {
    const redis = await startRedis();
    await using proxy = await openTcpProxy(redis);
    await using folder = await openFolder();
    try {
      const [admin = 0] = await freePorts(1);
      const behind = { admin, store: `redis://127.0.0.1:${proxy.port}`, keys: "redis" };
      const started = await writeConfig(folder, behind);
      await using gateway = startTollgate(["start", "--config", started]);
      await gateway.line(({ msg }) => msg === "serving");
      // A file of its own, as the gateway would reload that one.
      await using other = await openFolder();
      const file = await writeConfig(other, { ...behind, store: redis.url });
      const made = await runVerb([...CREATE, "--config", file]);
      assert.deepEqual([made.status, made.err], [0, ""]);
      await proxy.refuse();
      const { id } = jsonOf<{ id: string }>(made);
      const revoked = await runVerb(["keys", "revoke", id, "--config", file]);
      assert.equal(revoked.status, 0);
      assert.match(revoked.err, /^The gateway cannot read this change: .*Redis/);
    } finally {
      await redis.close();
    }
  });
});
