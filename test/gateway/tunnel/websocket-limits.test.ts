import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "vitest";
import { webSocketAccept } from "../../../src/core/http/websocket.ts";
import { each } from "../../support/each.ts";
import { startByteUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGatewayOptions } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openClient } from "../../support/wire/client.ts";
import {
  handshakeOf,
  openWebSocket,
  startWebSocketUpstream,
  type WebSocketClient,
} from "../../support/wire/websocket.ts";

type Limits = Readonly<Record<string, unknown>>;

async function houseWith(limits: Limits, options: TestGatewayOptions = {}) {
  const upstream = await startWebSocketUpstream();
  const environment = { api: null, limits, ...options.environment };
  const house = await startTestGateway({ ...options, upstream, environment });
  return { house, upstream, url: `${house.url}/v1/feed` };
}

/** Waits for the end of a socket, and gives its code and how long that took from now. */
async function endOf(client: WebSocketClient, withinMs: number) {
  const startedMs = performance.now();
  const timer = setTimeout(() => client.socket.terminate(), withinMs);
  const { code } = await client.closed;
  clearTimeout(timer);
  return { code, ms: performance.now() - startedMs };
}

test("a key has tunnelsPerKey tunnels at once: one more is 503, and one less makes room", async () => {
  const { house, url } = await houseWith({ tunnelsPerKey: 2 });
  await using _house = house;
  const { key, account } = await house.issue();
  const { key: other } = await house.issue({ account });
  const first = await openWebSocket(url, { key });
  await using _second = await openWebSocket(url, { key });
  await using client = await openClient(house.port);
  const refused = await client.ask({ key, fields: handshakeOf() });
  assert.equal(refused.status, 503);
  assert.equal(JSON.parse(refused.body.toString()).code, "too_many_tunnels");
  assert.equal(await client.ended, "closed");
  await using _another = await openWebSocket(url, { key: other });

  await first[Symbol.asyncDispose]();
  await eventually(() => house.lines.some(({ status }) => status === 101));
  await using _third = await openWebSocket(url, { key });
  const entry = house.lines.find(({ status }) => status === 503);
  assert.deepEqual([entry?.decision, entry?.charged, entry?.forwards], ["admitted", 1, 0]);
});

test("with tunnelsPerKey 0 there are none", async () => {
  const { house, url } = await houseWith({ tunnelsPerKey: 0 });
  await using _house = house;
  const { key } = await house.issue();
  await assert.rejects(openWebSocket(url, { key }), /503/);
  await house.law();
});

test("a tunnel without a byte for tunnelIdle is closed with 1001, one with a byte now and then is not", async () => {
  const { house, upstream, url } = await houseWith({ tunnelIdle: "600ms" });
  await using _house = house;
  const { key } = await house.issue();
  const openedMs = performance.now();
  const idle = await openWebSocket(url, { key });
  // Each beats as soon as it is open: a busy machine takes long to open the next one.
  await using up = await openWebSocket(url, { key });
  const upBeat = setInterval(() => up.socket.pong(), 100);
  await using down = await openWebSocket(url, { key });
  const downBeat = setInterval(() => upstream.sockets[2]?.pong(), 100);
  const { value, stalledMs } = await watchStalls(() => endOf(idle, 60_000));
  const ms = performance.now() - openedMs;
  assert.equal(value.code, 1001);
  assert.ok(ms >= 600 && value.ms < 3_000 + stalledMs, `${ms} ms, ${stalledMs} stalled`);
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  for (const beat of [upBeat, downBeat]) clearInterval(beat);
  assert.deepEqual([up.socket.readyState, down.socket.readyState], [1, 1]);
  const entry = house.lines.find(({ status }) => status === 101);
  assert.match(entry?.why ?? "", /no byte/);
});

test("a frame that is cut short by tunnelIdle is not followed by a close frame", async () => {
  const upstream = await startWebSocketUpstream({
    serve: (socket) => {
      const { _socket: raw } = socket as unknown as { _socket: { write(data: Buffer): void } };
      raw.write(Buffer.from([0x81, 5, 0x68, 0x65]));
    },
  });
  const environment = { api: null, limits: { tunnelIdle: "300ms" } };
  await using house = await startTestGateway({ upstream, environment });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const { status, body } = await client.ask({ key, fields: handshakeOf() });
  assert.equal(status, 101);
  await client.ended;
  assert.deepEqual([...body, ...client.waiting()], [0x81, 5, 0x68, 0x65]);
});

