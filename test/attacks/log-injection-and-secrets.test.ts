import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, test } from "vitest";
import { openStrictBackend, type StrictBackend } from "../fuzz/strict-backend.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { sendRequest } from "../support/wire/client.ts";
import { sendRaw } from "../support/wire/raw.ts";

/** Canaries: each a secret that a run full of errors must not spell. */
const UNKNOWN = "pets_live_Canary0Canary0Canary0Canary0C000000";
const PASSWORD = "canary-of-the-store";
const TOKEN = "canary-of-the-admin-listener-0123456789";

let redis: TestRedis;
let backend: StrictBackend;
let served: SpawnedGateway;
beforeAll(async () => {
  redis = await startRedis({ args: ["--requirepass", PASSWORD] });
  backend = await openStrictBackend();
  served = await spawnGateway({
    upstreams: [backend.origin, "http://127.0.0.1:9"],
    config: {
      store: `redis://:${PASSWORD}@127.0.0.1:${redis.port}`,
      admin: { listen: "127.0.0.1:0", token: TOKEN },
      log: { level: "debug" },
    },
  });
});
afterAll(async () => {
  await served[Symbol.asyncDispose]();
  await backend[Symbol.asyncDispose]();
  await redis.close();
});

test("control characters and quotes never break a line of the log", async () => {
  const evil = [
    "%0a%0d",
    "%1b[31m",
    '"}{"msg":"request"',
    "%e2%80%a8",
    "\x1b",
    "\r\n",
    "\\",
    "\x7f",
  ];
  for (const text of evil) {
    const head = `Host: gw.test\r\nAuthorization: Bearer ${KEY}\r\n`;
    await sendRaw(served.port, `GET /v1/${text} HTTP/1.1\r\n${head}\r\n`, { methods: ["GET"] });
    await sendRaw(served.port, `GET /v1/pets HTTP/1.1\r\n${head}X-A: ${text}\r\n\r\n`, {
      methods: ["GET"],
    });
    await sendRequest(served.port, {
      key: KEY,
      fields: [["X-Request-Id", text.replace(/[^ -~]/g, "")]],
    });
  }
  // The last one may have come in part.
  for (const line of served.running.stdout().split("\n").slice(0, -1)) {
    assert.equal(typeof JSON.parse(line), "object");
    assert.ok(![...line].some((character) => character < " " || character === "\x7f"), line);
  }
});

/** Bad requests of every kind, each with a secret somewhere; all that is said to them. */
async function everythingWrong(): Promise<string[]> {
  const answers: string[] = [];
  const say = async (wanted: Parameters<typeof sendRequest>[1]) => {
    const { fields, body } = await sendRequest(served.port, wanted);
    answers.push(JSON.stringify(fields), body.toString());
  };
  for (const key of [KEY, UNKNOWN]) {
    const paths = [
      "/v1/pets",
      `/v1/${key}`,
      `/v1/pets?k=${key}`,
      `/v1/../${key}`,
      `http://${key}/`,
    ];
    for (const path of paths) {
      await say({ key, path });
      await say({ key, path, method: "POST", body: key });
    }
    await say({ key, host: key });
    await say({ key, method: "PURGE" });
    await say({
      key,
      fields: [
        ["Cookie", key],
        ["Expect", key],
      ],
    });
    await say({ fields: [["Authorization", `Basic ${key}`]] });
    await say({ key, fields: [["Transfer-Encoding", key]], method: "POST" });
  }
  // The store goes.
  await redis.kill();
  for (let i = 0; i < 8; i++) await say({ key: KEY });
  return answers;
}

async function everythingAdmin(): Promise<string[]> {
  const admin = async (path: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" };
    return (await fetch(`${served.adminUrl}${path}`, { headers, ...init })).text();
  };
  const paths = [
    "/metrics",
    "/readyz",
    "/livez",
    "/api/config",
    "/api/bans",
    "/api/keys",
    "/api/none",
  ];
  const answers = await Promise.all([...paths, "/api/usage/vectors"].map((path) => admin(path)));
  answers.push(await admin("/api/reload", { method: "POST" }));
  answers.push(await admin("/api/keys", { headers: { Authorization: `Bearer ${UNKNOWN}` } }));
  return answers;
}

test("keys, passwords and tokens appear 0 times in logs, errors, metrics and files of a run of errors", async () => {
  const answers = await everythingWrong();
  await served.rewrite({ store: `redis://:${PASSWORD}@127.0.0.1:1`, bogus: PASSWORD.slice(0, 3) });
  answers.push(...(await everythingAdmin()));
  const { code, stdout, stderr } = await served.running.stop();
  assert.equal(code, 0);

  const names = (await readdir(served.directory)).filter((name) => name !== "tollgate.yaml");
  const files = await Promise.all(
    names.map((name) => readFile(join(served.directory, name), "latin1")),
  );
  const all = { stdout, stderr, answers: answers.join(), files: files.join() };
  for (const [where, text] of Object.entries(all)) {
    for (const secret of [KEY.slice(10), UNKNOWN.slice(10), PASSWORD, TOKEN]) {
      assert.ok(!text.includes(secret), `${secret} in ${where}`);
    }
  }
  assert.ok(
    stdout.includes("store_away") && stdout.includes("config_refused"),
    "there were errors",
  );
});

test("the law holds, but for what the store took along", () => {
  const forwards = served.lines.reduce((sum, entry) => sum + entry.forwards, 0);
  assert.ok(backend.seen.length <= forwards);
  assert.deepEqual(backend.problems, []);
});
