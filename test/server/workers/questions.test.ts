import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, it } from "vitest";
import { jsonOf, runVerb } from "../../cli/kit.ts";
import { each } from "../../support/each.ts";
import { DEPRECATED_API } from "../../support/gateway/deprecated-api.ts";
import { expectDuration } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { type Crew, get, issueKeys, openCrew } from "./kit.ts";
import { openPoolOn } from "./pool.ts";

/** Together more than the admin listener has connections, which is when listeners are a leak. */
const [QUESTIONS, ROUNDS] = [25, 11];
/** Requests under way, each on a connection of its own, so many that no process has them all. */
const HELD = 60;
const JSON_TYPE = { "Content-Type": "application/json" };

/** Makes all processes read the keys. Returns those that did not answer, null if there is none. */
async function refreshKeys({ adminUrl }: Crew): Promise<string | null> {
  const sent = { method: "POST", headers: JSON_TYPE, body: "{}" };
  const answer = await fetch(`${adminUrl}/api/keys/refresh`, sent);
  assert.equal(answer.status, 200);
  return answer.headers.get("X-Tollgate-Missing");
}

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

it("questions to the processes leave nothing behind, however many there are, and however many wait at once", async (t) => {
  await using crew = await openCrew(redis);
  const url = `${crew.adminUrl}/api/explain/nothing-of-that-id`;
  const askAll = async (wanted: number) => {
    const answers = await Promise.all(Array.from({ length: QUESTIONS }, () => fetch(url)));
    for (const { status } of each(answers)) assert.equal(status, wanted);
  };
  for (let i = 0; i < ROUNDS; i++) await askAll(404);
  const at = ["--admin", crew.adminUrl, "--json"];
  // Its configuration, with the port that was free.
  const ofGateway = join(dirname(crew.file), "of-gateway.yaml");
  const { host } = new URL(crew.adminUrl);
  const text = await readFile(crew.file, "utf8");
  await writeFile(ofGateway, text.replace(/admin: .*/, `admin: { listen: "${host}" }`));
  const verbs = [
    ["keys", "list", ...at],
    ["keys", "list", "--json", "--config", ofGateway],
    ["deprecations", ...at, "--config", crew.file],
  ];
  const said = async (verb: readonly string[]) => {
    const { status, err } = await runVerb(verb);
    return `${status} ${err}`;
  };
  assert.deepEqual(await Promise.all(verbs.map(said)), ["0 ", "0 ", "0 "]);
  const [pid = 0] = crew.pids();
  process.kill(pid, "SIGSTOP");
  await expectDuration(t, { wantedMs: 500, lateMs: 3_500 }, () => askAll(503));
  const { code: unanswered, message } = (await (await fetch(url)).json()) as Record<string, string>;
  assert.equal(unanswered, "worker_unavailable");
  assert.match(message ?? "", /there is no answer from worker 1: ask again, or /);
  const lacking = async (path: string, sent: RequestInit = {}) => {
    const answer = await fetch(`${crew.adminUrl}/api/${path}`, { headers: JSON_TYPE, ...sent });
    return [answer.status, answer.headers.get("X-Tollgate-Missing")];
  };
  await expectDuration(t, { wantedMs: 1_500, lateMs: 6_000 }, async () => {
    const body = JSON.stringify({ environment: "production", plan: "free" });
    const created = lacking("keys", { method: "POST", body });
    assert.equal(await refreshKeys(crew), "worker 1", "it has not read the keys");
    assert.deepEqual(await created, [201, "worker 1"], "it refuses the new key");
  });
  const told = await Promise.all(["open", "keys"].map((list) => lacking(list)));
  const lacks = [200, "worker 1"];
  assert.deepEqual(told, [lacks, lacks], "its charges and its last uses are not known");
  const lines = await Promise.all(verbs.map(said));
  const unheard = "0 Missing: worker 1\n";
  assert.deepEqual(lines, [unheard, unheard, `1 Missing: worker 1 of ${crew.adminUrl}\n`]);
  process.kill(pid, "SIGCONT");
  const { code, stderr } = await crew.gateway.stop();
  assert.deepEqual([code, stderr], [0, ""]);
});

