import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectPlain, createServer, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, it } from "vitest";
import { samplesOf } from "../../admin/scrape.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { type Authority, openAuthority } from "../../support/wire/certificates.ts";

let authority: Authority;
let hello: Buffer;
beforeAll(async () => {
  authority = openAuthority();
  hello = await clientHello();
});
afterAll(() => authority[Symbol.dispose]());

/** The first bytes of a client that would have gone on. */
async function clientHello(): Promise<Buffer> {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const client = connect({ port: portOf(listener), host: "127.0.0.1", servername: "a.test" });
  client.on("error", () => {});
  const [taken] = (await once(listener, "connection")) as [Socket];
  const [bytes] = (await once(taken, "data")) as [Buffer];
  client.destroy();
  taken.destroy();
  listener.close();
  return bytes;
}

function portOf(server: ReturnType<typeof createServer>): number {
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}

function openTlsHouse(
  limits: Readonly<Record<string, unknown>> = {},
  listen = "127.0.0.1:0",
): Promise<TestGateway> {
  const { cert, key } = authority.issue(["DNS:a.test", "IP:127.0.0.1"]);
  return startTestGateway({
    environment: { listen, limits, tls: { cert: "./edge.pem", key: "./edge.key" } },
    files: { "edge.pem": cert, "edge.key": key },
  });
}

/** Open connections, as the metrics tell them, and the sockets that this process really has. */
async function openConnections(house: TestGateway): Promise<number> {
  const text = await house.admin("/metrics").then((answer) => answer.text());
  return new Map(samplesOf(text)).get("tollgate_connections_open") ?? Number.NaN;
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((one) => one === "TCPSocketWrap").length;
}

async function opened(port: number): Promise<Socket> {
  const socket = connectPlain(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.resume();
  await once(socket, "connect");
  return socket;
}

const LEAVES: Readonly<Record<string, (socket: Socket) => void>> = {
  "half-closes": (socket) => void socket.end(),
  closes: (socket) => void socket.destroy(),
  resets: (socket) => void socket.resetAndDestroy(),
};
const CLIENTS = 20;

describe("a TLS client that leaves in the handshake", () => {
  const says: Readonly<Record<string, () => Buffer>> = {
    "no byte": () => Buffer.alloc(0),
    "one byte": () => hello.subarray(0, 1),
    "half of its hello": () => Buffer.from([0x16, 3, 1, 2, 0, 1, 0]),
    "all but the last byte of its hello": () => hello.subarray(0, -1),
    "its hello": () => hello,
    "its hello and half of the next record": () =>
      Buffer.concat([hello, Buffer.from([0x14, 3, 3])]),
  };
  let house: TestGateway;
  beforeAll(async () => {
    house = await openTlsHouse({ headersTimeout: "60s" });
  });
  afterAll(() => house[Symbol.asyncDispose]());

  for (const [what, bytes] of Object.entries(says)) {
    for (const [how, leave] of Object.entries(LEAVES)) {
      it(`takes no place: after ${what} it ${how}`, async () => {
        const before = openSockets();
        const clients = await Promise.all(
          Array.from({ length: CLIENTS }, () => opened(house.port)),
        );
        for (const client of clients) if (bytes().length > 0) client.write(bytes());
        await eventually(async () => assert.equal(await openConnections(house), CLIENTS));
        for (const client of clients) leave(client);
        await eventually(async () => assert.equal(await openConnections(house), 0), {
          withinMs: 10_000,
        });
        for (const client of clients) client.destroy();
        await eventually(() => assert.ok(openSockets() <= before + 2, `${openSockets()}`));
      });
    }
  }
});

describe("a TLS handshake", () => {
  it("has headersTimeout from its first byte, whatever it brings in between", async () => {
    await using house = await openTlsHouse({ headersTimeout: "1s" });
    const slow = await opened(house.port);
    const silent = await opened(house.port);
    const startedMs = performance.now();
    let at = 0;
    const drip = setInterval(() => {
      slow.write(hello.subarray(at, at + 1));
      at += 1;
    }, 200);
    try {
      const closed = [slow, silent].map((one) => new Promise((end) => one.once("close", end)));
      const { stalledMs } = await watchStalls(() => Promise.all(closed));
      assert.ok(performance.now() - startedMs < 3_000 + stalledMs);
    } finally {
      clearInterval(drip);
    }
    await eventually(async () => assert.equal(await openConnections(house), 0));
  });

  it("counts among the connections of the limit", async () => {
    await using house = await openTlsHouse({ connections: 2, headersTimeout: "60s" });
    for (let i = 0; i < 10; i++) (await opened(house.port)).write(hello);
    await eventually(async () => assert.equal(await openConnections(house), 2));
  });

  it("does not hold up the end of the gateway", async () => {
    const house = await openTlsHouse({ headersTimeout: "60s" });
    const client = await opened(house.port);
    client.write(hello.subarray(0, 9));
    await eventually(async () => assert.equal(await openConnections(house), 1));
    const closed = once(client, "close");
    await house[Symbol.asyncDispose]();
    await closed;
  });
});

describe("two TLS connections from one port of a client, to two addresses of a listener", () => {
  async function from(localPort: number, host: string, port: number): Promise<Socket> {
    const socket = connectPlain({ port, host, localAddress: "127.0.0.1", localPort });
    socket.on("error", () => {});
    await once(socket, "connect");
    return socket;
  }

  async function openBoth(house: TestGateway): Promise<[Socket, Socket]> {
    const first = await from(0, "127.0.0.1", house.port);
    const second = await from(first.localPort ?? 0, "127.0.0.2", house.port);
    assert.equal(second.localPort, first.localPort);
    await eventually(async () => assert.equal(await openConnections(house), 2));
    return [first, second];
  }

  async function shaken(raw: Socket): Promise<TLSSocket> {
    const socket = connect({ socket: raw, ca: authority.ca, servername: "a.test" });
    socket.on("error", () => {});
    await Promise.race([once(socket, "secureConnect"), once(raw, "close")]);
    return socket;
  }

  const GET = "GET /v1/pets HTTP/1.1\r\nHost: a.test\r\n";

  /** The first bytes of the last answer, or none where the connection ended without. */
  async function statusOver(socket: TLSSocket): Promise<string> {
    socket.write(`${GET}Connection: close\r\n\r\n`);
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    return text.slice(0, "HTTP/1.1 401".length);
  }

  it("have a headersTimeout each: that of one handshake does not cut the other connection", async () => {
    await using house = await openTlsHouse({ headersTimeout: "3s" }, "0.0.0.0:0");
    const [used, silent] = await openBoth(house);
    const socket = await shaken(used);
    socket.write(`${GET}\r\n`);
    await once(socket, "data");
    const closed = (one: Socket) => once(one.resume(), "close").then(() => one);
    assert.equal(await Promise.race([closed(silent), closed(used)]), silent);
    assert.equal(await statusOver(socket), "HTTP/1.1 401");
  });

  it("end by themselves: one that closes before its handshake does not take the other along", async () => {
    await using house = await openTlsHouse({ headersTimeout: "60s" }, "0.0.0.0:0");
    const [closes, stays] = await openBoth(house);
    closes.destroy();
    await eventually(async () => assert.equal(await openConnections(house), 1));
    assert.equal(await statusOver(await shaken(stays)), "HTTP/1.1 401");
  });
});
