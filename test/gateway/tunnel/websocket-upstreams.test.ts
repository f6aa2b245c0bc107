import assert from "node:assert/strict";
import { createServer } from "node:net";
import { it } from "vitest";
import { upstreamFiles } from "../../../src/base/open-files.ts";
import { startByteUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, openClient } from "../../support/wire/client.ts";
import {
  handshakeOf,
  openWebSocket,
  startWebSocketUpstream,
} from "../../support/wire/websocket.ts";

const AWAY = "http://127.0.0.1:1";

it("a WebSocket handshake goes to another upstream where one cannot be connected to, at once", async () => {
  const upstream = await startWebSocketUpstream();
  await using house = await startTestGateway({
    upstream,
    environment: { api: null, upstreams: [AWAY, upstream.origin] },
  });
  const { key } = await house.issue();
  for (let i = 0; i < 12; i++) {
    await using client = await openWebSocket(`${house.url}/v1/live`, { key });
    client.socket.send("hello");
    await eventually(() => assert.equal(client.messages[0]?.data.toString(), "hello"));
  }
  assert.equal(upstream.seen.length, 12);
  await eventually(() => assert.equal(house.lines.length, 12));
  for (const entry of house.lines) {
    assert.deepEqual([entry.status, entry.forwards, entry.upstream], [101, 1, upstream.origin]);
  }
  assert.match(
    await (await house.admin("/readyz")).text(),
    /down: production http:\/\/127\.0\.0\.1:1/,
  );
  await house.law();
});

it("a WebSocket handshake goes to another upstream where the TLS handshake does not end", async () => {
  const silent = createServer((socket) => void socket.on("error", () => {}).resume());
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as { port: number };
  const upstream = await startWebSocketUpstream();
  await using house = await startTestGateway({
    upstream,
    environment: {
      api: null,
      upstreams: [`https://127.0.0.1:${port}`, upstream.origin],
      limits: { connectTimeout: "100ms" },
    },
  });
  const { key } = await house.issue();
  for (let i = 0; i < 2; i++) {
    await using _ = await openWebSocket(`${house.url}/v1/live`, { key });
  }
  assert.equal(upstream.seen.length, 2);
  await house.law();
  await new Promise((resolve) => silent.close(resolve));
});

it("a WebSocket handshake may be answered later than connectTimeout: that is for the connection", async () => {
  const backend = await startByteUpstream((socket) => {
    setTimeout(() => socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno`), 400);
  });
  await using house = await startTestGateway({
    upstream: { origin: backend.origin, seen: backend.received, close: backend.close },
    environment: { api: null, limits: { connectTimeout: "100ms" } },
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  assert.equal((await client.ask({ key, fields: handshakeOf() })).status, 200);
  await house.law();
});

it("a WebSocket handshake that no upstream could be connected for is 502, charged and not forwarded", async () => {
  const upstream = await startWebSocketUpstream();
  await using house = await startTestGateway({
    upstream,
    environment: { api: null, upstreams: [AWAY, "http://127.0.0.1:2"] },
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const answer = await client.ask({ key, fields: handshakeOf() });
  assert.deepEqual([answer.status, errorOf(answer).code], [502, "upstream_unreachable"]);
  await eventually(() => assert.equal(house.lines.length, 1));
  assert.deepEqual([house.lines[0]?.charged, house.lines[0]?.forwards], [1, 0]);
  await house.law();
});

it("a WebSocket handshake for which the process may open no connection waits for one, and its backend is not told as down", async () => {
  const upstream = await startWebSocketUpstream();
  await using house = await startTestGateway({ upstream, environment: { api: null } });
  const { key } = await house.issue();
  const { part, common } = upstreamFiles;
  Object.assign(upstreamFiles, { part: 0, common: 0 });
  try {
    const opening = openWebSocket(`${house.url}/v1/live`, { key });
    await eventually(() => {
      const short = house.said.filter(({ msg }) => msg === "open_files_short");
      assert.deepEqual(
        short.map(({ why }) => why),
        ["open files: raise their limit (ulimit -n), or lower limits.connections"],
      );
    });
    assert.equal(upstream.seen.length, 0);
    Object.assign(upstreamFiles, { part, common });
    await using client = await opening;
    client.socket.send("hello");
    await eventually(() => assert.equal(client.messages[0]?.data.toString(), "hello"));
    assert.equal(upstreamFiles.open, 1);
  } finally {
    Object.assign(upstreamFiles, { part, common });
  }
  await eventually(() => assert.equal(upstreamFiles.open, 0));
  assert.equal(house.said.filter(({ kind }) => kind === "upstream_down").length, 0);
  await house.law();
});
