import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpsServer, type ServerOptions } from "node:https";
import { type AddressInfo, connect, createServer } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway, type Upstream } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { type Authority, openAuthority, type Pair } from "../../support/wire/certificates.ts";
import { errorOf, sendRequest } from "../../support/wire/client.ts";

let authority: Authority;
beforeAll(() => {
  authority = openAuthority();
});
afterAll(() => authority[Symbol.dispose]());

type Asked = { readonly sni: string | false | null; readonly host: string | undefined };
type TlsBackend = Upstream & {
  readonly seen: Asked[];
  readonly resumed: boolean[];
  connections: number;
  closed: number;
};

async function openTlsBackend(pair: Pair & ServerOptions, host = "127.0.0.1"): Promise<TlsBackend> {
  const seen: Asked[] = [];
  const server = createHttpsServer({ ...pair, keepAliveTimeout: 60_000 }, (request, response) => {
    seen.push({
      sni: (request.socket as TLSSocket).servername ?? null,
      host: request.headers.host,
    });
    response.end("[]");
  });
  const resumed: boolean[] = [];
  const backend = { origin: "", seen, resumed, connections: 0, closed: 0, close: async () => {} };
  server.on("secureConnection", (socket) => {
    backend.connections += 1;
    resumed.push(socket.isSessionReused());
    socket.once("close", () => {
      backend.closed += 1;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  backend.origin = `https://${host}:${(server.address() as AddressInfo).port}`;
  backend.close = () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    return closed;
  };
  return backend;
}

function openTlsHouse(
  upstream: Upstream,
  environment: Record<string, unknown>,
): Promise<TestGateway> {
  return startTestGateway({
    upstream,
    environment,
    files: { "ca.pem": authority.ca },
    keys: { [KEY]: {} },
  });
}

/** A refusal (docs/reference/http.md#backend-failures) with the reason in the log line and nowhere else. */
async function refused(house: TestGateway, why: RegExp): Promise<void> {
  const response = await sendRequest(house.port, { key: KEY });
  assert.equal(response.status, 502);
  assert.equal(errorOf(response).code, "upstream_unreachable");
  assert.doesNotMatch(response.body.toString(), /cert|tls|self/i);
  await eventually(() => assert.match(String(house.lines.at(-1)?.why), why));
  assert.equal(house.lines.at(-1)?.forwards, 0);
  assert.equal(house.upstream.seen.length, 0);
  await house.law();
}

describe("an https upstream", () => {
  it("is verified by the authority that the environment names", async () => {
    const backend = await openTlsBackend(authority.issue(["IP:127.0.0.1"]));
    await using house = await openTlsHouse(backend, { upstreamTls: { ca: "./ca.pem" } });
    const response = await sendRequest(house.port, { key: KEY });
    assert.equal(response.status, 200);
    assert.match(String(backend.seen[0]?.host), /^127\.0\.0\.1:\d+$/);
    await house.law();
  });

  it("that refuses a certificate by TLS 1.3 costs no GET where another one takes it", async () => {
    const pair = authority.issue(["IP:127.0.0.1"]);
    const strict = await openTlsBackend({ ...pair, ca: authority.ca, requestCert: true });
    const other = await openTlsBackend(pair);
    await using house = await openTlsHouse(other, {
      upstreams: [strict.origin, other.origin],
      upstreamTls: { ca: "./ca.pem" },
    });
    const statuses: number[] = [];
    for (let i = 0; i < 6; i++) {
      statuses.push((await sendRequest(house.port, { key: KEY })).status);
    }
    assert.deepEqual(statuses, Array(6).fill(200));
    await eventually(() => assert.equal(house.lines.length, 6));
    const forwards = house.lines.map((entry) => entry.forwards);
    assert.deepEqual([Math.min(...forwards), Math.max(...forwards)], [1, 2]);
    assert.deepEqual(
      house.lines.map(({ charged }) => charged),
      Array(6).fill(1),
    );
    assert.deepEqual([strict.seen.length, other.seen.length], [0, 6]);
    await strict.close();
  });

  it("is refused when only the system's authorities are trusted", async () => {
    const backend = await openTlsBackend(authority.issue(["IP:127.0.0.1"]));
    await using house = await openTlsHouse(backend, {});
    await refused(house, /UNABLE_TO|SELF_SIGNED/);
  });

  it("is refused when its certificate is for another name", async () => {
    const backend = await openTlsBackend(authority.issue(["DNS:other.test"]));
    await using house = await openTlsHouse(backend, { upstreamTls: { ca: "./ca.pem" } });
    await refused(house, /ERR_TLS_CERT_ALTNAME_INVALID/);
  });

  it("is refused when its certificate has expired", async () => {
    const backend = await openTlsBackend(authority.issue(["IP:127.0.0.1"], { expired: true }));
    await using house = await openTlsHouse(backend, { upstreamTls: { ca: "./ca.pem" } });
    await refused(house, /CERT_HAS_EXPIRED/);
  });

  it("is asked for by the name of its origin (SNI)", async () => {
    const backend = await openTlsBackend(authority.issue(["DNS:localhost"]), "localhost");
    await using house = await openTlsHouse(backend, { upstreamTls: { ca: "./ca.pem" } });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    assert.equal(backend.seen[0]?.sni, "localhost");
  });

  it("is asked for, and verified for, the serverName that is configured", async () => {
    const backend = await openTlsBackend(authority.issue(["DNS:pets.internal"]));
    const upstreamTls = { ca: "./ca.pem", serverName: "pets.internal" };
    await using house = await openTlsHouse(backend, { upstreamTls });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    assert.equal(backend.seen[0]?.sni, "pets.internal");
  });

  it("sees the client's Host with upstreamHost: client, which moves neither SNI nor verification nor the connection", async () => {
    const backend = await openTlsBackend(authority.issue(["DNS:localhost"]), "localhost");
    const environment = { upstreamTls: { ca: "./ca.pem" }, upstreamHost: "client" };
    await using house = await openTlsHouse(backend, environment);
    for (const host of ["one.test", "two.test", "one.test"]) {
      assert.equal((await sendRequest(house.port, { key: KEY, host })).status, 200);
    }
    assert.deepEqual(
      backend.seen,
      ["one.test", "two.test", "one.test"].map((host) => ({ sni: "localhost", host })),
    );
    assert.equal(backend.connections, 1);
    await house.law();
  });

  it("learns who the gateway is by its certificate, and refuses one without", async () => {
    const mutual = { ca: authority.ca, requestCert: true, rejectUnauthorized: true };
    const backend = await openTlsBackend({ ...authority.issue(["IP:127.0.0.1"]), ...mutual });
    const ours = authority.issue(["DNS:gateway.test"]);
    const upstreamTls = { ca: "./ca.pem", cert: "./our.pem", key: "./our.key" };
    await using house = await startTestGateway({
      upstream: backend,
      environment: { upstreamTls, healthCheck: { path: "/up", every: "100ms" } },
      files: { "ca.pem": authority.ca, "our.pem": ours.cert, "our.key": ours.key },
      keys: { [KEY]: {} },
    });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    await eventually(() => assert.ok(backend.seen.length > 2, "health checks show it too"));
    const shown = await (await house.admin("/api/config")).text();
    assert.match(shown, /our\.key/);
    assert.doesNotMatch(shown, /PRIVATE KEY/);

    await house.rewrite({
      environments: {
        production: {
          ...{ listen: "127.0.0.1:0", keyTag: "live", upstreams: [backend.origin] },
          upstreamTls: { ca: "./ca.pem" },
        },
      },
    });
    assert.equal((await house.gateway.reload()).ok, true);
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 502);
    const last = () => assert.match(String(house.lines.at(-1)?.why), /CERTIFICATE_REQUIRED/);
    await eventually(last);
  });

  it("ends the client's connection when what it sends can no longer be decrypted, also with a body until the close", async () => {
    const { cert, key } = authority.issue(["IP:127.0.0.1"]);
    const server = createTlsServer({ cert, key }, (socket) => {
      socket.on("error", () => undefined);
      socket.once("data", (request) => {
        upstream.seen.push(request);
        relay.corruptNext();
        socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf");
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const relay = await openCorrupter((server.address() as AddressInfo).port);
    const origin = `https://127.0.0.1:${relay.port}`;
    const upstream = { origin, seen: [] as unknown[], close: async () => {} };
    await using house = await openTlsHouse(upstream, { upstreamTls: { ca: "./ca.pem" } });
    await assert.rejects(sendRequest(house.port, { key: KEY }));
    await eventually(() => assert.match(String(house.lines.at(-1)?.why), /ERR_SSL/));
    await house.law();
    relay.close();
    server.close();
  });

  it("resumes the TLS session of an earlier connection", async () => {
    const backend = await openTlsBackend(authority.issue(["IP:127.0.0.1"]));
    await using house = await openTlsHouse(backend, {
      upstreamTls: { ca: "./ca.pem" },
      limits: { upstreamIdle: "50ms" },
    });
    for (let i = 1; i <= 4; i++) {
      assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
      await eventually(() => assert.equal(backend.closed, i));
    }
    assert.deepEqual(backend.resumed, [false, true, true, true]);
    await house.law();
  });

  it("is 502 upstream_unreachable where plain HTTP is spoken", async () => {
    await using plain = await startTestGateway();
    const backend = { ...plain.backend, origin: plain.backend.origin.replace("http:", "https:") };
    await using house = await openTlsHouse({ ...backend, close: async () => {} }, {});
    await refused(house, /ERR_SSL|EPROTO|ECONNRESET/);
  });
});

type Corrupter = { readonly port: number; corruptNext(): void; close(): void };

/** Relays to a port. After the next answer, it adds a TLS record that nobody encrypted, and ends. */
async function openCorrupter(to: number): Promise<Corrupter> {
  let corrupts = false;
  const relay = createServer((socket) => {
    const onward = connect(to, "127.0.0.1");
    for (const one of [socket, onward]) one.on("error", () => undefined);
    socket.pipe(onward);
    onward.on("data", (bytes) => {
      socket.write(bytes);
      if (corrupts) socket.end(Buffer.from([23, 3, 3, 0, 40, ...Array(40).fill(1)]));
    });
  });
  relay.listen(0, "127.0.0.1");
  await once(relay, "listening");
  return {
    port: (relay.address() as AddressInfo).port,
    corruptNext: () => {
      corrupts = true;
    },
    close: () => relay.close(),
  };
}
