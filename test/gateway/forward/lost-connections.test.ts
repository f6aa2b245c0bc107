import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startByteUpstream, startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { type Client, openClient, sendRequest } from "../../support/wire/client.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** Answers each request that has a whole body in chunks, or none. */
async function startReadingUpstream() {
  const upstream = await startByteUpstream((socket, connection) => {
    const text = () => upstream.received[connection - 1]?.bytes().toString("latin1") ?? "";
    const answer = () => {
      const isWhole = text().startsWith("GET") ? /\r\n\r\n$/ : /\r\n0\r\n\r\n$/;
      if (isWhole.test(text())) socket.write(OK);
    };
    answer();
    socket.on("data", answer);
  });
  return Object.assign(upstream, { seen: [] });
}

function beginUpload(client: Client, key: string, path: string): void {
  client.write(
    `POST ${path} HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n` +
      "Transfer-Encoding: chunked\r\n\r\n",
  );
}

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

async function inFlight(house: TestGateway, count: number): Promise<void> {
  await eventually(async () => {
    const metrics = await (await house.admin("/metrics")).text();
    assert.ok(metrics.includes(`\ntollgate_http_requests_in_flight ${count}\n`));
  });
}

describe("an upload whose connection to the backend is lost before it was used", () => {
  it("leaves no byte in the upload of another account that gets the next connection", async () => {
    const upstream = await startReadingUpstream();
    await using house = await startTestGateway({
      upstream,
      environment: { api: null, limits: { upstreamConnections: 1 } },
    });
    const [one, other] = [await house.issue(), await house.issue()];
    assert.equal((await sendRequest(house.port, { key: one.key, path: "/v1/warm" })).status, 200);
    await using a = await openClient(house.port);
    await using b = await openClient(house.port);
    beginUpload(a, one.key, "/v1/a");
    await inFlight(house, 1);
    beginUpload(b, other.key, "/v1/b");
    b.write(chunk("B-one;;"));
    await inFlight(house, 2);
    upstream.received[0]?.socket.destroy();
    await eventually(() => upstream.received[1]?.bytes().includes("B-one;;"));
    a.write(chunk("A-SECRET-body"));
    b.write(`${chunk("B-two;;")}0\r\n\r\n`);
    assert.equal((await b.responses(["POST"]))[0]?.status, 200);
    a.write("0\r\n\r\n");
    assert.equal((await a.responses(["POST"]))[0]?.status, 200);
    const bodies = upstream.received.map(({ bytes }) => bytes().toString("latin1"));
    const sent = bodies.join("").split("POST /v1/a");
    assert.ok(sent[0]?.endsWith(`${chunk("B-one;;")}${chunk("B-two;;")}0\r\n\r\n`), bodies.join());
    assert.ok(sent[1]?.endsWith(`${chunk("A-SECRET-body")}0\r\n\r\n`), bodies.join());
  });

  it("sends all of its body once a backend is there again", async () => {
    const port = await freePort();
    const first = await startTestUpstream(undefined, { port });
    await using house = await startTestGateway({
      upstream: first,
      environment: { api: null, limits: { connectRetry: "20s" } },
    });
    const { key } = await house.issue();
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    await using client = await openClient(house.port);
    beginUpload(client, key, "/v1/upload");
    await inFlight(house, 1);
    await first.close();
    await eventually(async () => {
      assert.match(await (await house.admin("/metrics")).text(), /upstream_up\{[^}]*\} 0/);
    });
    client.write(chunk("part-1;"));
    await inFlight(house, 1);
    await using second = await startTestUpstream(undefined, { port });
    await eventually(() => second.seen.length === 1);
    client.write(`${chunk("part-2;")}0\r\n\r\n`);
    assert.equal((await client.responses(["POST"]))[0]?.status, 200);
    assert.equal(second.seen[0]?.body.toString(), "part-1;part-2;");
  });
});

/** Answers the first request of each connection, and ends all but the first one with their next. */
async function startForgettingUpstream() {
  const upstream = await startByteUpstream((socket, connection) => {
    socket.write(OK);
    if (connection > 1) socket.on("data", () => socket.destroy());
  });
  const requestsOn = (connection: number) => {
    const bytes = upstream.received[connection - 1]?.bytes();
    return String(bytes).split("GET ").length - 1;
  };
  return Object.assign(upstream, { seen: [], requestsOn });
}

describe("a request whose connection to the backend ends without an answer", () => {
  it("is sent again on a new one, also where it waits for one that another request had", async () => {
    const upstream = await startForgettingUpstream();
    await using house = await startTestGateway({
      upstream,
      environment: { api: null, limits: { upstreamConnections: 1 } },
    });
    const { key } = await house.issue();
    const ask = async () => (await sendRequest(house.port, { key, path: "/v1/a" })).status;
    assert.equal(await ask(), 200);
    const lost = ask();
    await eventually(() => assert.equal(upstream.requestsOn(1), 2));
    const waiting = ask();
    await inFlight(house, 2);
    upstream.received[0]?.socket.destroy();
    assert.deepEqual([await lost, await waiting], [200, 200]);
    assert.deepEqual([2, 3].map(upstream.requestsOn), [1, 1]);
  });
});
