import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ask, errorOf, openClient, requestBytes } from "../support/client.ts";
import { openHouse } from "../support/house.ts";
import { eventually } from "../support/poll.ts";
import { sendRaw } from "../support/raw.ts";
import { onlyValue, parseResponses, type RawResponse, valuesOf } from "../support/response.ts";

const MAX = 4_096;
const KEPT = 65_536;
const house = await openHouse({
  environment: { limits: { bodyBytes: "4KiB" } },
  config: { unauthenticated: { minute: 100_000 } },
});
after(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });
/** For the unread bodies: the limit is far away, and refusals come before the body is looked at. */
const wide = await openHouse({ config: { unauthenticated: { minute: 100_000 } } });
after(() => wide[Symbol.asyncDispose]());

function chunked(sizes: readonly number[], fields = ""): string {
  const chunks = sizes.map((size) => `${size.toString(16)}\r\n${"x".repeat(size)}\r\n`).join("");
  return (
    `POST /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n${fields}` +
    `Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`
  );
}

async function sentRaw(port: number, bytes: string | Uint8Array): Promise<RawResponse> {
  const { bytes: got } = await sendRaw(port, bytes, { methods: ["POST"] });
  const { responses } = parseResponses(got, { methods: ["POST"] });
  assert.equal(responses.length, 1, got.toString());
  return responses[0] as RawResponse;
}

test("a body of exactly bodyBytes passes, one byte more is 413 and uncharged", async () => {
  const whole = await ask(house.port, { key, method: "POST", body: "x".repeat(MAX) });
  assert.equal(whole.status, 200);
  assert.equal(house.backend.seen.at(-1)?.body.length, MAX);
  const seen = house.backend.seen.length;
  const over = await ask(house.port, { key, method: "POST", body: "x".repeat(MAX + 1) });
  assert.deepEqual([over.status, errorOf(over).code], [413, "body_too_large"]);
  assert.equal(house.backend.seen.length, seen);
  await eventually(() => house.lines.at(-1)?.status === 413);
  assert.equal(house.lines.at(-1)?.charged, 0);
});

test("the same for a chunked body, in one chunk or many: too long after forwarding is charged", async () => {
  for (const sizes of [[MAX], [1, MAX - 1], Array(64).fill(64)]) {
    const answer = await sentRaw(house.port, chunked(sizes));
    assert.equal(answer.status, 200);
    assert.equal(house.backend.seen.at(-1)?.body.length, MAX);
  }
  for (const sizes of [[MAX + 1], [1, MAX], [MAX, 1]]) {
    const answer = await sentRaw(house.port, chunked(sizes));
    assert.deepEqual([answer.status, errorOf(answer).code], [413, "body_too_large"]);
    assert.equal(onlyValue(answer, "Connection"), "close");
    await eventually(() => house.lines.at(-1)?.status === 413);
    assert.equal(house.lines.at(-1)?.charged, 1, "it stays charged");
    assert.ok(house.backend.seen.every(({ body }) => body.length <= MAX));
  }
});

test("a body badly chunked after it was forwarded: 400, charged, never complete at the backend", async () => {
  await using client = await openClient(house.port);
  const [head = ""] = chunked([]).split("0\r\n\r\n");
  const seen = house.backend.seen.length;
  client.write(`${head}3\r\nabc\r\n`);
  await eventually(() => house.backend.seen.length === seen + 1);
  client.write("zz\r\n");
  const [answer] = (await client.responses(["POST"])) as [RawResponse];
  assert.deepEqual([answer.status, errorOf(answer).code], [400, "bad_request"]);
  assert.equal(await client.ended, "closed");
  assert.equal(house.backend.seen.at(-1)?.complete, false);
  assert.deepEqual([house.lines.at(-1)?.charged, house.lines.at(-1)?.forwards], [1, 1]);
});

test("a body that breaks after the response head went out ends the connection", async () => {
  house.backend.answer((_seen, response) => {
    response.write("begun");
  });
  await using client = await openClient(house.port);
  const [head = ""] = chunked([]).split("0\r\n\r\n");
  client.write(`${head}3\r\nabc\r\n`);
  await eventually(() => client.waiting().includes("begun"));
  client.write("zz\r\n");
  await client.ended;
  assert.ok(!client.waiting().includes("\r\n0\r\n\r\n"), "no clean end");
  house.backend.answer(async (_seen, response, _request, whole) => {
    await whole;
    response.end("ok");
  });
});

