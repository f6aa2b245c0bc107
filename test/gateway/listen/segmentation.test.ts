import assert from "node:assert/strict";
import { connect } from "node:net";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, sendRequest } from "../../support/wire/client.ts";
import { valuesOf } from "../../support/wire/response.ts";

const house = await startTestGateway({ environment: { limits: { idleTimeout: "700ms" } } });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

const fields = `Host: gw.test\r\nAuthorization: Bearer ${key}\r\n`;
const get = (line: string, more = "") => `${line}\r\n${fields}${more}\r\n`;

/** The status and code of the only answer to these pieces, written one after another. */
async function codeOf(pieces: readonly string[]): Promise<string> {
  const socket = connect({ port: house.port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => undefined);
  let text = "";
  socket.on("data", (chunk) => (text += chunk.toString("latin1")));
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece, "latin1");
    if (pieces.length < 40) await new Promise((resolve) => setTimeout(resolve, 2));
  }
  await eventually(() => assert.match(text, /\r\n\r\n.*\}$/s), { withinMs: 60_000 });
  socket.destroy();
  return `${/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]} ${/"code":"(\w+)"/.exec(text)?.[1]}`;
}

const inPieces = (text: string, length: number) =>
  Array.from({ length: Math.ceil(text.length / length) }, (_, i) =>
    text.slice(i * length, (i + 1) * length),
  );

const CASES: Readonly<Record<string, readonly [bytes: string, told: string]>> = {
  "a target over urlBytes": [get(`GET /v1/${"a".repeat(9_000)} HTTP/1.1`), "414 uri_too_long"],
  "a target far over it": [get(`GET /v1/${"a".repeat(40_000)} HTTP/1.1`), "414 uri_too_long"],
  "fields over headerBytes": [
    get("GET /v1/pets HTTP/1.1", `X-Long: ${"b".repeat(17_000)}\r\n`),
    "431 headers_too_large",
  ],
  "fields far over it": [
    get("GET /v1/pets HTTP/1.1", `X-Long: ${"b".repeat(60_000)}\r\n`),
    "431 headers_too_large",
  ],
  "101 fields": [get("GET /v1/pets HTTP/1.1", "X-A: b\r\n".repeat(101)), "431 headers_too_large"],
  "an unknown method": [get("BREW /v1/pets HTTP/1.1"), "501 not_implemented"],
  "a method of RTSP": [get("DESCRIBE /v1/pets HTTP/1.1"), "501 not_implemented"],
  "RTSP itself": [get("SETUP rtsp://gw.test/ RTSP/1.0"), "501 not_implemented"],
  "the preface of HTTP/2": ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "501 not_implemented"],
  "another version": [get("GET /v1/pets HTTP/1.2"), "505 http_version"],
  "HTTP/2 by name": [get("GET /v1/pets HTTP/2.0"), "505 http_version"],
  "a space too many": [get("GET  /v1/pets HTTP/1.1"), "400 bad_request"],
};

for (const [what, [bytes, told]] of Object.entries(CASES)) {
  test(`${what} is ${told}, in one write, in pieces of 1,400 bytes and byte by byte`, async () => {
    assert.equal(await codeOf([bytes]), told);
    assert.equal(await codeOf(inPieces(bytes, 1_400)), told);
    assert.equal(await codeOf(inPieces(bytes, 1)), told);
  });
}

test("a 414 has the fields of every answer and a line, up to a request line of urlBytes and headerBytes together", async () => {
  const told = async (bytes: number) => {
    const path = `/v1/${"a".repeat(bytes - "GET /v1/ HTTP/1.1\r\n".length)}`;
    const response = await sendRequest(house.port, { key, path });
    const names = ["X-Request-Id", "X-RateLimit-Limit"];
    return `${response.status} ${names.filter((name) => valuesOf(response, name).length === 1)}`;
  };
  const lineBytesMax = 24 * 1_024;
  const before = house.lines.length;
  assert.equal(await told(lineBytesMax), "414 X-Request-Id,X-RateLimit-Limit");
  assert.equal(await told(lineBytesMax + 1), "414 ");
  assert.equal(await told(9_000), "414 X-Request-Id,X-RateLimit-Limit");
  await eventually(() => assert.equal(house.lines.length, before + 2));
});

test("a CRLF now and then does not keep an idle connection", async () => {
  await using client = await openClient(house.port);
  assert.equal((await client.ask({ key })).status, 200);
  const startedMs = performance.now();
  const timer = setInterval(() => client.socket.writable && client.socket.write("\r\n"), 200);
  const { stalledMs } = await watchStalls(() => client.ended);
  clearInterval(timer);
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs > 600 && tookMs < 2_500 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
});
