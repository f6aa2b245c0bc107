import assert from "node:assert/strict";
import { createServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startTestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { type Authority, openAuthority } from "../../support/wire/certificates.ts";

let authority: Authority;
beforeAll(() => {
  authority = openAuthority();
});
afterAll(() => authority[Symbol.dispose]());

/** A backend on HTTPS that echoes, with a certificate for `name`. */
async function openEcho(name: string, more: ServerOptions = {}) {
  const resumed: boolean[] = [];
  const server = createServer({ ...authority.issue([name]), ...more });
  server.on("secureConnection", (socket) => resumed.push(socket.isSessionReused()));
  const sockets = new WebSocketServer({ server });
  let opened = 0;
  sockets.on("connection", (socket) => {
    opened += 1;
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  };
  const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { origin, seen: [], resumed, opened: () => opened, close };
}

function openTlsHouse(
  upstream: Awaited<ReturnType<typeof openEcho>>,
  more: Readonly<Record<string, string>> = {},
  environment: Readonly<Record<string, unknown>> = {},
) {
  const { cert, key } = authority.issue(["DNS:a.test", "IP:127.0.0.1"]);
  return startTestGateway({
    upstream,
    environment: {
      api: null,
      tls: { cert: "./edge.pem", key: "./edge.key" },
      upstreamTls: { ca: "./ca.pem", serverName: "backend.test", ...more },
      ...environment,
    },
    files: { "edge.pem": cert, "edge.key": key, "ca.pem": authority.ca },
    keys: { [KEY]: {} },
  });
}

function connect(port: number): WebSocket {
  const headers = { Authorization: `Bearer ${KEY}`, Host: "a.test" };
  const socket = new WebSocket(`wss://127.0.0.1:${port}/v1/feed`, { ca: authority.ca, headers });
  // A handshake that fails is told by what the test then does not hear, not by the end of the run.
  return socket.on("error", () => {});
}

describe("A WebSocket over TLS on both sides", () => {
  it("passes through a listener and to a backend whose certificate is trusted", async () => {
    await using house = await openTlsHouse(await openEcho("DNS:backend.test"));
    const socket = connect(house.port);
    const heard: string[] = [];
    socket.on("message", (data) => heard.push(String(data)));
    socket.on("open", () => socket.send("over TLS"));
    await eventually(() => assert.deepEqual(heard, ["over TLS"]));
    socket.close();
    await eventually(() => assert.equal(house.lines[0]?.status, 101));
    assert.deepEqual([house.lines[0]?.charged, house.lines[0]?.forwards], [1, 1]);
  });

  it("shows the certificate of the gateway to a backend that asks for one, and resumes its session", async () => {
    const echo = await openEcho("DNS:backend.test", { requestCert: true, ca: authority.ca });
    await using house = await openTlsHouse(echo, { cert: "./edge.pem", key: "./edge.key" });
    for (let i = 0; i < 2; i++) {
      const socket = connect(house.port);
      const heard: string[] = [];
      socket.on("message", (data) => heard.push(String(data)));
      socket.on("open", () => socket.send("it is us"));
      await eventually(() => assert.deepEqual(heard, ["it is us"]));
      socket.close();
      await eventually(() => assert.equal(house.lines.length, i + 1));
    }
    assert.deepEqual(echo.resumed, [false, true]);
  });

  it("asks a backend by address for no name, whatever Host it sends there", async () => {
    const echo = await openEcho("IP:127.0.0.1");
    const more = { upstreamHost: "client", upstreamTls: { ca: "./ca.pem" } };
    await using house = await openTlsHouse(echo, {}, more);
    const socket = connect(house.port);
    const heard: string[] = [];
    socket.on("message", (data) => heard.push(String(data)));
    socket.on("error", (error) => heard.push(String(error)));
    socket.on("open", () => socket.send("by address"));
    await eventually(() => assert.deepEqual(heard, ["by address"]));
    socket.close();
  });

  it("goes to another backend where one refuses the certificate by TLS 1.3", async () => {
    const strict = await openEcho("DNS:backend.test", { requestCert: true, ca: authority.ca });
    const echo = await openEcho("DNS:backend.test");
    const upstreams = [strict.origin, echo.origin];
    await using house = await openTlsHouse(echo, {}, { upstreams });
    const socket = connect(house.port);
    const told = await new Promise((resolve) => {
      socket.on("open", () => resolve("open"));
      socket.on("unexpected-response", (_request, { statusCode }) => resolve(statusCode));
      socket.on("error", () => {});
    });
    socket.terminate();
    assert.equal(told, "open");
    await eventually(() => assert.equal(house.lines.length, 1));
    assert.deepEqual([house.lines[0]?.charged, house.lines[0]?.forwards], [1, 2]);
    assert.equal(strict.opened(), 0);
    await strict.close();
  });

  it("is 502, and nothing is tunnelled, where the backend's certificate has another name", async () => {
    const echo = await openEcho("DNS:other.test");
    await using house = await openTlsHouse(echo);
    const socket = connect(house.port);
    const status = await new Promise((resolve) => {
      socket.on("unexpected-response", (_request, { statusCode }) => resolve(statusCode));
      socket.on("open", () => resolve("open"));
      socket.on("error", () => {});
    });
    socket.terminate();
    assert.equal(status, 502);
    assert.equal(echo.opened(), 0);
  });
});
