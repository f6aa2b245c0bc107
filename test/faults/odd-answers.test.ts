import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import {
  type ByteUpstream,
  startByteUpstream,
  startTestUpstream,
} from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, openClient, requestBytes, sendRequest } from "../support/wire/client.ts";
import { type RawResponse, valuesOf } from "../support/wire/response.ts";

const GOOD = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
const EVIL = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";

/** A gateway in front of a backend of bytes: `serve` answers the first request of each connection. */
async function openOdd(serve: (socket: Socket) => void, limits: object = {}) {
  const backend: ByteUpstream = await startByteUpstream(serve);
  const upstream = { origin: backend.origin, seen: backend.received, close: backend.close };
  const house = await startTestGateway({ upstream, environment: { api: null, limits } });
  return { house, backend, key: (await house.issue({ plan: "business" })).key };
}

for (const status of [413, 401]) {
  test(`2.2 Early response: a ${status} ahead of the body is passed on while the upload goes on, and neither connection is used again`, async () => {
    const backend = await startTestUpstream((_seen, response) => {
      response.writeHead(status, { "Content-Length": "5" }).end("large");
    });
    await using house = await startTestGateway({ backend, environment: { api: null } });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    client.write(requestBytes({ key, method: "POST", fields: [["Content-Length", "100000"]] }));
    client.write("begins");
    const [answer] = (await client.responses(["POST"])) as [RawResponse];
    assert.deepEqual([answer.status, answer.body.toString()], [status, "large"]);
    assert.equal(valuesOf(answer, "Connection").join(), "close");
    await client.ended;
    await sendRequest(house.port, { key });
    assert.notEqual(backend.seen[0]?.connection, backend.seen[1]?.connection);
    assert.equal(backend.seen[0]?.complete, false);
    await house.law();
  });
}

test("2.2 Early response: where the request was fully sent, the connection is used again, body unread or not", async () => {
  const backend = await startTestUpstream((_seen, response) => {
    response.writeHead(413, { "Content-Length": "5" }).end("large");
  });
  await using house = await startTestGateway({ backend, environment: { api: null } });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  for (let i = 0; i < 5; i++) {
    const answer = await client.ask({ key, method: "POST", body: "x".repeat(1_000) });
    assert.deepEqual([answer.status, answer.body.toString()], [413, "large"]);
  }
  assert.equal(backend.connections(), 1);
  await house.law();
});

test("2.2 Extra bytes after a response, 0 to 30 ms late: 0 of 24 reach anyone, and the connection is closed", async () => {
  const lateMs = [0, 0.5, 1, 2, 5, 10, 20, 30];
  let turn = 0;
  const { house, backend, key } = await openOdd((socket) => {
    const late = lateMs[turn++ % lateMs.length] ?? 0;
    socket.write(GOOD, () => setTimeout(() => socket.write(EVIL), late));
  });
  await using _closed = house;
  for (let i = 0; i < 24; i++) {
    await using client = await openClient(house.port);
    const answer = await client.ask({ key });
    assert.deepEqual([answer.status, answer.body.toString()], [200, "good"]);
    // The next request, on this connection or another, finds it closed.
    const { socket } = backend.received[i] ?? assert.fail("one connection for each");
    await eventually(() => socket.destroyed || socket.readableEnded);
    assert.equal(client.waiting().length, 0);
  }
  assert.equal(backend.received.length, 24, "none was used again");
  await house.law();
});

for (const status of [100, 101]) {
  test(`2.2 101 without an upgrade, 1xx flood: a ${status} that nobody asked for is 502`, async () => {
    const { house, key } = await openOdd((socket) => {
      socket.write(`HTTP/1.1 ${status} Odd\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n${GOOD}`);
    });
    await using _closed = house;
    const answer = await sendRequest(house.port, { key });
    assert.deepEqual([answer.status, errorOf(answer).code], [502, "upstream_invalid"]);
    await house.law();
  });
}

test("a head with a body that is wrong from its first byte is 502, and not a connection that ends", async () => {
  const { house, key } = await openOdd((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
  });
  await using _closed = house;
  const answer = await sendRequest(house.port, { key });
  assert.deepEqual([answer.status, errorOf(answer).code], [502, "upstream_invalid"]);
  const [entry] = house.lines;
  assert.deepEqual([entry?.status, entry?.source, entry?.forwards], [502, "gateway", 1]);
  await house.law();
});

test("2.2 101 without an upgrade, 1xx flood: of 5,000 interim answers 8 pass, and the response does", async () => {
  const hint = "HTTP/1.1 103 Early\r\nLink: </a>; rel=preload\r\n\r\n";
  const { house, key } = await openOdd((socket) => {
    socket.write(`${hint.repeat(2_500)}${"HTTP/1.1 102 Odd\r\n\r\n".repeat(2_500)}${GOOD}`);
  });
  await using _closed = house;
  const answer = await sendRequest(house.port, { key });
  assert.deepEqual([answer.status, answer.body.toString()], [200, "good"]);
  assert.equal(answer.interim.length, 8);
  await house.law();
});

test("2.2 101 without an upgrade, 1xx flood: one without an end is 504 at responseTimeout, and is cut off", async () => {
  let flooding = true;
  const { house, backend, key } = await openOdd(
    async (socket) => {
      while (flooding && !socket.destroyed) {
        socket.write("HTTP/1.1 102 Odd\r\n\r\n".repeat(50));
        await sleep(10);
      }
    },
    { responseTimeout: "500ms" },
  );
  await using _closed = house;
  const answer = await sendRequest(house.port, { key });
  assert.deepEqual([answer.status, errorOf(answer).code], [504, "upstream_timeout"]);
  await eventually(() => backend.received[0]?.socket.destroyed === true);
  flooding = false;
  await house.law();
});
