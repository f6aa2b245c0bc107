import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { requestBytes, sendRequest } from "../../support/wire/client.ts";
import { sendRaw } from "../../support/wire/raw.ts";
import {
  onlyValue,
  parseResponses,
  type RawResponse,
  valuesOf,
} from "../../support/wire/response.ts";

const house = await startTestGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

/** The client's response for bytes that the backend writes as they are. */
async function answered(bytes: string, method = "GET"): Promise<RawResponse> {
  house.backend.answer((_seen, response) => {
    response.socket?.end(Buffer.from(bytes, "latin1"));
  });
  return await sendRequest(house.port, { key, method });
}

test("ordinary fields pass as they are: names, order, repetition, Latin-1", async () => {
  const fields =
    "X-Odd-CASE: a\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nCache-Control: private\r\n" +
    "Location: http://127.0.0.1:1/x\r\nContent-Encoding: gzip\r\nX-Latin: caf\xe9\r\n";
  const answer = await answered(`HTTP/1.1 200 OK\r\n${fields}Content-Length: 2\r\n\r\nok`);
  const lines = answer.fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  assert.ok(lines.startsWith(fields), lines);
});

test("hop-by-hop fields are stripped, both listed and nominated", async () => {
  const answer = await answered(
    "HTTP/1.1 200 OK\r\nConnection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=9\r\n" +
      "Proxy-Authenticate: Basic\r\nTrailer: X-T\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok",
  );
  for (const name of ["X-Secret", "Proxy-Authenticate", "Trailer"]) {
    assert.deepEqual(valuesOf(answer, name), [], name);
  }
  assert.ok(!valuesOf(answer, "Keep-Alive").includes("timeout=9"));
  assert.equal(onlyValue(answer, "X-Kept"), "1");
});

test("a nomination cannot remove our fields from the response", async () => {
  const answer = await answered(
    "HTTP/1.1 200 OK\r\nConnection: X-RateLimit-Limit, X-Request-Id\r\nContent-Length: 2\r\n\r\nok",
  );
  assert.equal(onlyValue(answer, "X-RateLimit-Limit"), "1000");
  onlyValue(answer, "X-Request-Id");
});

test("the reason phrase is never copied", async () => {
  const answer = await answered("HTTP/1.1 404 Nothing here <b>\r\nContent-Length: 2\r\n\r\nno");
  assert.deepEqual([answer.status, answer.reason], [404, "Not Found"]);
});

test("HEAD, 204 and 304 have no body whatever their fields say", async () => {
  const head = await answered("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", "HEAD");
  assert.deepEqual([head.status, head.framing], [200, "none"]);
  assert.equal(onlyValue(head, "Content-Length"), "1234");
  const none = await answered("HTTP/1.1 204 No Content\r\n\r\n");
  assert.deepEqual([none.status, valuesOf(none, "Content-Length")], [204, []]);
  const same = await answered(
    'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 9\r\n\r\n',
  );
  assert.deepEqual([same.status, same.framing], [304, "none"]);
  assert.equal(onlyValue(same, "ETag"), '"a"');
});

test.each([
  ["GET", "304 Not Modified", "Content-Length: 9\r\nTransfer-Encoding: chunked"],
  ["GET", "304 Not Modified", "Content-Length: 9\r\nContent-Length: 8"],
  ["GET", "204 No Content", "Content-Length: x"],
  ["HEAD", "200 OK", "Content-Length: 10, 10"],
  ["HEAD", "404 Not Found", "Transfer-Encoding: chunked\r\nContent-Length: 10"],
])("%s with %s and %j passes, without a length that clients read in two ways", async (...given) => {
  const [method, status, fields] = given;
  const answer = await answered(`HTTP/1.1 ${status}\r\n${fields}\r\nX-A: 1\r\n\r\n`, method);
  assert.equal(answer.status, Number(status.slice(0, 3)));
  assert.deepEqual([onlyValue(answer, "X-A"), answer.framing], ["1", "none"]);
  assert.deepEqual(valuesOf(answer, "Content-Length"), []);
});

