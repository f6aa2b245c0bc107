import assert from "node:assert/strict";
import { mkdir, readFile, rmdir } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, it } from "vitest";
import { jsonOf, runVerb } from "../../cli/kit.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { SECRET, startWebhookReceiver } from "../../support/webhook-receiver.ts";
import { sendRequest } from "../../support/wire/client.ts";
import { type Crew, get, issueKeys, openCrew, openFolder } from "./kit.ts";

let redis: TestRedis;
let keys: string[];
beforeAll(async () => {
  redis = await startRedis();
  await makeTwoKeys();
});
afterAll(() => redis.close());

/** Two keys of one account, and nothing else in the store. */
async function makeTwoKeys(): Promise<void> {
  await (await redis.client()).flushall();
  keys = await issueKeys(redis, 1);
  await using folder = await openFolder(redis, "http://127.0.0.1:9");
  await folder.write({});
  const listed = await runVerb(["keys", "list", "--json", "--config", folder.file]);
  const [{ id } = assert.fail()] = jsonOf<{ id: string }[]>(listed);
  const rotated = await runVerb(["keys", "rotate", id, "--config", folder.file]);
  assert.equal(rotated.status, 0, rotated.err);
}

const HASH = "tg:{0}:keys";
const WITHIN = { withinMs: 60_000, everyMs: 100 };
const kindsOf = ({ gateway }: Crew) => {
  return gateway.lines().flatMap(({ msg, kind }) => (msg === "event" ? [String(kind)] : []));
};

it("a process that is killed while the store is away takes what it owes with it, and that is counted", async () => {
  await using crew = await openCrew(redis, { storeTimeout: "300ms" });
  const port = Number(new URL(crew.url).port);
  const records = ["tollgate_keys", "tollgate_accounts"].map((name) => crew.metric(name));
  const counts = await Promise.all(records);
  assert.deepEqual(counts, [2, 1], "as many as there are, not as many as each has");
  redis.stop();
  try {
    await eventually(() => assert.deepEqual(kindsOf(crew), ["store_away"]), WITHIN);
    for (let i = 0; i < 20; i++) {
      assert.equal((await sendRequest(port, { key: keys[0] ?? "" })).status, 200);
    }
    await eventually(async () => {
      assert.equal(await crew.metric("tollgate_charges_owed"), 20);
    }, WITHIN);
    assert.equal(await crew.metric("tollgate_charges_lost_total"), 0);
    for (const pid of crew.pids()) process.kill(pid, "SIGKILL");
    await eventually(async () => {
      assert.equal(await crew.metric("tollgate_charges_lost_total"), 20);
      assert.equal(await crew.metric("tollgate_charges_owed"), 0);
    }, WITHIN);
  } finally {
    redis.cont();
  }
});

it("records that no process can read are told once, and once that they can be read again", async () => {
  await using crew = await openCrew(redis);
  const client = await redis.client();
  await client.rename(HASH, "tg:{0}:set-aside");
  await client.set(HASH, "not a hash");
  try {
    const told = () => kindsOf(crew).filter((kind) => kind === "keys_unreadable");
    await eventually(() => assert.equal(told().length, 1), WITHIN);
    // Each process reads again and again, so that all of them have failed by then.
    await eventually(async () => {
      assert.ok((await crew.metric("tollgate_keys_unreadable_total")) >= 6);
    }, WITHIN);
    assert.equal(told().length, 1);
  } finally {
    await client.rename("tg:{0}:set-aside", HASH);
  }
  await eventually(async () => {
    assert.deepEqual((await crew.ready()).checks.keys, { ok: true });
  }, WITHIN);
  // The last lines of each process are out when it has ended.
  await crew.gateway.stop();
  const again = crew.gateway.lines().filter(({ msg }) => msg === "keys_readable");
  assert.deepEqual(
    again.map(({ worker }) => worker),
    [undefined],
  );
});

it("a record that only a process which has just started finds damaged is named in the log", async () => {
  await using crew = await openCrew(redis);
  const client = await redis.client();
  const field = (await client.hkeys(HASH)).find((name) => name.startsWith("k_")) ?? assert.fail();
  const whole = (await client.hget(HASH, field)) ?? assert.fail();
  const told = () => crew.gateway.lines().filter(({ msg }) => msg === "keys_damaged");
  // Under the same version, so that who has read the records does not see it.
  await client.hset(HASH, field, "{broken");
  try {
    process.kill(crew.pids()[0] ?? assert.fail(), "SIGKILL");
    await eventually(() => assert.equal(told().length, 1), WITHIN);
    assert.match(String(told()[0]?.why), new RegExp(field));
    assert.equal(typeof told()[0]?.worker, "number");
  } finally {
    await client.hset(HASH, field, whole);
  }
});

