import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { bucketOf } from "../../../src/stores/quotas/account-ref.ts";
import { crc16 } from "../../../src/stores/redis/hash-slots.ts";
import { account, open, perDay, spend } from "../../stores/quotas/redis/redis-kit.ts";
import { eventually } from "../../support/poll.ts";
import { startCluster, type TestCluster } from "../../support/redis/redis-engines.ts";
import { openAudited } from "../audit-kit.ts";
import { type Folder, jsonOf, openFolder, runVerb, type Said, writeConfig } from "../kit.ts";

type Told = { readonly account: string };

describe("with one master of a Cluster down, what is on the others is told and the rest is named", () => {
  let cluster: TestCluster;
  let folder: Folder;
  let file: string;
  let ids: string[];
  const nodeOf = (id: string) => cluster.ownerOf(crc16(String(bucketOf(account(id)))) % 16_384);
  const isGone = (id: string) => nodeOf(id) === 1;
  const run = (...args: string[]) => runVerb([...args, "--config", file]);

  beforeAll(async () => {
    cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    folder = await openFolder();
    file = await writeConfig(folder, { store: cluster.address.url, more: "history: 400d" });
    const made = jsonOf<Told[]>(
      await run(
        "keys",
        "create",
        "--env",
        "production",
        "--plan",
        "free",
        "--count",
        "30",
        "--json",
      ),
    );
    ids = made.map((one) => one.account);
    assert.ok(ids.some(isGone) && ids.some((id) => !isGone(id)));
    const { store } = await open(cluster.address, { historyMs: 400 * 86_400_000 });
    for (const id of ids) await spend(store, account(id), perDay(1_000));
    await store.close();
    for (const id of ids) assert.equal((await run("bans", "add", id, "--for", "1h")).status, 0);
    await cluster.nodes[1]?.kill();
  });
  afterAll(async () => {
    await cluster.close();
    await folder[Symbol.asyncDispose]();
  });

  const named = ({ err }: Said) => {
    const [, buckets = "", node] =
      /buckets ([\d, ]+) at (127\.0\.0\.1:\d+)/.exec(err) ?? assert.fail(err);
    assert.equal(node, `127.0.0.1:${cluster.nodes[1]?.port}`);
    const gone = Array.from({ length: 16 }, (_, bucket) => bucket).filter((bucket) => {
      return cluster.ownerOf(crc16(String(bucket)) % 16_384) === 1;
    });
    assert.equal(buckets, gone.join(", "));
    assert.equal(err.split("\n").length, 2, "one line names the node");
  };
  const reachable = (list: readonly Told[]) => {
    assert.deepEqual(
      [...new Set(list.map((one) => one.account))].sort(),
      ids.filter((id) => !isGone(id)).sort(),
    );
  };

  it.each([
    ["usage", "--json"],
    ["bans", "list", "--json"],
    ["usage", "--days", "2", "--json"],
  ])("by `%s %s %s %s`", async (...args) => {
    const said = await run(...args.filter((one) => one !== undefined));
    assert.equal(said.status, 1);
    reachable(JSON.parse(said.out) as Told[]);
    named(said);
  });

  it("by `usage` and `accounts reset` of one account", async () => {
    const [gone = "", there = ""] = [ids.find(isGone), ids.find((id) => nodeOf(id) === 2)];
    for (const verb of [["usage"], ["accounts", "reset"]]) {
      const lost = await run(...verb, gone);
      assert.deepEqual([lost.status, lost.out], [1, ""]);
      assert.match(lost.err, new RegExp(`at 127\\.0\\.0\\.1:${cluster.nodes[1]?.port}`));
      assert.match(lost.err, new RegExp(`bucket ${bucketOf(account(gone))}\\b`));
      assert.equal((await run(...verb, there)).status, 0);
    }
  });

  it("by `usage --days` of one account, which prints nothing of one on the master that is down", async () => {
    const [gone = "", there = ""] = [ids.find(isGone), ids.find((id) => nodeOf(id) === 2)];
    for (const more of [[], ["--json"], ["--csv"]]) {
      const lost = await run("usage", gone, "--days", "2", ...more);
      assert.deepEqual([lost.status, lost.out], [1, ""], more.join());
      assert.match(lost.err, new RegExp(`at 127\\.0\\.0\\.1:${cluster.nodes[1]?.port}`));
    }
    assert.equal((await run("usage", there, "--days", "2")).status, 0);
  });

  it("by `usage --month`, which does not say that nothing was used", async () => {
    // A plan that the file lacks may have rows there too.
    for (const more of [[], ["--plan", "renamed"]]) {
      const said = await run("usage", "--month", "2020-01", ...more);
      assert.deepEqual([said.status, said.out], [1, "No usage is found\n"]);
      named(said);
    }
  });

  it("by `audit`", async () => {
    const log = `${folder.path}/empty.log`;
    await writeFile(log, "");
    const said = await run("audit", "--log", log);
    assert.equal(said.status, 1);
    assert.match(said.out, new RegExp(`at 127\\.0\\.0\\.1:${cluster.nodes[1]?.port}`));
  });

  it("by `audit`, which does not pass although all matches that it can compare", async () => {
    const log = `${folder.path}/one.log`;
    // In a minute that is over.
    const decidedAt = Date.now() - 61_000;
    const line = {
      ...{ msg: "request", level: "info", time: decidedAt, id: "r", env: "production" },
      // One that the test before did not reset.
      ...{ account: ids.find((id) => nodeOf(id) === 0), key: "k_1", plan: "free", method: "GET" },
      ...{ route: "/v1/pets", path: "/v1/pets", status: 200, source: "backend" },
      ...{ decision: "admitted", charged: 1, cost: 1, forwards: 1, durationMs: 1, decidedAt },
      ...{ client: "127.0.0.1", config: "c" },
    };
    await writeFile(log, `${JSON.stringify(line)}\n`);
    const said = await run("audit", "--log", log, "--json");
    const { matched, drift } = JSON.parse(said.out) as { matched: number; drift: unknown[] };
    assert.deepEqual([said.status, matched, drift], [1, 1, []]);
  });

  it("by `bans lift` of an account without records, which lifts what it reaches", async () => {
    const orphan =
      Array.from({ length: 30 }, (_, i) => `orphan-${i}`).find((id) => !isGone(id)) ?? "";
    const { store } = await open(cluster.address);
    const imposed = {
      lengthMs: 60_000,
      window: "day",
      keptMs: 0,
      plan: "free",
      reason: "",
    } as const;
    await store.ban(account(orphan), imposed);
    await store.close();
    assert.equal((await run("bans", "lift", orphan)).status, 0);
    const again = await run("bans", "lift", orphan);
    assert.deepEqual([again.status, again.out], [1, ""]);
    assert.match(again.err, new RegExp(`cannot be reached.*:${cluster.nodes[1]?.port}`));
  });

  it("and with all of them down no verb says that there is no ban and no account", async () => {
    await Promise.all(cluster.nodes.map((node) => node.kill()));
    const bans = await run("bans", "list");
    assert.deepEqual([bans.status, bans.out], [1, "No ban is found\n"]);
    const usage = await run("usage");
    assert.deepEqual([usage.status, usage.out], [1, "No usage is found\n"]);
    for (const { err } of [bans, usage]) assert.match(err, /^Missing: /);
  });
});