test.each([
  ["GET", "200 OK", "Content-Length: 2\r\nTransfer-Encoding: chunked"],
  ["GET", "200 OK", "Content-Length: 10, 10"],
  ["GET", "204 No Content", "Transfer-Encoding: identity"],
  ["HEAD", "200 OK", "Transfer-Encoding: gzip, chunked"],
])("%s with %s and %j is 502", async (method, status, fields) => {
  const answer = await answered(`HTTP/1.1 ${status}\r\n${fields}\r\n\r\n`, method);
  assert.equal(answer.status, 502);
});

test("a status outside 200 to 599 is 502; 200 and 599 pass", async () => {
  for (const [status, wanted] of [
    [200, 200],
    [599, 599],
    [600, 502],
    [999, 502],
  ] as const) {
    const answer = await answered(`HTTP/1.1 ${status} X\r\nContent-Length: 2\r\n\r\nok`);
    assert.equal(answer.status, wanted);
  }
});

test("100 fields pass, 101 are 502", async () => {
  const fields = (count: number) => "X-A: 1\r\n".repeat(count - 1);
  for (const [count, wanted] of [
    [100, 200],
    [101, 502],
  ] as const) {
    const bytes = `HTTP/1.1 200 OK\r\n${fields(count)}Content-Length: 2\r\n\r\nok`;
    assert.equal((await answered(bytes)).status, wanted, `${count} fields`);
  }
});

test("a 100 or 101 that nobody asked for is 502", async () => {
  const after = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
  for (const bytes of [`HTTP/1.1 100 Continue\r\n\r\n${after}`, upgrade]) {
    const answer = await answered(bytes);
    assert.deepEqual([answer.status, answer.interim], [502, []]);
  }
});

test("103 passes, at most 8 a response; 102 is dropped", async () => {
  const hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
  const processing = "HTTP/1.1 102 Processing\r\n\r\n";
  const end = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const answer = await answered(processing + hint.repeat(9) + end);
  assert.equal(answer.status, 200);
  assert.deepEqual(
    answer.interim.map(({ status }) => status),
    Array(8).fill(103),
  );
  const [first] = answer.interim as [RawResponse];
  assert.deepEqual(first.fields, [["Link", "</a.css>; rel=preload"]]);
});

test.each([102, 104, 150, 199])(
  "a %i is dropped, and the response behind it passes",
  async (status) => {
    const interim = `HTTP/1.1 ${status} X\r\nLocation: /v1/uploads/7\r\n\r\n`;
    const answer = await answered(`${interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`);
    assert.deepEqual([answer.status, answer.body.toString(), answer.interim], [200, "ok", []]);
  },
);

test("a 103 has no field of framing or of the connection", async () => {
  const hint =
    "HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\nKeep-Alive: a\r\n" +
    "Connection: X-Secret\r\nX-Secret: 1\r\nTrailer: X\r\nLink: </a>\r\n\r\n";
  const answer = await answered(`${hint}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`);
  assert.deepEqual([answer.status, answer.body.toString()], [200, "ok"]);
  assert.deepEqual(answer.interim[0]?.fields, [["Link", "</a>"]]);
});

test.each([
  [103, 100, 200],
  [103, 101, 502],
  [102, 100, 200],
  [102, 101, 502],
])("a %i with %i fields leads to %i", async (status, count, wanted) => {
  const interim = `HTTP/1.1 ${status} X\r\n${"X-A: 1\r\n".repeat(count)}\r\n`;
  const answer = await answered(`${interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`);
  assert.equal(answer.status, wanted);
  const passed = status === 103 && wanted === 200 ? [count] : [];
  assert.deepEqual(
    answer.interim.map(({ fields }) => fields.length),
    passed,
  );
});

test("an HTTP/1.0 client gets no 1xx, and a body it can frame", async () => {
  house.backend.answer((_seen, response) => {
    response.socket?.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    response.write("one");
    response.end("two");
  });
  const { bytes, ended } = await sendRaw(house.port, requestBytes({ key, version: "1.0" }));
  const { responses, problem } = parseResponses(bytes, { closed: ended === "closed" });
  assert.equal(problem, undefined);
  const [answer] = responses as [RawResponse];
  assert.deepEqual([answer.interim, answer.framing], [[], "close"]);
  assert.equal(answer.body.toString(), "onetwo");
});

test("the law holds after all of it", () => house.law());