test("the tunnels of an account are closed with 1008 within 5 s of its ban, and no others", async () => {
  const bans = { strikes: 1, within: "1m", grace: "1ms", duration: "1m" };
  const { house, url } = await houseWith({}, { config: { bans } });
  await using _house = house;
  const { key, account } = await house.issue({ limits: { minute: 3 } });
  const { key: second } = await house.issue({ account, limits: { minute: 3 } });
  const { key: stranger } = await house.issue();
  const client = await openWebSocket(url, { key });
  const sister = await openWebSocket(url, { key: second });
  await using other = await openWebSocket(url, { key: stranger });
  await eventually(async () => {
    const answer = await house.ask(key);
    return ((await answer.json()) as { code: string }).code === "key_banned";
  });
  const ends = await Promise.all([endOf(client, 20_000), endOf(sister, 8_000)]);
  for (const { code, ms } of each(ends)) {
    assert.equal(code, 1008);
    assert.ok(ms < 5_000, `${ms} ms`);
  }
  assert.equal(other.socket.readyState, 1);
});

test("the tunnels of a key are closed with 1008 within 5 s of its revocation, and no others", async () => {
  const { house, url } = await houseWith({});
  await using _house = house;
  const { key, id, account } = await house.issue();
  const { key: sister } = await house.issue({ account });
  const client = await openWebSocket(url, { key });
  await using other = await openWebSocket(url, { key: sister });
  const revoked = await house.admin(`/api/keys/${id}/revoke`, { method: "POST", body: "{}" });
  assert.equal(revoked.status, 200);
  const { code, ms } = await endOf(client, 20_000);
  assert.equal(code, 1008);
  assert.ok(ms < 5_000, `${ms} ms`);
  assert.equal(other.socket.readyState, 1);
  await eventually(() => house.lines.some(({ why }) => /revoked/.test(why ?? "")));
});

test("the tunnels of a key are closed within 5 s of its expiry", async () => {
  const { house, url } = await houseWith({});
  await using _house = house;
  const { key, id } = await house.issue();
  const client = await openWebSocket(url, { key });
  const body = JSON.stringify({ expires: "1s" });
  assert.equal((await house.admin(`/api/keys/${id}`, { method: "PATCH", body })).status, 200);
  const { code, ms } = await endOf(client, 20_000);
  assert.equal(code, 1008);
  assert.ok(ms < 1_000 + 5_000, `${ms} ms`);
});

test("tunnels stay open during the drain and are closed with 1001 within 5 s of its deadline", async () => {
  const { house, url } = await houseWith({}, { environment: { limits: { drain: "2s" } } });
  await using _house = house;
  const { key } = await house.issue();
  const client = await openWebSocket(url, { key });
  const startedMs = performance.now();
  const stopped = house.gateway.stop();
  client.socket.send("still here");
  await eventually(() => client.messages.length === 1, { withinMs: 1_900 });
  const { code } = await endOf(client, 20_000);
  const ms = performance.now() - startedMs;
  assert.equal(code, 1001);
  assert.ok(ms >= 1_900 && ms < 7_000, `${ms} ms`);
  await stopped;
  assert.equal(house.lines.filter(({ status }) => status === 101).length, 1);
});

test("a request does not outlast the deadline of the drain because a tunnel takes its leave", async () => {
  const { house } = await houseWith({}, { environment: { limits: { drain: "500ms" } } });
  await using _house = house;
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  await client.ask({ key, fields: handshakeOf() });
  await using other = await openClient(house.port);
  other.write(
    `POST /v1/feed HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\nContent-Length: 5\r\n\r\n`,
  );
  await eventually(async () => {
    const metrics = await (await house.admin("/metrics")).text();
    assert.match(metrics, /^tollgate_http_requests_in_flight 2$/m);
  });
  await house.gateway.stop();
  // The client never answers the close of its tunnel, which is cut a second later.
  assert.deepEqual(
    house.lines.map(({ status }) => status),
    [499, 101],
  );
});

test("a tunnel whose client never answers the close is gone a second after it", async () => {
  const { house } = await houseWith({ tunnelIdle: "200ms" });
  await using _house = house;
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  await client.ask({ key, fields: handshakeOf() });
  await client.ended;
  // Half-open: our side goes on.
  await eventually(() => house.lines.some(({ status }) => status === 101));
});

