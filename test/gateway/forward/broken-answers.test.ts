import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { afterAll, test } from "vitest";
import { startByteUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, requestBytes } from "../../support/wire/client.ts";
import { handshakeOf } from "../../support/wire/websocket.ts";

let serve: (socket: Socket) => void = () => undefined;
const backend = await startByteUpstream((socket) => serve(socket));
const upstream = { origin: backend.origin, seen: [], close: backend.close };
const house = await startTestGateway({ upstream, environment: { api: null } });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue();

/** The reason that the log has for an answer of these bytes; without bytes the backend closes. */
async function why(bytes: string, fields: [string, string][] = []): Promise<string | undefined> {
  serve = (socket) => void (bytes === "" ? socket.end() : socket.write(bytes, "latin1"));
  const before = house.lines.length;
  await using client = await openClient(house.port);
  client.write(requestBytes({ key, fields }));
  await eventually(() => assert.equal(house.lines.length, before + 1));
  return house.lines[before]?.why;
}

const OK = "HTTP/1.1 200 OK\r\n";
const CHUNKED = `${OK}Transfer-Encoding: chunked\r\n\r\n`;

const BROKEN: readonly (readonly [string, string])[] = [
  ["garbage\r\n\r\n", "the first line is no status line of HTTP"],
  ["HTTP/2.0 200 OK\r\n\r\n", "the version is neither HTTP/1.0 nor HTTP/1.1"],
  [`${OK}X-A : 1\r\n\r\n`, "a field line of the head is malformed"],
  [`HTTP/1.1 200 ${"k".repeat(70_000)}\r\n\r\n`, "the head is over 64 KiB"],
  [`${OK}X-A: ${"k".repeat(70_000)}\r\n\r\n`, "the head is over 64 KiB"],
  ["HTTP/1.1 100 Continue\r\n\r\n", "a 100 or 101 that was not asked for"],
  ["HTTP/1.1 600 Odd\r\n\r\n", "status 600"],
  [`${OK}${"X-A: 1\r\n".repeat(101)}\r\n`, "too many fields"],
  [`${OK}Content-Length: x\r\n\r\n`, "Content-Length comes twice or is no number"],
  [
    `${OK}Content-Length: 2\r\nContent-Length: 2\r\n\r\nok`,
    "Content-Length comes twice or is no number",
  ],
  [
    `${OK}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n`,
    "there are both Content-Length and Transfer-Encoding",
  ],
  [
    "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "there is Transfer-Encoding on HTTP/1.0",
  ],
  [`${OK}Transfer-Encoding: gzip\r\n\r\n`, "Transfer-Encoding is not one chunked"],
  [`${CHUNKED}x\r\n`, "a chunk is malformed"],
  [`${CHUNKED}0;${"e".repeat(20_000)}`, "the extensions of a chunk are over 16 KiB"],
  [
    `${CHUNKED}0\r\nContent-Length: 2\r\n\r\n`,
    "a trailer field is malformed, or is Content-Length or Transfer-Encoding",
  ],
  [`${CHUNKED}0\r\nX-A: ${"t".repeat(70_000)}\r\n\r\n`, "the trailer fields are over 64 KiB"],
  ["", "the backend closed the connection"],
];

for (const [bytes, reason] of BROKEN) {
  test(`why ${JSON.stringify(bytes.slice(0, 70))} is not passed on is told in words: ${reason}`, async () => {
    assert.equal(await why(bytes), reason);
  });
}

test("why an answer to a WebSocket handshake is no HTTP is told in words, and not by a code of the parser", async () => {
  assert.match((await why("garbage\r\n\r\n", handshakeOf())) ?? "", /^Parse Error: Expected HTTP/);
});

test("why a backend that does not end its TLS handshake is not reached is told in words, also for a WebSocket", async () => {
  await using silent = await startByteUpstream(() => undefined);
  await using own = await startTestGateway({
    environment: {
      api: null,
      upstreams: [silent.origin.replace("http:", "https:")],
      limits: { connectTimeout: "100ms" },
    },
  });
  const issued = await own.issue();
  for (const fields of [[], handshakeOf()]) {
    await using client = await openClient(own.port);
    assert.equal((await client.ask({ key: issued.key, fields })).status, 502);
  }
  await eventually(() => assert.equal(own.lines.length, 2));
  for (const line of own.lines) assert.equal(line.why, "no connection within connectTimeout");
});