it("events of a process that ends while the webhook takes none are sent once it does, each once", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using receiver = await startWebhookReceiver();
  receiver.status = 500;
  const events = { url: receiver.url, secret: SECRET, kinds: ["quota"], quota: ["month"] };
  await using crew = await openCrew(redis, { limit: 5, events });
  for (let i = 0; i < 5; i++) await get(`${crew.url}/v1/animals`, key);
  await eventually(() => assert.deepEqual(kindsOf(crew), ["quota", "quota"]));
  await eventually(() => assert.ok(receiver.tries > 0));
  // A scrape asks each process for what has happened in it.
  assert.equal(await crew.metric("tollgate_events_dropped_total"), 0);
  const ended = crew.pids();
  for (const pid of ended) process.kill(pid, "SIGKILL");
  await eventually(() => {
    const serving = crew.pids();
    assert.ok(serving.length === 2 && !serving.some((pid) => ended.includes(pid)));
  }, WITHIN);
  receiver.status = 204;
  const percents = () => receiver.received.flatMap((one) => one.events.map((of) => of.percent));
  // Two processes made them, each of which hands its own over in its own time.
  await eventually(() => assert.deepEqual(percents().sort(), [100, 80]), WITHIN);
  const lines = () => crew.gateway.lines().map(({ msg }) => msg);
  await eventually(() => assert.ok(lines().includes("events_sent")));
  assert.equal(lines().filter((msg) => msg === "events_unsent").length, 1, "by one process");
});

/**
 * A process that got a SIGUSR2 can ask nothing about the file of keys any more, and its connections
 * to this port break.
 */
const cannotRead = (port: number) => `import fs from "node:fs/promises";
import { Socket } from "node:net";
import { syncBuiltinESMExports } from "node:module";
process.on("SIGUSR2", () => {
  const { write } = Socket.prototype;
  Socket.prototype.write = function (...all) {
    if (this.remotePort !== ${port}) return write.apply(this, all);
    this.destroy();
    return false;
  };
  const { stat } = fs;
  fs.stat = async (path, ...more) => {
    if (String(path).endsWith("keys.json")) throw new Error("EIO");
    return stat(path, ...more);
  };
  syncBuiltinESMExports();
});`;

it("records that one process alone cannot read, a store that it alone lost, and a backend that is down, are failed checks of the gateway", async () => {
  const code = `--import data:text/javascript,${encodeURIComponent(cannotRead(redis.port))}`;
  const env = { NODE_OPTIONS: code };
  const change = { keys: "./keys.json", healthCheck: { path: "/healthz", every: "1s" } };
  const answer = (_: unknown, response: ServerResponse) => void response.writeHead(503).end();
  await using crew = await openCrew(redis, change, answer, { env });
  assert.deepEqual((await crew.ready()).checks.keys, { ok: true });
  process.kill(crew.pids()[0] as number, "SIGUSR2");
  const read = "the key records cannot be read: the log says why; those read before are in use";
  const why = `${read} (1 of 2 workers)`;
  await eventually(async () => {
    const { status, checks } = await crew.ready();
    assert.deepEqual([status, checks.keys], [503, { ok: false, why }]);
    assert.match(String(checks.store?.why), /\(1 of 2 workers\)$/);
    const down = `down: production ${crew.backend.origin}`;
    assert.deepEqual(checks.upstreams, { ok: false, why: down });
  }, WITHIN);
});

const LOST = /2 keys and 1 account are gone.* tollgate keys import /;

it("a copy of the keys that cannot be written is told by the process that watches, as no worker writes it", async () => {
  await using crew = await openCrew(redis);
  // In the place of the temporary file, so that each process that writes the copy says so at once.
  const blocked = join(dirname(crew.file), "state.json.tmp");
  await mkdir(blocked);
  const create = ["keys", "create", "--env", "production", "--account", "copied", "--plan", "free"];
  const made = await runVerb([...create, "--json", "--config", crew.file]);
  const [{ key } = assert.fail()] = [JSON.parse(made.out) as { key: string }].flat();
  await eventually(async () => {
    assert.equal((await get(`${crew.url}/v1/animals`, key)).status, 200);
  }, WITHIN);
  await crew.gateway.line(({ msg }) => msg === "keys_copy_unwritten");
  await rmdir(blocked);
  await crew.gateway.stop();
  const told = crew.gateway.lines().filter(({ msg }) => /^keys_copy/.test(String(msg)));
  assert.deepEqual(
    told.map(({ msg, worker }) => [msg, worker]),
    ["keys_copy_unwritten", "keys_copy_written"].map((msg) => [msg, undefined]),
  );
  assert.match(await readFile(join(dirname(crew.file), "state.json"), "utf8"), /"copied"/);
});

it("records that the store has in an older state, or lost, are told and counted once, with the way back", async () => {
  await makeTwoKeys(); // An earlier try has lost them.
  const client = await redis.client();
  await using crew = await openCrew(redis);
  const older = await client.dumpBuffer(HASH);
  const account = (await client.hkeys(HASH)).find((name) => name.startsWith("@"))?.slice(1);
  // It answers when each process has read the records, those before it too.
  const suspend = async () => {
    const headers = { "Content-Type": "application/json" };
    const url = `${crew.adminUrl}/api/accounts/${account}/suspend`;
    const { status } = await fetch(url, { method: "POST", headers, body: "{}" });
    assert.equal(status, 200);
  };
  await suspend();
  await client.restore(HASH, 0, older, "REPLACE");
  await crew.gateway.line(({ kind }) => kind === "keys_older");
  await suspend();
  assert.equal(await crew.metric("tollgate_keys_older_total"), 1);
  await client.flushall();
  await eventually(async () => {
    const { status, checks } = await crew.ready();
    assert.equal(status, 503);
    assert.match(checks.keys?.why ?? "", LOST);
  }, WITHIN);
  await crew.gateway.line(({ kind }) => kind === "keys_lost");
  const told = crew.gateway.lines().filter(({ kind }) => kind === "keys_lost");
  assert.deepEqual(
    told.map(({ level, why }) => [level, LOST.test(String(why))]),
    [["error", true]],
  );
});