/** A backend that agrees to the handshake of `handshakeOf`, then goes on with `speak`. */
async function startSpeaker(speak: (socket: Socket) => void) {
  const nonce = new Map(handshakeOf()).get("Sec-WebSocket-Key") ?? "";
  const backend = await startByteUpstream((socket) => {
    socket.removeAllListeners("end");
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
        `Sec-WebSocket-Accept: ${webSocketAccept(nonce)}\r\n\r\n`,
    );
    speak(socket);
  });
  return { backend, upstream: { origin: backend.origin, seen: [], close: backend.close } };
}

test("a tunnel whose client has ended is over a second later, although its backend does not end and pushes on", async () => {
  const { backend, upstream } = await startSpeaker((socket) => {
    const push = setInterval(() => socket.write("\x82\x04push"), 50);
    socket.once("close", () => clearInterval(push));
  });
  const environment = { api: null, limits: { tunnelsPerKey: 1 } };
  await using house = await startTestGateway({ upstream, environment });
  const { key } = await house.issue({ limits: { concurrent: 1 } });
  await using client = await openClient(house.port);
  await client.ask({ key, fields: handshakeOf() });
  const startedMs = performance.now();
  client.socket.end(Buffer.from("\x82\x84\0\0\0\0last"));
  const { value: why, stalledMs } = await watchStalls(() => {
    return eventually(() => {
      const entry = house.lines.find(({ status }) => status === 101);
      assert.ok(entry);
      return entry.why;
    });
  });
  const ms = performance.now() - startedMs;
  assert.equal(why, "the client went away");
  assert.ok(ms >= 950 && ms < 3_000 + stalledMs, `${ms} ms, ${stalledMs} stalled`);
  assert.ok(backend.received[0]?.bytes().includes("last"));
  await using next = await openClient(house.port);
  assert.equal((await next.ask({ key, fields: handshakeOf() })).status, 101);
});

test("a client that has ended and reads slowly gets all that its backend sends before its own end", async () => {
  const rest = Buffer.alloc(24 * 1024 * 1024, "x");
  const { upstream } = await startSpeaker((socket) => socket.once("end", () => socket.end(rest)));
  await using house = await startTestGateway({ upstream, environment: { api: null } });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  await client.ask({ key, fields: handshakeOf() });
  client.socket.removeAllListeners("data");
  client.socket.pause();
  client.socket.end();
  await delay(2_500);
  let bytes = client.waiting().length;
  client.socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  client.socket.resume();
  assert.equal(await client.ended, "closed");
  assert.equal(bytes, rest.length);
  await eventually(() => {
    const entry = house.lines.find(({ status }) => status === 101);
    assert.deepEqual([entry?.status, entry?.why], [101, undefined]);
  });
});

test("a client that has ended gets what its backend sent in time, although the gateway stood still until later", async () => {
  for (const rest of each([Buffer.from("\x82\x04last", "latin1"), Buffer.alloc(1 << 20, "x")])) {
    const { upstream } = await startSpeaker((socket) => {
      socket.once("end", () => {
        socket.end(rest);
        // The gateway is in this process, and waits a second for its backend since it sent this end.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_300);
      });
    });
    await using house = await startTestGateway({ upstream, environment: { api: null } });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    await client.ask({ key, fields: handshakeOf() });
    client.socket.end();
    assert.equal(await client.ended, "closed");
    assert.equal(client.waiting().length, rest.length);
    await eventually(() => {
      const entry = house.lines.find(({ status }) => status === 101);
      assert.deepEqual([entry?.status, entry?.why], [101, undefined]);
    });
  }
});

test("the tunnels of an account are closed with 1008 within 5 s of its suspension, and no others", async () => {
  const { house, url } = await houseWith({});
  await using _house = house;
  const { key, account } = await house.issue();
  const { key: stranger } = await house.issue();
  const client = await openWebSocket(url, { key });
  await using other = await openWebSocket(url, { key: stranger });
  const path = `/api/accounts/${account}/suspend`;
  const suspended = await house.admin(path, { method: "POST", body: "{}" });
  assert.equal(suspended.status, 200);
  const { code, ms } = await endOf(client, 20_000);
  assert.equal(code, 1008);
  assert.ok(ms < 5_000, `${ms} ms`);
  assert.equal(other.socket.readyState, 1);
  await eventually(() => house.lines.some(({ why }) => /the account is suspended/.test(why ?? "")));
});