test("a body on GET, HEAD or OPTIONS is 400; on DELETE only where it is not declared", async () => {
  for (const method of ["GET", "HEAD", "OPTIONS", "DELETE"]) {
    const answer = await ask(house.port, { key, method, body: "{}" });
    assert.equal(answer.status, 400, method);
  }
  const api = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    delete: { operationId: a, requestBody: {}, responses: {} }
  /none:
    delete: { operationId: b, responses: {} }
`;
  await using other = await openHouse({ files: { "api.yaml": api }, api: "./api.yaml" });
  const { key: theirs } = await other.issue();
  const declared = { key: theirs, method: "DELETE", body: '{"a":1}' };
  assert.equal((await ask(other.port, declared)).status, 200);
  assert.equal(other.backend.seen.at(-1)?.body.toString(), '{"a":1}');
  assert.equal((await ask(other.port, { ...declared, path: "/v1/none" })).status, 400);
  const bare = { key: theirs, method: "DELETE", path: "/v1/none" };
  assert.equal((await ask(other.port, bare)).status, 200);
  await other.law();
});

test("an unread body of at most 64 KiB by Content-Length is read, and the connection kept", async () => {
  await using client = await openClient(wide.port);
  const body = Buffer.alloc(KEPT);
  const refused = await client.ask({ method: "POST", body });
  assert.equal(refused.status, 401);
  assert.ok(!valuesOf(refused, "Connection").includes("close"));
  assert.equal((await client.ask()).status, 401, "the next request on it is answered");
});

test("an unread body over 64 KiB, or a chunked one, ends the connection after the answer", async () => {
  const long = Buffer.alloc(KEPT + 1);
  await using client = await openClient(wide.port);
  const refused = await client.ask({ method: "POST", body: long });
  assert.deepEqual([refused.status, onlyValue(refused, "Connection")], [401, "close"]);
  assert.equal(await client.ended, "closed");
  await using other = await openClient(wide.port);
  other.write("POST /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const [answer] = (await other.responses(["POST"])) as [RawResponse];
  assert.deepEqual([answer.status, onlyValue(answer, "Connection")], [401, "close"]);
  assert.equal(await other.ended, "closed");
});

test("the answer is readable for clients that write all before they read, in 99 of 100", async () => {
  const bytes = requestBytes({ method: "POST", body: Buffer.alloc(900_000) });
  let read = 0;
  for (let i = 0; i < 100; i++) {
    await using client = await openClient(wide.port);
    client.socket.pause();
    await new Promise((resolve) => client.socket.write(bytes, resolve));
    client.socket.resume();
    const answer = await client.responses(["POST"], 3_000).catch(() => []);
    if (answer[0]?.status === 401) read += 1;
  }
  assert.ok(read >= 99, `${read} of 100`);
});

test("an unread body without an end is cut off within about a second", async () => {
  await using client = await openClient(wide.port);
  client.write("POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
  const [answer] = (await client.responses(["POST"])) as [RawResponse];
  assert.equal(answer.status, 401);
  const startMs = performance.now();
  await client.ended;
  await eventually(async () => {
    client.write("x");
    await sleep(50);
    return client.socket.destroyed || client.socket.errored !== null;
  });
  assert.ok(performance.now() - startMs < 4_000);
});

test("100-continue: the decision comes first, then 100, then the body", async () => {
  await using client = await openClient(house.port);
  const fields = `Authorization: Bearer ${key}\r\nExpect: 100-continue\r\nContent-Length: 3\r\n`;
  const seen = house.backend.seen.length;
  client.write(`POST /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  await eventually(() => client.waiting().includes("HTTP/1.1 100 Continue\r\n\r\n"));
  client.write("abc");
  const [answer] = (await client.responses(["POST"])) as [RawResponse];
  assert.equal(answer.status, 200);
  assert.deepEqual(
    answer.interim.map(({ status }) => status),
    [100],
  );
  const record = house.backend.seen[seen];
  assert.equal(record?.body.toString(), "abc");
  assert.ok(!record?.rawHeaders.some((name) => name.toLowerCase() === "expect"));
});

test("100-continue: a refusal comes without 100, and the connection ends", async () => {
  for (const [more, path, status] of [
    ["", "/v1/pets", 401],
    [`Authorization: Bearer ${key}\r\n`, "/v1/none", 404],
    [`Authorization: Bearer ${key}\r\n`, "/v1/../x", 400],
  ] as const) {
    await using client = await openClient(house.port);
    const fields = `${more}Expect: 100-continue\r\nContent-Length: 3\r\n`;
    client.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
    const [answer] = (await client.responses(["POST"])) as [RawResponse];
    assert.deepEqual([answer.status, answer.interim], [status, []]);
    assert.equal(await client.ended, "closed");
  }
});

test("another expectation is 417, uncharged", async () => {
  const answer = await ask(house.port, { key, fields: [["Expect", "200-ok"]] });
  assert.deepEqual([answer.status, errorOf(answer).code], [417, "expectation_failed"]);
});

test("the law holds after all of it", async () => {
  await house.law({ connectionsFailed: true });
  await wide.law();
});
