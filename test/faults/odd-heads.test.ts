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

describe("a 204 that announces a body", () => {
  it.each(["Content-Length: 4", "Transfer-Encoding: chunked"])(
    "with %s lends its connection to no other request",
    async (field) => {
      const { house, backend, key } = await openHouse((connection) =>
        connection === 1 ? `HTTP/1.1 204 No Content\r\n${field}\r\n\r\n` : answerOf("200 OK", 99),
      );
      await using _ = house;
      assert.equal((await sendRequest(house.port, { key })).status, 204);
      const late = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
      backend.received[0]?.socket.on("data", () => backend.received[0]?.socket.write(late));
      assert.equal((await sendRequest(house.port, { key })).body.toString(), "ok");
      assert.equal(backend.received.length, 2);
    },
  );

  it.each(["", "Content-Length: 0\r\n"])("that does not (%j) is reused", async (field) => {
    const answer = `HTTP/1.1 204 No Content\r\n${field}\r\n`;
    const { house, backend, key } = await openHouse(() => answer);
    await using _ = house;
    assert.equal((await sendRequest(house.port, { key })).status, 204);
    const again = sendRequest(house.port, { key });
    const [first] = backend.received;
    await eventually(() => String(first?.bytes()).split("GET ").length === 3);
    first?.socket.write(answer);
    assert.equal((await again).status, 204);
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
