import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { describe, it } from "vitest";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
  type Upstream,
} from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient } from "../../support/wire/client.ts";
import {
  handshakeOf,
  openWebSocket,
  startWebSocketUpstream,
} from "../../support/wire/websocket.ts";

type Handshake = { readonly request: IncomingMessage; readonly socket: Socket };

/** A backend that answers a handshake when the test says so, and a gateway in front of it. */
async function openPending(limits: Readonly<Record<string, unknown>> = {}) {
  const handshakes: Handshake[] = [];
  const server = createServer();
  server.on("upgrade", (request: IncomingMessage, socket: Socket) => {
    socket.on("error", () => undefined);
    handshakes.push({ request, socket });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const upstream: Upstream = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: handshakes,
    close: async () => {
      for (const { socket } of handshakes) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const house = await startTestGateway({ upstream, environment: { api: null, limits } });
  return { house, handshakes };
}

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

function agree({ request, socket }: Handshake): void {
  const nonce = request.headers["sec-websocket-key"];
  const accept = createHash("sha1").update(`${nonce}${GUID}`).digest("base64");
  const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n`;
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n`);
}

async function waitFor(
  house: TestGateway,
  handshakes: readonly Handshake[],
  count = 1,
): Promise<void> {
  await eventually(() => assert.equal(handshakes.length, count));
  assert.equal(house.lines.length, 0);
}

describe("a handshake that the backend has not answered", () => {
  it("gets 503 draining at the deadline of the drain", async () => {
    const { house, handshakes } = await openPending({ drain: "300ms" });
    await using _house = house;
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    const answer = client.ask({ key, fields: handshakeOf() });
    await waitFor(house, handshakes);
    await house.gateway.stop();
    const { status, body } = await answer;
    assert.equal(status, 503);
    assert.equal(JSON.parse(body.toString()).code, "draining");
  });

  it("of a key that was revoked meanwhile opens no tunnel that lasts", async () => {
    const { house, handshakes } = await openPending();
    await using _house = house;
    const { key, id } = await house.issue();
    const opening = openWebSocket(`${house.url}/v1/feed`, { key });
    await waitFor(house, handshakes);
    await house.admin(`/api/keys/${id}/revoke`, { method: "POST", body: "{}" });
    // Longer than between two looks at the tunnels: one of them meets it unanswered.
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    assert.equal(house.lines.length, 0);
    agree(handshakes[0] as Handshake);
    const client = await opening;
    await eventually(() => assert.equal(client.socket.readyState, 3));
    assert.equal((await client.closed).code, 1008);
  });
});

describe("a tunnel", () => {
  it("that the backend has ended is over long before tunnelIdle where the client never ends it", async () => {
    const { house, handshakes } = await openPending({ tunnelIdle: "10m" });
    await using _house = house;
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    const answer = client.ask({ key, fields: handshakeOf() });
    await waitFor(house, handshakes);
    const [handshake] = handshakes as [Handshake];
    agree(handshake);
    handshake.socket.end();
    assert.equal((await answer).status, 101);
    await client.ended;
    await eventually(() => assert.equal(house.lines[0]?.status, 101));
    assert.equal(house.lines[0]?.why, undefined);
  });

  it("holds the backend back while the client takes nothing, and loses no byte", async () => {
    const PIECES = 400;
    const piece = Buffer.alloc(64 * 1024, 7);
    let sent = 0;
    const upstream = await startWebSocketUpstream({
      serve: (socket) => {
        const next = () => {
          if (sent++ < PIECES) socket.send(piece, next);
        };
        next();
      },
    });
    await using house = await startTestGateway({ upstream, environment: { api: null } });
    const { key } = await house.issue();
    await using client = await openWebSocket(`${house.url}/v1/feed`, { key });
    client.socket.pause();
    await eventually(async () => {
      const before = sent;
      await new Promise((resolve) => setTimeout(resolve, 150));
      return sent === before && sent < PIECES;
    });
    client.socket.resume();
    await eventually(() => assert.equal(client.messages.length, PIECES), { withinMs: 60_000 });
    assert.ok(client.messages.every(({ data }) => data.equals(piece)));
  });

  it("of a deprecated operation is announced by its description alone", async () => {
    const api = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /feed:
    get: { operationId: feed, deprecated: true, x-deprecated-since: "2026-01-01", x-sunset: "2036-12-01", responses: {} }
`;
    const options: TestGatewayOptions = { files: { "feed.yaml": api }, api: "./feed.yaml" };
    const { upstream, handshakes } = await openAnnouncing();
    await using house = await startTestGateway({ ...options, upstream });
    const { key } = await house.issue();
    const opening = openWebSocket(`${house.url}/v1/feed`, { key });
    await waitFor(house, handshakes);
    await using client = await opening;
    assert.equal(client.headers.deprecation, "@1767225600");
    assert.equal(client.headers.sunset, "Mon, 01 Dec 2036 00:00:00 GMT");
  });
});

describe("an ordinary answer to a handshake", () => {
  it("of any length reaches a slow client whole", async () => {
    const body = Buffer.alloc(12 * 1024 * 1024, "y");
    const server = createServer();
    const sockets: Socket[] = [];
    server.on("upgrade", (_request, socket: Socket) => {
      sockets.push(socket.on("error", () => undefined));
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`,
      );
      socket.end(body);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const close = async () => {
      for (const each of sockets) each.destroy();
      await new Promise((resolve) => server.close(resolve));
    };
    await using house = await startTestGateway({
      upstream: { origin, seen: [], close },
      environment: { api: null },
    });
    const { key } = await house.issue();
    const socket = connect(house.port, "127.0.0.1").on("error", () => {});
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    const handshake = handshakeOf().map((field) => `${field.join(": ")}\r\n`);
    const fields = ["Host: gw.test\r\n", `Authorization: Bearer ${key}\r\n`, ...handshake];
    socket.write(`GET /v1/feed HTTP/1.1\r\n${fields.join("")}\r\n`);
    socket.pause();
    await new Promise((resolve) => setTimeout(resolve, 300));
    socket.resume();
    await eventually(() => assert.ok(socket.closed, `${Buffer.concat(chunks).length} bytes`), {
      withinMs: 60_000,
      everyMs: 50,
    });
    const bytes = Buffer.concat(chunks);
    assert.match(bytes.toString("latin1", 0, 15), /^HTTP\/1\.1 200 OK/);
    assert.ok(bytes.subarray(bytes.indexOf("\r\n\r\n") + 4).equals(body));
    await eventually(() => assert.equal(house.lines[0]?.status, 200));
  });
});

/** Agrees to every handshake at once, and announces dates of its own. */
async function openAnnouncing(): Promise<{ upstream: Upstream; handshakes: Handshake[] }> {
  const handshakes: Handshake[] = [];
  const server = createServer();
  server.on("upgrade", (request: IncomingMessage, socket: Socket) => {
    socket.on("error", () => undefined);
    handshakes.push({ request, socket });
    const nonce = request.headers["sec-websocket-key"];
    const accept = createHash("sha1").update(`${nonce}${GUID}`).digest("base64");
    const dates = "Deprecation: @1\r\nSunset: Thu, 01 Jan 1970 00:00:01 GMT\r\n";
    const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n`;
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}${dates}\r\n`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    for (const { socket } of handshakes) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { upstream: { origin, seen: handshakes, close }, handshakes };
}