it("a key that is new in the file is accepted by every process once they were told to read it", async () => {
  await using crew = await openCrew(redis, { keys: "./keys.json" });
  for (let i = 0; i < 3; i++) {
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
    const { key } = jsonOf<{ key: string }>(await runVerb([...create, "--config", crew.file]));
    assert.equal(await refreshKeys(crew), null);
    const asked = Array.from({ length: 10 }, () => get(`${crew.url}/v1/animals`, key));
    for (const { status } of each(await Promise.all(asked))) assert.equal(status, 200);
  }
});

it("questions for the counts and to read the keys end when each process has answered, not when they are given up", async () => {
  await using house = await openPoolOn(redis, { count: 2 });
  const { pool } = house;
  const ended: string[] = [];
  void pool.ask(600_000).then(() => ended.push("counts"));
  const unanswered: number[] = [];
  void pool.refreshKeys(600_000, (one) => unanswered.push(one)).then(() => ended.push("keys"));
  await eventually(() => assert.deepEqual(ended.sort(), ["counts", "keys"]));
  assert.deepEqual(unanswered, []);
});

it("charges under way are told of all processes", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  const held: (() => void)[] = [];
  await using crew = await openCrew(redis, {}, (_seen, response) => {
    held.push(() => void response.end("late"));
  });
  const asked = Array.from({ length: HELD }, () => get(`${crew.url}/v1/animals`, key));
  await eventually(() => assert.equal(held.length, HELD));
  const told = await fetch(`${crew.adminUrl}/api/open`);
  assert.equal(((await told.json()) as unknown[]).length, HELD);
  assert.equal(told.headers.get("X-Tollgate-Missing"), null);
  for (const answer of held) answer();
  for (const outcome of each(await Promise.all(asked))) assert.equal(outcome.status, 200);
});

it("charges, requests and connections under way are told also of a process that was replaced and drains", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  const held: (() => void)[] = [];
  await using crew = await openCrew(redis, { drain: "10m" }, (_seen, response) => {
    held.push(() => void response.end("late"));
  });
  const asked = Array.from({ length: HELD }, () => get(`${crew.url}/v1/animals`, key));
  await eventually(() => assert.equal(held.length, HELD));
  const [replaced = 0] = crew.pids();
  process.kill(replaced, "SIGSTOP");
  await crew.reload();
  process.kill(replaced, "SIGCONT");
  await eventually(
    async () => {
      const open = (await (await fetch(`${crew.adminUrl}/api/open`)).json()) as unknown[];
      assert.equal(open.length, HELD);
    },
    { withinMs: 10_000 },
  );
  const underWay = async () => {
    const names = ["http_requests_in_flight", "connections_open"];
    const counts = await Promise.all(names.map((name) => crew.metric(`tollgate_${name}`)));
    return [...counts, await crew.metric("tollgate_workers")];
  };
  await eventually(async () => assert.deepEqual(await underWay(), [HELD, HELD, 2]));
  for (const answer of held) answer();
  for (const outcome of each(await Promise.all(asked))) assert.equal(outcome.status, 200);
  await eventually(async () => assert.deepEqual(await underWay(), [0, 0, 2]));
});

it("the most refused accounts are added up over all processes, and an event of any of them is told", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  await using crew = await openCrew(redis, { limit: 1 });
  const asked = Array.from({ length: HELD }, () => get(`${crew.url}/v1/animals`, key));
  const refused = (await Promise.all(asked)).filter(({ status }) => status === 429).length;
  assert.equal(refused, HELD - 1);
  const signal = AbortSignal.timeout(60_000);
  const figures = await fetch(`${crew.adminUrl}/api/events`, { signal });
  let text = "";
  for await (const piece of figures.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece;
    const isSummed = new RegExp(`"refused":\\[\\{[^}]*"requests":${refused}\\}\\]`).test(text);
    if (isSummed && text.includes('"kind":"quota"')) break;
  }
  const told = await crew.gateway.line(({ kind }) => kind === "quota");
  assert.match(String(told.gateway), /^.+-[0-9a-f]{6}$/);
});

