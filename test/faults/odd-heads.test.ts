import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startByteUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { sendRequest } from "../support/wire/client.ts";
import { valuesOf } from "../support/wire/response.ts";
import { handshakeOf } from "../support/wire/websocket.ts";

async function openHouse(answer: (connection: number) => string, limits: object = {}) {
  const backend = await startByteUpstream((socket, connection) => socket.write(answer(connection)));
  const upstream = { origin: backend.origin, seen: backend.received, close: backend.close };
  const house = await startTestGateway({ upstream, environment: { api: null, limits } });
  const { key } = await house.issue({ plan: "business" });
  return { house, backend, key };
}

/** An answer with a head of so many bytes. */
function answerOf(status: string, headBytes: number): string {
  const start = `HTTP/1.1 ${status}\r\nContent-Length: 2\r\nX-Big: `;
  return `${start.padEnd(headBytes - 4, "b")}\r\n\r\nok`;
}

/** An answer whose body may follow although it must have none: its bytes could be those of another answer. */
const OPEN_ENDS: [method: string, status: string, field: string][] = [
  ["GET", "204 No Content", "Content-Length: 4"],
  ["GET", "204 No Content", "Transfer-Encoding: chunked"],
  ["GET", "304 Not Modified", "Content-Length: 4"],
  ["GET", "304 Not Modified", "Transfer-Encoding: chunked"],
  ["HEAD", "200 OK", "Content-Length: 4"],
  ["HEAD", "200 OK", "Transfer-Encoding: chunked"],
  ["HEAD", "200 OK", "X-Length: unknown"],
];
/** An answer behind which no backend has anything to send. */
const CLOSED_ENDS: [method: string, status: string, field: string][] = [
  ["GET", "204 No Content", "X-Length: unknown"],
  ["GET", "204 No Content", "Content-Length: 0"],
  ["GET", "304 Not Modified", "X-Length: unknown"],
  ["HEAD", "200 OK", "Content-Length: 0"],
];

describe("the connection of a response without a body", () => {
  it.each(OPEN_ENDS)(
    "%s, %s with %s is lent to no other request",
    async (method, status, field) => {
      const { house, backend, key } = await openHouse((connection) =>
        connection === 1 ? `HTTP/1.1 ${status}\r\n${field}\r\n\r\n` : answerOf("200 OK", 99),
      );
      await using _ = house;
      const first = await sendRequest(house.port, { key, method });
      assert.equal(first.status, Number.parseInt(status, 10));
      const late = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
      backend.received[0]?.socket.on("data", () => backend.received[0]?.socket.write(late));
      assert.equal((await sendRequest(house.port, { key })).body.toString(), "ok");
      assert.equal(backend.received.length, 2);
    },
  );

  it.each(CLOSED_ENDS)("%s, %s with %s is used again", async (method, status, field) => {
    const answer = `HTTP/1.1 ${status}\r\n${field}\r\n\r\n`;
    const { house, backend, key } = await openHouse(() => answer);
    await using _ = house;
    const code = Number.parseInt(status, 10);
    assert.equal((await sendRequest(house.port, { key, method })).status, code);
    const again = sendRequest(house.port, { key, method });
    const [first] = backend.received;
    await eventually(() => String(first?.bytes()).split(`${method} `).length === 3);
    first?.socket.write(answer);
    assert.equal((await again).status, code);
  });
});

describe("a length beside a coding", () => {
  it("of a 304 lends its connection to no other request", async () => {
    const fields = "Content-Length: 4\r\nTransfer-Encoding: chunked";
    const { house, backend, key } = await openHouse((connection) =>
      connection === 1 ? `HTTP/1.1 304 X\r\n${fields}\r\n\r\n` : answerOf("200 OK", 99),
    );
    await using _ = house;
    assert.equal((await sendRequest(house.port, { key })).status, 304);
    assert.equal((await sendRequest(house.port, { key })).body.toString(), "ok");
    assert.equal(backend.received.length, 2);
  });
});

describe("the head of an answer", () => {
  it.each([
    ["1KiB", 65_536, 200],
    ["1KiB", 65_537, 502],
    ["64KiB", 65_536, 200],
    ["64KiB", 65_537, 502],
  ])(
    "may have 64 KiB where that of a request may have %s: %i is %i",
    async (headerBytes, bytes, status) => {
      const { house, key } = await openHouse(() => answerOf("200 OK", bytes), { headerBytes });
      await using _ = house;
      assert.equal((await sendRequest(house.port, { key })).status, status);
    },
  );

  it.each([
    [65_000, 403],
    [66_000, 502],
  ])("of %i bytes that refuses a WebSocket is %i", async (bytes, status) => {
    const { house, key } = await openHouse(() => answerOf("403 Forbidden", bytes));
    await using _ = house;
    const answer = await sendRequest(house.port, { key, fields: handshakeOf() });
    assert.equal(answer.status, status);
    if (status === 403) assert.ok((valuesOf(answer, "X-Big")[0]?.length ?? 0) > 64_000);
  });
});
