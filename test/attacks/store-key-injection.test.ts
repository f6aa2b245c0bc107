import assert from "node:assert/strict";
import { afterAll, beforeAll, test } from "vitest";
import { accountKey } from "../../src/stores/quotas/redis/account-key.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";

let server: TestRedis;
let house: TestGateway;
beforeAll(async () => {
  server = await startRedis();
  house = await startTestGateway({ config: { store: server.url } });
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
  await server.close();
});

const EVIL = [
  ...[
    "a{b}",
    "{}",
    "a:b",
    "a*",
    "a?b",
    "[a]",
    "a b",
    "a\r\nFLUSHALL\r\n",
    "a\0b",
    "a/b",
    "../a",
    "",
  ],
  ...["é", "a".repeat(65), "a}b", "a,b", 'a"b', "a'b", "a\\b", "%7b", "a\tb"],
];

test("an id that could be more than a name is refused, and nothing is stored for it", async () => {
  const redis = await server.client();
  // The first heartbeat and settlement of a gateway leave keys of their own.
  await eventually(async () => assert.equal(await redis.exists("tg:{0}:settled"), 1));
  const before = await redis.keys("*");
  for (const account of EVIL) {
    const body = JSON.stringify({ environment: "production", plan: "free", account });
    const response = await house.admin("/api/keys", { method: "POST", body });
    assert.equal(response.status, 400, JSON.stringify(account));
    const path = `/api/usage/${encodeURIComponent(account)}`;
    const usage = await house.admin(path);
    assert.ok([400, 404].includes(usage.status), `${path}: ${usage.status}`);
  }
  assert.deepEqual((await redis.keys("*")).sort(), before.sort());
  redis.disconnect();
});

test("the longest and oddest of plain ids are one hash each, with one pair of braces", async () => {
  const redis = await server.client();
  for (const account of ["a".repeat(64), "A.b_c-9", "constructor", "__proto__", "tg", "0"]) {
    const { key } = await house.issue({ account });
    assert.equal((await house.ask(key)).status, 200);
    const name = accountKey("tg", { environment: "production", account });
    assert.match(name, /^tg:\{\d{1,2}\}:production:[A-Za-z0-9._-]{1,64}$/);
    assert.equal(await redis.type(name), "hash");
  }
  redis.disconnect();
  await house.law();
});

test("no token, and no part of one, is ever sent to the store", async () => {
  const redis = await server.client();
  const { key } = await house.issue();
  await house.ask(key);
  const names = await redis.keys("*");
  const values = await Promise.all(names.map((name) => redis.dumpBuffer(name)));
  const text = names.join("\n") + values.map((value) => value?.toString("latin1")).join("\n");
  assert.ok(names.length > 0 && !text.includes(key.slice(10, 30)));
  redis.disconnect();
});
