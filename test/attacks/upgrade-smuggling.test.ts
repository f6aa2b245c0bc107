import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, openClient, rateLimitFieldsOf, requestBytes } from "../support/wire/client.ts";
import { onlyValue, valuesOf } from "../support/wire/response.ts";
import { handshakeOf, startWebSocketUpstream } from "../support/wire/websocket.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const upstream = await startWebSocketUpstream();
const house = await startTestGateway({
  upstream,
  now: () => NOON,
  config: { unauthenticated: { minute: 1000 } },
});
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

const uncaught: unknown[] = [];
process.on("uncaughtExceptionMonitor", (error) => uncaught.push(error));

/** A second request right behind: it must never be read as one. */
const SMUGGLED = requestBytes({ key, path: "/v1/pets?smuggled=1" });

type Change = readonly [name: string, fields: readonly (readonly [string, string])[]];

const MALFORMED: readonly Change[] = [
  ["with a body by length", [...handshakeOf(), ["Content-Length", String(SMUGGLED.length)]]],
  ["with a chunked body", [...handshakeOf(), ["Transfer-Encoding", "chunked"]]],
  ["of version 8", handshakeOf({ "Sec-WebSocket-Version": "8" })],
  ["of no version", handshakeOf({ "Sec-WebSocket-Version": undefined })],
  ["of two versions", [...handshakeOf(), ["Sec-WebSocket-Version", "13"]]],
  ["without a key", handshakeOf({ "Sec-WebSocket-Key": undefined })],
  ["with a key of 15 bytes", handshakeOf({ "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAA" })],
  ["with a key of 17 bytes", handshakeOf({ "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAAA=" })],
  ["with two keys", [...handshakeOf(), ["Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="]]],
  ["with two Upgrade fields", [...handshakeOf(), ["Upgrade", "websocket"]]],
];

for (const [name, fields] of MALFORMED) {
  test(`a handshake ${name} is 400, and what follows it is no request`, async () => {
    const seen = upstream.seen.length;
    await using client = await openClient(house.port);
    client.write(Buffer.concat([requestBytes({ key, fields }), SMUGGLED]));
    const [answer] = await client.responses(["GET"]);
    assert.ok(answer);
    assert.equal(errorOf(answer).code, "bad_request");
    assert.equal(rateLimitFieldsOf(answer).limit, 1000);
    assert.equal(onlyValue(answer, "Connection"), "close");
    if (name !== "with two Upgrade fields") {
      assert.equal(onlyValue(answer, "Sec-WebSocket-Version"), "13");
    }
    assert.equal(await client.ended, "closed");
    assert.equal(upstream.seen.length, seen);
  });
}

test("a POST that asks for a WebSocket is 400", async () => {
  await using client = await openClient(house.port);
  const answer = await client.ask({ method: "POST", key, fields: handshakeOf(), body: "{}" });
  assert.equal(errorOf(answer).code, "bad_request");
});

test("a handshake behind an unanswered request is 400, after that request's answer", async () => {
  let answerFirst: () => void = () => undefined;
  const slow = await startTestUpstream((_seen, response) => {
    answerFirst = () => response.end("first");
  });
  await using own = await startTestGateway({ backend: slow });
  const { key: ownKey } = await own.issue();
  await using client = await openClient(own.port);
  const handshake = requestBytes({ key: ownKey, fields: handshakeOf() });
  client.write(Buffer.concat([requestBytes({ key: ownKey }), handshake, SMUGGLED]));
  await eventually(() => slow.seen.length === 1);
  assert.equal(client.waiting().length, 0);
  answerFirst();
  const [first, second] = await client.responses(["GET", "GET"]);
  assert.equal(first?.body.toString(), "first");
  assert.equal(second?.status, 400);
  assert.equal(await client.ended, "closed");
  assert.equal(slow.seen.length, 1);
  await own.law();
});

test("a handshake behind an answered request is served", async () => {
  await using client = await openClient(house.port);
  assert.equal((await client.ask({ key })).status, 200);
  assert.equal((await client.ask({ key, fields: handshakeOf() })).status, 101);
});

const PLAIN: readonly Change[] = [
  [
    "Upgrade: h2c",
    [
      ["Connection", "Upgrade, HTTP2-Settings"],
      ["Upgrade", "h2c"],
      ["HTTP2-Settings", "AAMAAABkAAQAAP__"],
    ],
  ],
  [
    "Upgrade: TLS/1.0",
    [
      ["Connection", "Upgrade"],
      ["Upgrade", "TLS/1.0"],
    ],
  ],
  [
    "an empty Upgrade",
    [
      ["Connection", "Upgrade"],
      ["Upgrade", ""],
    ],
  ],
  ["a WebSocket among others", handshakeOf({ Upgrade: "websocket, h2c" })],
];

