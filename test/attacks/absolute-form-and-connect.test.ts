import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, openClient, sendRequest } from "../support/wire/client.ts";
import { valuesOf } from "../support/wire/response.ts";
import { fieldOf, lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

const REFUSED = [
  ...[
    "http://evil.test/v1/pets",
    "https://gw.test/v1/pets",
    "file:///etc/passwd",
    "ftp://gw.test/v1/pets",
  ],
  ...[
    "http://gw.test:81/v1/pets",
    "http://user@gw.test/v1/pets",
    "http://gw.test@evil.test/v1/pets",
  ],
  ...[
    "http://[/v1/pets",
    "http://a:99999/",
    "http://",
    "http:///v1/pets",
    "http:/v1/pets",
    "http:gw.test",
  ],
  ...["*", "v1/pets", "gw.test:80", "?a=b", "//gw.test/v1/pets", "http://gw.test//v1/pets"],
];

for (const path of REFUSED) {
  test(`GET ${path} is 400 and reaches nobody`, async () => {
    const before = house.backend.seen.length;
    assert.equal(errorOf(await sendRequest(house.port, { key: KEY, path })).code, "bad_request");
    assert.equal(house.backend.seen.length, before);
  });
}

for (const path of [
  "http://gw.test/v1/pets?a=b",
  "HTTP://GW.TEST/v1/pets?a=b",
  "http://gw.test:80/v1/pets?a=b",
]) {
  test(`GET ${path}, of this host, is forwarded in origin-form`, async () => {
    assert.equal((await sendRequest(house.port, { key: KEY, path })).status, 200);
    assert.equal(lastSeen(house).target, "/v1/pets?a=b");
    assert.deepEqual(fieldOf(lastSeen(house), "x-forwarded-host"), ["gw.test"]);
  });
}

test("OPTIONS of this host without a path asks about the gateway, as OPTIONS * does, without a key", async () => {
  const before = house.backend.seen.length;
  const answers = ["*", "http://gw.test", "http://gw.test:80"].map((path) =>
    sendRequest(house.port, { method: "OPTIONS", path }),
  );
  const told = (await Promise.all(answers)).map((one) => [one.status, ...valuesOf(one, "Allow")]);
  assert.deepEqual(told, Array(3).fill(told[0]));
  assert.equal(told[0]?.[0], 204);
  const slash = { method: "OPTIONS", path: "http://gw.test/" };
  assert.equal((await sendRequest(house.port, slash)).status, 401);
  assert.equal(house.backend.seen.length, before);
});

test("CONNECT is 405 and closed, with a key and without, and never a tunnel", async () => {
  for (const target of ["evil.test:443", "127.0.0.1:1", "/v1/pets", "*"]) {
    await using client = await openClient(house.port);
    client.write(
      `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nAuthorization: Bearer ${KEY}\r\n\r\n`,
    );
    client.write("GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n");
    const [answer] = await client.responses(["GET"]);
    assert.ok(answer?.status === 405 || answer?.status === 400, `${answer?.status}`);
    await client.ended;
    assert.equal(client.waiting().length, 0);
  }
});

test("CONNECT has its line, its id and the three fields as any request, behind another one too", async () => {
  await using client = await openClient(house.port);
  const before = house.lines.length;
  const head = `Host: a:443\r\nAuthorization: Bearer ${KEY}\r\n\r\n`;
  client.write(`GET /v1/pets HTTP/1.1\r\n${head.replace("a:443", "gw.test")}`);
  client.write(`CONNECT a:443 HTTP/1.1\r\n${head}`);
  const [got, refused] = await client.responses(["GET", "GET"]);
  assert.equal(got?.status, 200);
  assert.equal(refused?.status, 405);
  assert.equal(errorOf(refused).code, "method_not_allowed");
  for (const name of ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Allow"]) {
    assert.equal(valuesOf(refused, name).length, 1, name);
  }
  const [id] = valuesOf(refused, "X-Request-Id");
  await eventually(() => assert.equal(house.lines.length, before + 2));
  const entry = house.lines.at(-1);
  assert.deepEqual([entry?.id, entry?.status, entry?.charged], [id, 405, 0]);
});

test("TRACE is 405 with Allow, and reflects nothing", async () => {
  const answer = await sendRequest(house.port, { key: KEY, method: "TRACE" });
  assert.equal(errorOf(answer).code, "method_not_allowed");
  assert.ok((valuesOf(answer, "Allow")[0] ?? "").includes("GET"));
  assert.ok(!answer.body.toString().includes(KEY));
});

test("OPTIONS * is answered here, without a key and at no cost", async () => {
  const before = house.backend.seen.length;
  const answer = await sendRequest(house.port, { method: "OPTIONS", path: "*" });
  assert.equal(answer.status, 204);
  assert.equal(house.backend.seen.length, before);
});

test("an OPTIONS that may be forwarded no further is answered here, at its cost", async () => {
  const of = (...methods: string[]) =>
    Object.fromEntries(
      methods.map((method) => [method, { responses: { 200: { description: "" } } }]),
    );
  const info = { title: "t", version: "1" };
  const api = { openapi: "3.1.0", info, paths: { "/pets": of("get", "options") } };
  const files = { "api.json": JSON.stringify(api) };
  await using open = await openAttacked({ api: "./api.json", files });
  const ask = (hops: string, key = KEY) =>
    sendRequest(open.port, { key, method: "OPTIONS", fields: [["Max-Forwards", hops]] });
  const answer = await ask("0");
  assert.deepEqual([answer.status, valuesOf(answer, "Allow")], [204, ["GET, HEAD, OPTIONS"]]);
  await eventually(() => assert.equal(open.lines.length, 1));
  const { source, decision, charged, forwards } = open.lines[0] ?? {};
  assert.deepEqual([source, decision, charged, forwards], ["gateway", "admitted", 1, 0]);
  assert.equal((await ask("0", `${KEY.slice(0, -1)}?`)).status, 401);
  assert.equal(open.backend.seen.length, 0);
  assert.equal((await ask("1")).status, 200);
  assert.deepEqual(fieldOf(lastSeen(open), "max-forwards"), ["0"]);
  await lawHolds(open);
});

test("the law holds after all of it", () => lawHolds(house));
