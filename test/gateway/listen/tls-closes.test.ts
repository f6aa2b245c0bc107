import assert from "node:assert/strict";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect, createServer } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { type Authority, openAuthority } from "../../support/wire/certificates.ts";

/** By TLS 1.2 the type of each record is legible: an alert behind the handshake is a close_notify. */
const VERSION = { maxVersion: "TLSv1.2" } as const;
const ALERT = 21;

let authority: Authority;
beforeAll(() => {
  authority = openAuthority();
});
afterAll(() => authority[Symbol.dispose]());

/** Relays to a port, and keeps what passed either way on each connection. */
async function openTap(port: number) {
  const passed: { toServer: Buffer; toClient: Buffer; isOver: boolean }[] = [];
  const server = createServer((client) => {
    const tap = { toServer: Buffer.alloc(0), toClient: Buffer.alloc(0), isOver: false };
    passed.push(tap);
    const onward = connect(port, "127.0.0.1");
    for (const one of [client, onward]) one.on("error", () => undefined);
    client.on("data", (bytes: Buffer) => {
      tap.toServer = Buffer.concat([tap.toServer, bytes]);
    });
    onward.on("data", (bytes: Buffer) => {
      tap.toClient = Buffer.concat([tap.toClient, bytes]);
    });
    const over = () => {
      tap.isOver = true;
    };
    for (const one of [client, onward]) one.once("end", over).once("close", over);
    client.pipe(onward).pipe(client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, passed, close: () => server.close() };
}

/** The type of the last TLS record. */
function lastRecord(bytes: Buffer): number | undefined {
  let type: number | undefined;
  for (let at = 0; at + 5 <= bytes.length; at += 5 + bytes.readUInt16BE(at + 3)) type = bytes[at];
  return type;
}

function openHouse(limits: Record<string, unknown>, config = {}): Promise<TestGateway> {
  const { cert, key } = authority.issue(["IP:127.0.0.1"]);
  return startTestGateway({
    config: { limits: { drain: "1s", ...limits }, ...config },
    environment: { tls: { cert: "./edge.pem", key: "./edge.key" } },
    files: { "edge.pem": cert, "edge.key": key },
    keys: { [KEY]: {} },
  });
}

/** A connection that has had an answer and is idle. */
async function openIdle(port: number): Promise<TLSSocket> {
  const socket = connectTls({ port, host: "127.0.0.1", ca: authority.ca, ...VERSION });
  let text = "";
  socket.on("error", () => undefined);
  socket.on("data", (chunk) => (text += String(chunk)));
  socket.write(`GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
  await eventually(() => assert.match(text, /^HTTP\/1\.1 200 /));
  return socket;
}

describe("an idle TLS connection of a client ends with a close_notify", () => {
  const ENDS: Record<string, [Record<string, unknown>, (house: TestGateway) => Promise<unknown>]> =
    {
      "when it was idle for too long": [{ idleTimeout: "300ms" }, async () => undefined],
      "when the gateway drains": [{}, (house) => house.gateway.stop()],
      "when it makes room for another": [{ connections: 1 }, ({ port }) => openIdle(port)],
    };
  for (const [when, [limits, act]] of Object.entries(ENDS)) {
    it(when, async () => {
      await using house = await openHouse(limits);
      const tap = await openTap(house.port);
      const socket = await openIdle(tap.port);
      const other = await act(house);
      await eventually(() => assert.equal(tap.passed[0]?.isOver, true));
      assert.equal(lastRecord(tap.passed[0]?.toClient as Buffer), ALERT);
      socket.destroy();
      if (other !== undefined) (other as TLSSocket).destroy();
      tap.close();
    });
  }
});

describe("a TLS connection to a backend ends with a close_notify", () => {
  const ANSWERS = {
    "when nobody used it for upstreamIdle": {},
    "behind an answer with Connection: close": { Connection: "close" },
  };
  for (const [when, headers] of Object.entries(ANSWERS)) {
    it(when, async () => {
      const pair = authority.issue(["IP:127.0.0.1"]);
      const seen: unknown[] = [];
      const server = createHttpsServer({ ...pair, ...VERSION }, (request, response) => {
        seen.push(request.url);
        // Written without its end, so that the gateway is the first to close.
        response.writeHead(200, { "Content-Length": "2", ...headers });
        response.write("[]");
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const tap = await openTap((server.address() as AddressInfo).port);
      const close = async () => {
        server.closeAllConnections();
        server.close();
      };
      await using house = await startTestGateway({
        upstream: { origin: `https://127.0.0.1:${tap.port}`, seen, close },
        environment: { upstreamTls: { ca: "./ca.pem" } },
        config: { limits: { upstreamIdle: "200ms" } },
        files: { "ca.pem": authority.ca },
        keys: { [KEY]: {} },
      });
      assert.equal((await house.ask(KEY)).status, 200);
      await eventually(() => assert.equal(tap.passed[0]?.isOver, true));
      assert.equal(lastRecord(tap.passed[0]?.toServer as Buffer), ALERT);
      tap.close();
    });
  }
});
