import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { ACCOUNT, KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
const behind = await openAttacked({ config: { trustedProxies: ["127.0.0.0/8"] } });
afterAll(async () => {
  await house[Symbol.asyncDispose]();
  await behind[Symbol.asyncDispose]();
});

const SPOOFED = [
  ...["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port"],
  ...["X-Forwarded-Prefix", "X-Forwarded-Anything", "X-Real-IP", "X-Original-URL", "X-Rewrite-URL"],
  ...["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Consumer-Id"],
  ...["X-Consumer-Plan", "X-Consumer-Anything", "X-RateLimit-Limit", "X-RateLimit-Remaining"],
  ...["X-RateLimit-Reset", "X-Request-Id", "X-Client-Request-Id", "X-RateLimit-Window"],
  ...["X-RateLimit-Cost", "X-Consumer-Key-Id", "X-Consumer-Scopes", "X-Consumer-Meta-Tenant"],
  ...["X-Consumer-", "X-Consumer-Meta-"],
];

test("from an untrusted peer not one of them reaches the backend, in any case and number", async () => {
  for (const name of SPOOFED) {
    for (const spelled of [name, name.toLowerCase(), name.toUpperCase()]) {
      const fields = [
        [spelled, "6.6.6.6 spoofed"],
        [spelled, "again spoofed"],
      ] as const;
      assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
      assert.ok(!JSON.stringify(lastSeen(house).rawHeaders).includes("spoofed"), spelled);
    }
  }
  const seen = lastSeen(house);
  assert.deepEqual(fieldOf(seen, "x-forwarded-for"), ["127.0.0.1"]);
  assert.deepEqual(fieldOf(seen, "x-consumer-id"), [ACCOUNT]);
  assert.deepEqual(fieldOf(seen, "x-consumer-plan"), ["enterprise"]);
});

test("from a trusted proxy the forwarding ones pass, and never those that say who or how much", async () => {
  const fields = SPOOFED.map((name) => [name, "spoofed"] as const);
  assert.equal((await sendRequest(behind.port, { key: KEY, fields })).status, 200);
  const seen = lastSeen(behind);
  assert.deepEqual(fieldOf(seen, "x-consumer-id"), [ACCOUNT]);
  for (const name of [
    "x-consumer-anything",
    "x-ratelimit-limit",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
  ]) {
    assert.deepEqual(fieldOf(seen, name), [], name);
  }
  assert.deepEqual(fieldOf(seen, "x-forwarded-for"), ["spoofed, 127.0.0.1"]);
});

test("neither its plan nor its method nor its path can be overridden", async () => {
  const fields = [
    ["X-HTTP-Method-Override", "DELETE"],
    ["X-Original-URL", "/v1/admin"],
    ["X-Consumer-Plan", "business"],
  ] as const;
  assert.equal(
    (await sendRequest(house.port, { key: KEY, fields, method: "POST", body: "{}" })).status,
    200,
  );
  const { method, target } = lastSeen(house);
  assert.deepEqual([method, target], ["POST", "/v1/pets"]);
});

test("an untrusted peer cannot spread its failures over addresses that it names", async () => {
  const remaining = async (address: string) => {
    const fields = [["X-Forwarded-For", address]] as const;
    const answer = await sendRequest(house.port, { fields });
    return Number(answer.fields.find(([name]) => name === "X-RateLimit-Remaining")?.[1]);
  };
  const first = await remaining("1.1.1.1");
  assert.equal(await remaining("2.2.2.2"), first - 1);
});

test("the law holds after all of it", async () => {
  await lawHolds(house);
  await lawHolds(behind);
});