it("calls of deprecated operations are added up over all processes by the store, and while it is away nobody is told that there are none", async () => {
  const away = await startRedis();
  const [key = ""] = await issueKeys(away, 1);
  const held: (() => void)[] = [];
  await using crew = await openCrew(away, {}, (_seen, response) => {
    held.push(() => void response.end("late"));
  });
  const config = await readFile(crew.file, "utf8");
  await writeFile(join(dirname(crew.file), "api.yaml"), DEPRECATED_API);
  const more = "basePath: /v1, api: ./api.yaml, standing: /v1/_limits,";
  await crew.rewrite(config.replace("basePath: /v1,", more));
  assert.equal((await crew.reload()).status, 200);
  const asked = Array.from({ length: HELD }, () => get(`${crew.url}/v1/old`, key));
  await eventually(() => assert.equal(held.length, HELD));
  for (const answer of held) answer();
  for (const outcome of each(await Promise.all(asked))) assert.equal(outcome.status, 200);
  const callers = async () => {
    const response = await fetch(`${crew.adminUrl}/api/deprecations`);
    const told = (await response.json()) as { route: string; accounts: { requests: number }[] }[];
    const { accounts = [] } = told.find(({ route }) => route === "/v1/old") ?? {};
    return accounts.map(({ requests }) => requests);
  };
  assert.deepEqual(await callers(), [HELD], "asked for before any process would tell the store");
  const standings = async () => {
    const headers = { Authorization: `Bearer ${key}`, Connection: "close" };
    const several = Array.from({ length: QUESTIONS }, async () => {
      const response = await fetch(`${crew.url}/v1/_limits`, { headers });
      const { deprecated } = (await response.json()) as { deprecated: { requests: number }[] };
      return deprecated.map(({ requests }) => requests).join();
    });
    return new Set(await Promise.all(several));
  };
  await eventually(async () => assert.deepEqual([...(await standings())], [String(HELD)]));
  await away.kill();
  const unknown = await fetch(`${crew.adminUrl}/api/deprecations`);
  assert.equal(unknown.status, 200);
  const told = (await unknown.json()) as { route: string }[];
  assert.deepEqual(
    told.map((one) => [one.route, "accounts" in one]),
    [
      ["/v1/older", false],
      ["/v1/old", false],
    ],
  );
  await away.close();
});

/** Each process tells that it has dropped so much. */
const DROPS = `const { send } = process;
process.send = function (message, ...rest) {
  const dropped = { logDropped: 2, eventsDropped: 3, telemetryDropped: 4 };
  if (message.status) Object.assign(message.status.gauges, dropped);
  return send.call(this, message, ...rest);
};`;

it("commands that the watching process sends to the store are counted beside those of the others, and what these dropped is", async () => {
  const [key = ""] = await issueKeys(redis, 1);
  const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(DROPS)}` };
  await using crew = await openCrew(redis, {}, undefined, { env });
  const dropped = ["log", "events", "telemetry"].map((what) => {
    return crew.metric(`tollgate_${what}_dropped_total`);
  });
  assert.deepEqual(await Promise.all(dropped), [4, 6, 8]);
  assert.equal((await get(`${crew.url}/v1/animals`, key)).status, 200);
  const before = await crew.metric("tollgate_store_commands_total");
  // More than the processes send by themselves in the seconds that this takes.
  for (let i = 0; i < 400; i++) await (await fetch(`${crew.adminUrl}/api/usage`)).text();
  const sent = (await crew.metric("tollgate_store_commands_total")) - before;
  assert.ok(sent >= 400, `${sent} commands`);
});
