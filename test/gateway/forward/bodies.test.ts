import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { errorOf, openClient, sendRequest } from "../../support/wire/client.ts";
import type { RawResponse } from "../../support/wire/response.ts";

const house = await startTestGateway({
  environment: { limits: { bodyBytes: "4KiB" } },
  config: { unauthenticated: { minute: 100_000 } },
});
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

function chunked(sizes: readonly number[], fields = ""): string {
  const chunks = sizes.map((size) => `${size.toString(16)}\r\n${"x".repeat(size)}\r\n`).join("");
  return (
    `POST /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n${fields}` +
    `Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`
  );
}

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

test("a 413 names the bytes that are accepted, by the length of the body and as it came", async () => {
  const message = "The request body is larger than the 4096 bytes that this gateway accepts here";
  const long = await sendRequest(house.port, { key, method: "POST", body: "x".repeat(4_097) });
  assert.deepEqual([long.status, errorOf(long).message], [413, message]);
  await using client = await openClient(house.port);
  client.write(chunked([4_096, 1]));
  const [came] = (await client.responses(["POST"])) as [RawResponse];
  assert.deepEqual([came.status, errorOf(came).message], [413, message]);
});

test("why a body is not forwarded to its end is told in words, and not by the code of its refusal", async () => {
  house.backend.answer(() => {});
  for (const [rest, reason] of [
    ["zz\r\n", "a chunk is malformed"],
    [`1;${"e".repeat(9_000)}\r\nx\r\n`.repeat(2), "the extensions of all chunks are over 16 KiB"],
    [
      "0\r\nContent-Length: 1\r\n\r\n",
      "a trailer field is malformed, or is Content-Length or Transfer-Encoding",
    ],
    [
      `0\r\n${"X-A: 1\r\n".repeat(98)}\r\n`,
      "the fields of the head and the trailers are over headerBytes or headerCount",
    ],
  ] as const) {
    await using client = await openClient(house.port);
    const [head = ""] = chunked([]).split("0\r\n\r\n");
    const lines = house.lines.length;
    client.write(`${head}3\r\nabc\r\n${rest}`);
    await eventually(() => assert.equal(house.lines.length, lines + 1));
    assert.equal(house.lines[lines]?.why, reason);
  }
  house.backend.answer(async (_seen, response, _request, whole) => {
    await whole;
    response.end("ok");
  });
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
    const answer = await sendRequest(house.port, { key, method, body: "{}" });
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
  await using other = await startTestGateway({ files: { "api.yaml": api }, api: "./api.yaml" });
  const { key: theirs } = await other.issue();
  const declared = { key: theirs, method: "DELETE", body: '{"a":1}' };
  assert.equal((await sendRequest(other.port, declared)).status, 200);
  assert.equal(other.backend.seen.at(-1)?.body.toString(), '{"a":1}');
  assert.equal((await sendRequest(other.port, { ...declared, path: "/v1/none" })).status, 400);
  const bare = { key: theirs, method: "DELETE", path: "/v1/none" };
  assert.equal((await sendRequest(other.port, bare)).status, 200);
  await other.law();
});

function expecting(of: string): string {
  const fields = `Authorization: Bearer ${of}\r\nExpect: 100-continue\r\nContent-Length: 3\r\n`;
  return `POST /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
}

test("100-continue: the decision comes first, then 100, then the body", async () => {
  await using client = await openClient(house.port);
  const seen = house.backend.seen.length;
  client.write(expecting(key));
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

test("100-continue: without a backend the body is not asked for", async () => {
  const origin = `http://127.0.0.1:${await freePort()}`;
  await using other = await startTestGateway({ environment: { upstreams: [origin] } });
  await using client = await openClient(other.port);
  client.write(expecting((await other.issue()).key));
  const [answer] = (await client.responses(["POST"])) as [RawResponse];
  assert.deepEqual([answer.status, answer.interim], [502, []]);
  assert.equal(await client.ended, "closed");
  await other.law();
});

test("100-continue: the body is asked for when a connection to the backend is free, once", async () => {
  await using other = await startTestGateway({
    environment: { limits: { upstreamConnections: 1 } },
  });
  const { key: theirs, id } = await other.issue();
  let answerNow = () => {};
  other.backend.answer((_seen, response) => {
    answerNow = () => void response.end();
  });
  const first = sendRequest(other.port, { key: theirs });
  await eventually(() => other.backend.seen.length === 1);
  other.backend.answer((_seen, response) => void response.end());
  await using client = await openClient(other.port);
  client.write(expecting(theirs));
  await eventually(async () => {
    const usage = (await (await other.admin(`/api/usage/${id}`)).json()) as {
      windows: { used: number }[];
    };
    assert.equal(usage.windows.at(-1)?.used, 2, "of the day: a minute may end meanwhile");
  });
  assert.equal((await sendRequest(other.port)).status, 401);
  assert.equal(client.waiting().toString(), "");
  answerNow();
  assert.equal((await first).status, 200);
  await eventually(() => client.waiting().includes("HTTP/1.1 100 Continue\r\n\r\n"));
  client.write("abc");
  const [answer] = (await client.responses(["POST"])) as [RawResponse];
  assert.deepEqual([answer.status, answer.interim.length], [200, 1]);
  await other.law();
});

test("another expectation is 417, uncharged", async () => {
  const answer = await sendRequest(house.port, { key, fields: [["Expect", "200-ok"]] });
  assert.deepEqual([answer.status, errorOf(answer).code], [417, "expectation_failed"]);
});

test("the law holds after all of it", async () => {
  await house.law({ connectionsFailed: true });
});
