import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openWebSocket, startWebSocketUpstream } from "../../support/wire/websocket.ts";

const upstream = await startWebSocketUpstream({
  perMessageDeflate: true,
  protocols: ["pets.v2"],
  serve: (socket, request) => {
    if (request.url?.endsWith("/goodbye")) socket.close(4321, "from the backend");
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  },
});
const house = await startTestGateway({ upstream, environment: { api: null } });
afterAll(() => house[Symbol.asyncDispose]());
const { key, account } = await house.issue({ plan: "business" });
const url = `${house.url}/v1/feed?since=1&until=`;

test("text, binary, empty and fragmented messages pass as they are, both ways", async () => {
  await using client = await openWebSocket(url, { key });
  const { socket, messages } = client;
  socket.send("héllo");
  socket.send(Buffer.from([0, 255, 10]));
  socket.send("one ", { fin: false });
  socket.send("message", { fin: true });
  socket.send("");
  await eventually(() => messages.length === 4);
  assert.deepEqual(
    messages.map(({ data, isBinary }) => (isBinary ? [...data] : data.toString())),
    ["héllo", [0, 255, 10], "one message", ""],
  );
});

test("a message of 10 MB passes unchanged, both ways", async () => {
  await using client = await openWebSocket(url, { key });
  const message = randomBytes(10_000_000);
  client.socket.send(message);
  await eventually(() => client.messages.length === 1, { withinMs: 60_000 });
  assert.ok(client.messages[0]?.data.equals(message));
});

test("a close code and its reason arrive at the other side, whichever closes", async () => {
  const client = await openWebSocket(url, { key });
  const backend = upstream.sockets.at(-1);
  const heard = new Promise<unknown>((resolve) => {
    backend?.once("close", (code, reason) => resolve([code, reason.toString()]));
  });
  client.socket.close(4123, "from the client");
  assert.deepEqual(await heard, [4123, "from the client"]);
  assert.equal((await client.closed).code, 4123);

  const other = await openWebSocket(`${house.url}/v1/goodbye`, { key });
  assert.deepEqual(await other.closed, { code: 4321, reason: "from the backend" });
});

test("pings and pongs pass end to end", async () => {
  await using client = await openWebSocket(url, { key });
  const pong = new Promise((resolve) => client.socket.once("pong", resolve));
  client.socket.ping("are you there");
  assert.equal(String(await pong), "are you there");
  const answered = new Promise((resolve) => upstream.sockets.at(-1)?.once("pong", resolve));
  upstream.sockets.at(-1)?.ping("and you");
  assert.equal(String(await answered), "and you");
});

test("the subprotocol and the extensions are agreed end to end", async () => {
  await using client = await openWebSocket(url, {
    key,
    protocols: ["pets.v3", "pets.v2"],
    perMessageDeflate: { threshold: 0 },
  });
  assert.equal(client.socket.protocol, "pets.v2");
  assert.match(client.socket.extensions, /permessage-deflate/);
  const text = "compress me ".repeat(1_000);
  client.socket.send(text);
  await eventually(() => client.messages.length === 1);
  assert.equal(client.messages[0]?.data.toString(), text);
});

test("20 tunnels at once keep their messages apart, and the metrics count them", async () => {
  const clients = await Promise.all(Array.from({ length: 20 }, () => openWebSocket(url, { key })));
  for (const [at, { socket }] of clients.entries()) {
    for (let i = 0; i < 10; i++) socket.send(`${at}:${i}`);
  }
  for (const [at, { messages }] of clients.entries()) {
    await eventually(() => messages.length === 10);
    assert.deepEqual(
      messages.map(({ data }) => data.toString()),
      Array.from({ length: 10 }, (_, i) => `${at}:${i}`),
    );
  }
  const metrics = await (await house.admin("/metrics")).text();
  assert.match(metrics, /^tollgate_tunnels_open 20$/m);
  for (const client of clients) await client[Symbol.asyncDispose]();
  await eventually(async () => {
    return /^tollgate_tunnels_open 0$/m.test(await (await house.admin("/metrics")).text());
  });
});

test("the backend gets the target as it was sent, our fields, and neither key nor client copies", async () => {
  await using client = await openWebSocket(url, {
    key,
    headers: {
      "X-Drop": "1",
      "X-Consumer-Id": "somebody",
      "X-Request-Id": "mine",
      Cookie: "a=1",
      Origin: "https://pets.example",
      X_Under: "1",
    },
    finishRequest: (request) => {
      request.setHeader("Connection", "Upgrade, X-Drop, Sec-WebSocket-Key");
      request.end();
    },
  });
  const seen = upstream.seen.at(-1);
  assert.equal(seen?.target, "/v1/feed?since=1&until=");
  const fields = new Map<string, string>();
  const raw = seen?.rawHeaders ?? [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase();
    assert.ok(!fields.has(name), `${name} once`);
    fields.set(name, raw[i + 1] as string);
  }
  const told = (name: string) => fields.get(name);
  assert.equal(told("host"), new URL(upstream.origin).host);
  assert.equal(told("x-forwarded-host"), new URL(house.url).host);
  assert.equal(told("x-consumer-id"), account);
  assert.equal(told("x-client-request-id"), "mine");
  assert.equal(told("x-request-id"), client.headers["x-request-id"]);
  assert.equal(told("cookie"), "a=1");
  assert.equal(told("origin"), "https://pets.example");
  assert.equal(told("connection"), "Upgrade");
  assert.equal(told("via"), "1.1 tollgate");
  for (const name of ["authorization", "x-drop", "x_under", "content-length"]) {
    assert.equal(told(name), undefined, name);
  }
});

test("a query that is empty is forwarded byte for byte", async () => {
  for (const target of ["/v1/a?", "/v1/a?b=?c", "/v1/a;b/%C3%A4?x=%zz"]) {
    await using _client = await openWebSocket(`${house.url}/`, {
      key,
      // The client library would normalise it.
      finishRequest: (request) => {
        (request as unknown as { path: string }).path = target;
        request.end();
      },
    });
    assert.equal(upstream.seen.at(-1)?.target, target);
  }
});

test("the 101 tells the request's id and the account's standing", async () => {
  const { key: own } = await house.issue();
  await using client = await openWebSocket(url, { key: own });
  assert.match(String(client.headers["x-request-id"]), /^[0-9a-f-]{36}$/);
  assert.equal(client.headers["x-ratelimit-limit"], "60");
  assert.equal(client.headers["x-ratelimit-remaining"], "59");
});

test("a tunnel is one line in the log when it ends, charged once and forwarded once", async () => {
  const { key: own, id } = await house.issue();
  const client = await openWebSocket(url, { key: own });
  const requestId = client.headers["x-request-id"];
  client.socket.send("hello");
  await eventually(() => client.messages.length === 1);
  const mine = () => house.lines.filter((line) => line.id === requestId);
  assert.equal(mine().length, 0);
  client.socket.close();
  await client.closed;
  const endedMs = performance.now();
  const { stalledMs } = await watchStalls(() => {
    return eventually(() => mine().length === 1, { everyMs: 2 });
  });
  assert.ok(performance.now() - endedMs < 1_000 + stalledMs);
  const [entry] = mine();
  const { key: keyId, status, source, decision, charged, forwards, route } = entry ?? {};
  assert.deepEqual(
    { keyId, status, source, decision, charged, forwards, route },
    {
      keyId: id,
      status: 101,
      source: "backend",
      decision: "admitted",
      charged: 1,
      forwards: 1,
      route: "/v1/*",
    },
  );
});

test("the law holds over all of it", () => house.law());