for (const [name, fields] of PLAIN) {
  test(`${name} is no upgrade: a plain request without the field, and what follows it is served`, async () => {
    const seen = upstream.seen.length;
    await using client = await openClient(house.port);
    const plain = requestBytes({ key, fields, path: "/v1/pets?first" });
    client.write(Buffer.concat([plain, requestBytes({ fields }), requestBytes({ key })]));
    const answers = await client.responses(["GET", "GET", "GET"]);
    assert.deepEqual(
      answers.map((answer) => [answer.status, ...valuesOf(answer, "Connection")]),
      [[200], [401], [200]],
    );
    assert.equal(answers[0]?.body.toString(), "plain");
    assert.equal(upstream.seen.length, seen + 2);
    const { target, rawHeaders = [] } = upstream.seen[seen] ?? {};
    assert.equal(target, "/v1/pets?first");
    const names = rawHeaders.filter((_, i) => i % 2 === 0).map((one) => one.toLowerCase());
    assert.ok(!names.includes("upgrade") && !names.includes("http2-settings"));
    assert.ok(client.open());
  });
}

test("an Upgrade that Connection does not name is no upgrade, and the connection is kept", async () => {
  await using client = await openClient(house.port);
  const fields = handshakeOf({ Connection: "keep-alive" });
  client.write(Buffer.concat([requestBytes({ key, fields }), requestBytes({ key })]));
  const answers = await client.responses(["GET", "GET"]);
  assert.deepEqual(
    answers.map(({ body }) => body.toString()),
    ["plain", "plain"],
  );
});

test("an upgrade on HTTP/1.0 is a plain request", async () => {
  await using client = await openClient(house.port);
  const answer = await client.ask({ key, version: "1.0", fields: handshakeOf() });
  assert.deepEqual([answer.status, answer.body.toString()], [200, "plain"]);
});

type Refused = {
  readonly name: string;
  readonly key?: string;
  readonly path?: string;
  readonly status: number;
  readonly code: string;
  readonly charged: 0 | 1;
};

const OTHER = "pets_test_Smuggle0Test0Key0For0Vectors004Lozas";
const REFUSED: readonly Refused[] = [
  { name: "without a key", status: 401, code: "key_missing", charged: 0 },
  {
    name: "with a bad key",
    key: "nonsense0123456789",
    status: 401,
    code: "key_invalid",
    charged: 0,
  },
  {
    name: "with another environment's key",
    key: OTHER,
    status: 401,
    code: "key_invalid",
    charged: 0,
  },
  { name: "to no path", key, path: "/v1/none", status: 404, code: "not_found", charged: 1 },
  { name: "to no target", key, path: "/v1/../x", status: 400, code: "bad_request", charged: 0 },
];

for (const { name, status, code, charged, ...wanted } of REFUSED) {
  test(`a handshake ${name} is ${status} ${code} before any byte goes to the backend`, async () => {
    const seen = upstream.seen.length;
    await using client = await openClient(house.port);
    client.write(Buffer.concat([requestBytes({ ...wanted, fields: handshakeOf() }), SMUGGLED]));
    const [answer] = await client.responses(["GET"]);
    assert.ok(answer);
    assert.equal(answer.status, status);
    assert.equal(errorOf(answer).code, code);
    rateLimitFieldsOf(answer);
    assert.equal(onlyValue(answer, "Cache-Control"), "no-store");
    assert.equal(onlyValue(answer, "Connection"), "close");
    assert.equal(valuesOf(answer, "WWW-Authenticate").length, status === 401 ? 1 : 0);
    assert.equal(await client.ended, "closed");
    const id = onlyValue(answer, "X-Request-Id");
    await eventually(() => house.lines.some((line) => line.id === id));
    const entry = house.lines.find((one) => one.id === id);
    assert.deepEqual([entry?.status, entry?.charged, entry?.forwards], [status, charged, 0]);
    assert.equal(upstream.seen.length, seen);
  });
}

test("a handshake over the quota is 429 with Retry-After, uncharged, before any byte goes on", async () => {
  const { key: own } = await house.issue({ limits: { minute: 1 } });
  await using first = await openClient(house.port);
  assert.equal((await first.ask({ key: own, fields: handshakeOf() })).status, 101);
  const seen = upstream.seen.length;
  await using client = await openClient(house.port);
  const answer = await client.ask({ key: own, fields: handshakeOf() });
  assert.equal(errorOf(answer).code, "rate_limited");
  assert.equal(onlyValue(answer, "Retry-After"), "60");
  assert.deepEqual(rateLimitFieldsOf(answer), { limit: 1, remaining: 0, reset: NOON / 1000 + 60 });
  assert.equal(upstream.seen.length, seen);
});

test("clients that reset at any moment, CONNECT included, reach no one's uncaughtException", async () => {
  const heads = [
    requestBytes({ key, fields: handshakeOf() }),
    requestBytes({ fields: handshakeOf() }),
    Buffer.from("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"),
  ];
  for (const head of heads) {
    for (const waitMs of [0, 0, 1, 2, 5, 20]) {
      const client = await openClient(house.port);
      client.write(Buffer.concat([head, Buffer.alloc(100_000)]));
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      client.socket.resetAndDestroy();
    }
  }
  assert.equal((await house.ask(key)).status, 200);
  assert.deepEqual(uncaught, []);
});

test("the law holds over all of it", () => house.law({ connectionsFailed: true }));