describe("with the master of bucket 0 down, where gateways hear of changes", () => {
  it("`accounts reset` resets what it reaches, and says that gateways were not told", async (t) => {
    const cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    t.onTestFinished(() => cluster.close());
    await using folder = await openFolder();
    const file = await writeConfig(folder, { store: cluster.address.url });
    const run = (...args: string[]) => runVerb([...args, "--config", file]);
    const ownerOf = (bucket: number) => cluster.ownerOf(crc16(String(bucket)) % 16_384);
    const made = jsonOf<Told[]>(
      await run(
        "keys",
        "create",
        "--env",
        "production",
        "--plan",
        "free",
        "--count",
        "20",
        "--json",
      ),
    ).map((one) => one.account);
    const id = made.find((one) => ownerOf(bucketOf(account(one))) !== ownerOf(0)) ?? "";
    const { store } = await open(cluster.address);
    for (let i = 0; i < 7; i++) await spend(store, account(id), perDay(1_000));
    await store.close();
    await cluster.nodes[ownerOf(0)]?.kill();
    const said = await run("accounts", "reset", id);
    assert.equal(said.status, 1);
    assert.match(said.out, /day had 7/);
    assert.match(said.err, /^Missing: buckets .* at .*; gateways are not told of it/);
  });

  it("with the records there too, verbs about accounts use the copy of the gateway, and say so", async (t) => {
    const cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    t.onTestFinished(() => cluster.close());
    const config = { store: cluster.address.url, keys: "redis", history: "400d" };
    await using house = await openAudited({ config });
    const run = (verb: string, file = house.file) => {
      return runVerb([...verb.split(" "), "--config", file]);
    };
    const ownerOf = (bucket: number) => cluster.ownerOf(crc16(String(bucket)) % 16_384);
    const onNode0 = (id: string) => ownerOf(bucketOf(account(id))) === ownerOf(0);
    let issued = await house.issue();
    while (!onNode0(issued.account)) issued = await house.issue();
    while (onNode0(issued.account)) issued = await house.issue();
    const { account: id, key } = issued;
    assert.equal((await house.ask(key)).status, 200);
    await eventually(() => assert.equal(house.lines.length, 1));
    const log = `${house.directory}/gateway.log`;
    await writeFile(log, `${JSON.stringify(house.lines[0])}\n`);
    const node = cluster.nodes[ownerOf(0)];
    await node?.kill();
    for (const [verb, status, out, more] of [
      [`usage ${id}`, 0, /day +1 /, /^$/],
      ["usage", 1, new RegExp(`^${id} .* day +1 `, "m"), /^Missing: buckets /],
      ["usage --days 2", 1, new RegExp(`^${id} `, "m"), /^Missing: buckets /],
      [`bans add ${id} --for 5m`, 1, /is banned until/, /^Missing: .*; gateways are not told/],
      [`bans why ${id}`, 0, /banned/, /^$/],
      [`bans lift ${id}`, 1, /is lifted/, /^Missing: .*; gateways are not told/],
      [`audit --log ${log}`, 1, new RegExp(`Missing: .*:${node?.port}`), /^$/],
      [`accounts reset ${id}`, 1, /day had 1/, /^Missing: .*; gateways are not told/],
    ] as const) {
      const said = await run(verb);
      assert.equal(said.status, status, `${verb}: ${said.err}`);
      assert.match(said.out, out, verb);
      const [why = "", ...rest] = said.err.split("\n");
      assert.match(why, /^Cannot read the keys in redis\+cluster:.*bucket 0 at .* are used$/, verb);
      assert.ok(why.includes(`the gateway at ${house.adminUrl}`), why);
      assert.match(rest.join("\n"), more, verb);
    }
    const bans = await run("bans list");
    assert.match(bans.err, /^Missing: .*\n$/, "it needs no records");
    // One whose gateway counts elsewhere has the records of other accounts.
    await using folder = await openFolder();
    const admin = Number(new URL(house.adminUrl).port);
    const other = { ...{ admin, store: config.store, keys: "redis" }, more: "storePrefix: other" };
    const refused = await run(`usage ${id}`, await writeConfig(folder, other));
    assert.deepEqual([refused.status, refused.out], [1, ""]);
    assert.match(refused.err, /^Cannot read the keys .*\. No gateway at admin\.listen has a copy /);
  });

  it("no verb about accounts is silent where the records are there, too, and each ends with 1", async (t) => {
    const cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    t.onTestFinished(() => cluster.close());
    await using folder = await openFolder();
    const settings = { store: cluster.address.url, keys: "redis", more: "history: 400d" };
    const file = await writeConfig(folder, settings);
    const run = (args: string) => runVerb([...args.split(" "), "--config", file]);
    const create = "keys create --env production --plan free --json";
    const { account: id } = jsonOf<Told>(await run(create));
    const node = cluster.nodes[cluster.ownerOf(crc16("0") % 16_384)];
    await node?.kill();
    for (const verb of ["usage", `usage ${id}`, "usage --days 2", "accounts list", "keys list"]) {
      const said = await run(verb);
      assert.deepEqual([said.status, said.out], [1, ""], verb);
      assert.match(said.err, /^Cannot read the keys in redis\+cluster:.* cannot be reached: .*\n$/);
      assert.match(said.err, new RegExp(`bucket 0 at 127\\.0\\.0\\.1:${node?.port}`));
    }
  });
});
