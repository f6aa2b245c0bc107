import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { runVerb } from "../cli/kit.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { ACCOUNT, KEY, spawnGateway } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { sendRequest } from "../support/wire/client.ts";

/** No file may grow over 512 bytes: to whoever writes one, the same as a disk that is full. */
const FULL = ["sh", "-c", 'ulimit -f 1 && exec "$@"', "sh"];

async function create(adminUrl: string): Promise<Response> {
  const body = JSON.stringify({ environment: "production", plan: "free", name: "x".repeat(100) });
  const headers = { "Content-Type": "application/json" };
  return fetch(`${adminUrl}/api/keys`, { method: "POST", headers, body });
}

test("2.4 Disk full: serving goes on, the old files stay whole, no key is half-issued, and it ends", async () => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin], under: FULL });
  const keysFile = join(served.directory, "keys.json");
  const before = await readFile(keysFile, "utf8");
  const answers: number[] = [];
  for (let i = 0; i < 6; i++) {
    const response = await create(served.adminUrl);
    answers.push(response.status);
    const { key } = (await response.json()) as { key?: string };
    const works = key === undefined ? 401 : (await sendRequest(served.port, { key })).status;
    assert.equal(works, response.status === 201 ? 200 : 401);
    assert.equal((await sendRequest(served.port, { key: KEY })).status, 200, "a good key works on");
  }
  const refused = answers.filter((status) => status !== 201);
  assert.ok(refused.length >= 3 && refused.every((status) => status >= 500), `${answers}`);
  const after = await readFile(keysFile, "utf8");
  const { keys } = JSON.parse(after) as { keys: unknown[] };
  assert.equal(keys.length, 1 + answers.length - refused.length, "whole, with what was told");
  assert.ok(after.startsWith(before.slice(0, 20)));
  assert.equal(await served.counted(ACCOUNT), 6);
  const { code, stderr } = await served.running.stop();
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  const state = await readFile(join(served.directory, "state.json"), "utf8").catch(() => "{}");
  assert.equal(typeof JSON.parse(state), "object", "never half a state file");
});

test(
  "2.4 Disk full at the end: the units that no file has are told by account, the status is 1, and the audit explains them",
  needing("prlimit"),
  async (t) => {
    await using backend = await startTestUpstream();
    const directory = await mkdtemp(join(tmpdir(), "tollgate-full-"));
    t.onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const config = { history: "30d", admin: { listen: `127.0.0.1:${await freePort()}` } };
    const options = { upstreams: [backend.origin], directory, config };
    await using served = await spawnGateway(options);
    const ask = async () =>
      assert.equal((await sendRequest(served.port, { key: KEY })).status, 200);
    await ask();
    const state = () => readFile(join(directory, "state.json"), "utf8");
    await eventually(async () => assert.match(await state(), /"month":\[\d+,1,/));
    execFileSync("prlimit", ["--pid", String(served.running.child.pid), "--fsize=0"]);
    for (let i = 0; i < 5; i++) await ask();
    const { code, stderr } = await served.running.stop();
    assert.deepEqual([code, stderr], [1, ""]);
    const lost = served.said.filter(({ msg }) => msg === "charges_lost");
    const told = lost.map(({ level, units, accounts }) => [level, units, accounts]);
    assert.deepEqual(told, [["error", 5, `production:${ACCOUNT} 5`]]);
    const failed = served.said.find(({ msg }) => msg === "stop_failed");
    assert.match(String(failed?.why), /^Cannot write the state file .*state\.json: /);

    await using next = await spawnGateway(options);
    assert.equal(await next.counted(), 1);
    const log = join(directory, "gateway.log");
    const lines = [...served.said, ...served.lines, ...next.said];
    await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const audit = await runVerb(["audit", "--log", log, "--config", next.file, "--json"]);
    const { explained, drift } = JSON.parse(audit.out) as Record<string, { window: string }[]>;
    assert.deepEqual(drift, [], audit.out);
    assert.ok(
      explained?.some(({ window }) => window === "month"),
      audit.out,
    );
    assert.equal(audit.status, 0, audit.err);
    assert.equal((await next.running.stop()).code, 0);
  },
);

test("2.4 Key file half-written while read: half, empty or gone: the last good keys work on, told, and it heals", async () => {
  await using house = await startTestGateway({ keys: { [KEY]: { plan: "pro", id: ACCOUNT } } });
  const file = join(house.directory, "keys.json");
  const whole = await readFile(file, "utf8");
  const complaints = () => house.said.filter(({ level }) => level === "error" || level === "warn");
  for (const broken of [whole.slice(0, whole.length >> 1), "", "{}", "null"]) {
    const from = complaints().length;
    await writeFile(file, broken);
    await eventually(() => assert.ok(complaints().length > from), { withinMs: 60_000 });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    const unknown = KEY.replace("Smuggle", "Snuggle");
    assert.equal(
      (await sendRequest(house.port, { key: unknown })).status,
      401,
      "nor is anything open",
    );
    await writeFile(file, whole);
    await eventually(async () => {
      const { checks } = (await (await house.admin("/readyz")).json()) as {
        checks: { keys: { ok: boolean } };
      };
      assert.ok(checks.keys.ok);
    });
  }
  assert.ok(!JSON.stringify(complaints()).includes(KEY));
  await house.law();
});

test("2.4 Key file half-written while read: written in place piece by piece, 20 times, it never refuses a good key, and ends with what was written", async () => {
  const limits = [{ window: "day", limit: 10 ** 6 }] as const;
  const keys = { [KEY]: { plan: "enterprise", id: ACCOUNT, limits } };
  await using house = await startTestGateway({ keys });
  const file = join(house.directory, "keys.json");
  const whole = await readFile(file, "utf8");
  let writing = true;
  const statuses = new Set<number>();
  const asking = (async () => {
    while (writing) statuses.add((await sendRequest(house.port, { key: KEY })).status);
  })();
  const pieces = 5;
  for (let round = 0; round < 20; round++) {
    const text = whole.replace(/"name":"[^"]*"/, `"name":"round ${round}"`);
    await writeFile(file, "");
    for (let i = 0; i < pieces; i++) {
      const from = Math.floor((i * text.length) / pieces);
      await appendFile(file, text.slice(from, Math.floor(((i + 1) * text.length) / pieces)));
      // Long enough that a reader can come in between.
      await sleep(15);
    }
  }
  writing = false;
  await asking;
  assert.deepEqual([...statuses], [200]);
  await eventually(async () => {
    const told = await (await house.admin("/api/keys")).text();
    assert.match(told, /"round 19"/);
  });
  await house.law();
});
