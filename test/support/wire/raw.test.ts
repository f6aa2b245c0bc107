import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startByteUpstream, startTestUpstream } from "../gateway/backend.ts";
import { sendRaw } from "./raw.ts";
import { onlyValue, parseResponses, valuesOf } from "./response.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

function parse(text: string, options = {}) {
  return parseResponses(Buffer.from(text, "latin1"), options);
}

describe("the response parser", () => {
  it("reads pipelined responses, 1xx, chunks with trailers, HEAD and a body up to the close", () => {
    const text =
      `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${OK}` +
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n" +
      "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" +
      "HTTP/1.1 204 \r\nX-A: 1\r\nx-a: 2\r\n\r\n" +
      "HTTP/1.1 200 OK\r\n\r\nto the end";
    const methods = ["GET", "GET", "HEAD", "GET", "GET"];
    const { responses, problem } = parse(text, { methods, closed: true });
    assert.equal(problem, undefined);
    assert.deepEqual(
      responses.map(({ status, body, framing }) => [status, body.toString(), framing]),
      [
        [200, "ok", "length"],
        [200, "abc", "chunked"],
        [200, "", "none"],
        [204, "", "none"],
        [200, "to the end", "close"],
      ],
    );
    assert.deepEqual(
      responses[0]?.interim.map(({ status }) => status),
      [103],
    );
    assert.deepEqual(responses[1]?.trailers, [["T", "1"]]);
    const fourth = responses[3];
    assert.ok(fourth);
    assert.deepEqual(valuesOf(fourth, "X-A"), ["1", "2"]);
    assert.throws(() => onlyValue(fourth, "X-A"), /2 times/);
  });

  const INVALID: readonly [why: string, text: string, says: RegExp][] = [
    ["a bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", /bare LF/],
    ["a bare CR in a field", "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", /bare CR/],
    ["a NUL in a value", "HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", /not a field/],
    ["a folded field", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", /not a field/],
    ["a blank before the colon", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n", /not a field/],
    ["another version", "HTTP/2.0 200 OK\r\n\r\n", /status line/],
    ["a status of 600", "HTTP/1.1 600 OK\r\n\r\n", /status line/],
    ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", /two/],
    ["a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na", /bad Content-Length/],
    ["length on 204", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", /framing on a 204/],
    [
      "both framings",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      /both/,
    ],
    ["a bad chunk size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n", /chunk/],
    [
      "bytes after the close was announced",
      `HTTP/1.1 204 No\r\nConnection: close\r\n\r\n${OK}`,
      /announced/,
    ],
    ["rubbish after a response", `${OK}rubbish\r\n\r\n`, /status line/],
  ];
  for (const [why, text, says] of INVALID) {
    it(`finds ${why}`, () => assert.match(parse(text).problem ?? "", says));
  }

  it("calls half a response unfinished while open, and a problem once closed", () => {
    const half = OK.slice(0, -1);
    assert.equal(parse(half).problem, undefined);
    assert.equal(parse(half).rest.toString(), half);
    assert.match(parse(half, { closed: true }).problem ?? "", /middle of the body/);
  });
});

describe("sendRaw", () => {
  it("stops when every request has its answer, and the backend has recorded each", async () => {
    await using backend = await startTestUpstream();
    const request = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
    const methods = ["POST", "POST"];
    const { bytes, ended } = await sendRaw(backend.port, request + request, { methods });
    assert.equal(ended, "answered");
    assert.equal(parseResponses(bytes, { methods }).responses.length, 2);
    assert.deepEqual(
      backend.seen.map(({ target, body, connection }) => [target, body.toString(), connection]),
      [
        ["/a", "hi", 1],
        ["/a", "hi", 1],
      ],
    );
    assert.equal(backend.connections(), 1);
  });

  it("tells a close from a timeout, and passes bytes on as they are", async () => {
    await using backend = await startByteUpstream((socket) => socket.end("\xff\0", "latin1"));
    const closed = await sendRaw(backend.port, ["\x01", "\x02"], { halfClose: true });
    assert.deepEqual([...closed.bytes, closed.ended], [255, 0, "closed"]);
    await using silent = await startByteUpstream(() => {});
    const { ended } = await sendRaw(silent.port, "x", { timeoutMs: 50 });
    assert.equal(ended, "timeout");
  });
});
