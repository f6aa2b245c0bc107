import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openBackend, openByteBackend } from "../support/backend.ts";
import { errorOf, openClient, requestBytes } from "../support/client.ts";
import { openHouse } from "../support/house.ts";
import { eventually } from "../support/poll.ts";
import { onlyValue, valuesOf } from "../support/response.ts";

const LIMITS = {
  headersTimeout: "1500ms",
  requestTimeout: "3s",
  idleTimeout: "800ms",
  responseTimeout: "500ms",
};
const house = await openHouse({ environment: { api: null, limits: LIMITS } });
after(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

/** The parser's limits are looked at once a second, and a busy machine is late. */
function took(startMs: number, wantedMs: number, lateMs = 2_000): string {
  const ms = performance.now() - startMs;
  assert.ok(ms >= wantedMs - 50 && ms <= wantedMs + lateMs, `${ms} ms, wanted ${wantedMs}`);
  return `${Math.round(ms)} ms of ${wantedMs}`;
}

test("2.3 slowloris headers: 408 and the end at headersTimeout, however the bytes drip", async (t) => {
  await using client = await openClient(house.port);
  const startMs = performance.now();
  client.write("GET /v1/pets HTTP/1.1\r\n");
  const drip = setInterval(() => client.write("X: 1\r\n"), 100);
  const [answer] = await client.responses(["GET"]);
  clearInterval(drip);
  assert.equal(answer?.status, 408);
  assert.equal(answer && errorOf(answer).code, "request_timeout");
  assert.equal(await client.ended, "closed");
  t.diagnostic(took(startMs, 1_500));
});

test("2.3 a socket with no byte is closed at headersTimeout", async (t) => {
  await using client = await openClient(house.port);
  const startMs = performance.now();
  await client.ended;
  t.diagnostic(took(startMs, 1_500));
});

test("2.3 slow body: 408 at requestTimeout though each piece comes in time, and the backend is let go", async (t) => {
  house.backend.forget();
  await using client = await openClient(house.port);
  const startMs = performance.now();
  client.write(requestBytes({ key, method: "POST", fields: [["Content-Length", "1000"]] }));
  const drip = setInterval(() => client.write("x"), 100);
  const [answer] = await client.responses(["POST"]);
  clearInterval(drip);
  assert.equal(answer && errorOf(answer).code, "request_timeout");
  assert.equal(onlyValue(answer as never, "Connection"), "close");
  t.diagnostic(took(startMs, 3_000));
  assert.equal(house.backend.seen.length, 1);
  assert.equal(house.backend.seen[0]?.complete, false);
});

test("2.3 slow body: 408 at idleTimeout when no piece comes", async (t) => {
  await using client = await openClient(house.port);
  client.write(requestBytes({ key, method: "POST", fields: [["Content-Length", "10"]] }));
  client.write("x");
  const startMs = performance.now();
  const [answer] = await client.responses(["POST"]);
  assert.equal(answer && errorOf(answer).code, "request_timeout");
  t.diagnostic(took(startMs, 800));
});

test("2.3 slow reader: cut after idleTimeout without taking a byte", async (t) => {
  house.backend.answer((_seen, response) => {
    response.end(Buffer.alloc(30_000_000));
  });
  house.backend.forget();
  await using client = await openClient(house.port);
  client.socket.pause();
  client.write(requestBytes({ key }));
  await eventually(() => house.backend.seen.length === 1);
  const startMs = performance.now();
  const before = house.lines.length;
  await eventually(() => house.lines.length > before, { withinMs: 10_000 });
  t.diagnostic(took(startMs, 800, 4_000));
});

test("2.2 hangs before headers: 504 at responseTimeout, and the backend's connection is not used again", async (t) => {
  house.backend.answer(() => undefined);
  house.backend.forget();
  await using client = await openClient(house.port);
  const startMs = performance.now();
  const answer = await client.ask({ key });
  assert.equal(errorOf(answer).code, "upstream_timeout");
  t.diagnostic(took(startMs, 500));
  house.backend.answer((_seen, response) => {
    response.end("ok");
  });
  assert.equal((await client.ask({ key })).status, 200);
  const [first, second] = house.backend.seen;
  assert.notEqual(first?.connection, second?.connection);
});

test("2.2 slow trickle: a response whose pieces come within idleTimeout passes, each as it comes", async () => {
  house.backend.answer(async (_seen, response) => {
    for (let i = 0; i < 8; i++) {
      response.write(String(i));
      await sleep(200);
    }
    response.end();
  });
  await using client = await openClient(house.port);
  assert.equal((await client.ask({ key })).body.toString(), "01234567");
});

test("2.2 slow trickle: a response that stalls for idleTimeout is cut off", async (t) => {
  house.backend.answer((_seen, response) => {
    response.write("a");
  });
  await using client = await openClient(house.port);
  const startMs = performance.now();
  await assert.rejects(client.ask({ key }), /closed/);
  t.diagnostic(took(startMs, 800));
});

for (const framing of ["Content-Length: 10", "Transfer-Encoding: chunked"]) {
  test(`2.2 resets mid-body (${framing}): the client's connection ends within 100 ms, without a clean end`, async (t) => {
    let reset: () => void = () => undefined;
    const backend = await openByteBackend((socket) => {
      const body = framing.endsWith("chunked") ? "3\r\nabc\r\n" : "abc";
      socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${body}`);
      reset = () => socket.resetAndDestroy();
    });
    const upstream = { origin: backend.origin, seen: [], close: backend.close };
    await using own = await openHouse({ upstream, environment: { api: null } });
    const { key: ownKey } = await own.issue();
    const tookMs: number[] = [];
    for (let i = 0; i < 5; i++) {
      await using client = await openClient(own.port);
      client.write(requestBytes({ key: ownKey }));
      await eventually(() => client.waiting().includes("abc"));
      const startMs = performance.now();
      reset();
      await client.ended;
      tookMs.push(performance.now() - startMs);
      assert.ok(!client.waiting().includes("\r\n0\r\n"));
    }
    const median = tookMs.sort((a, b) => a - b)[2] ?? Number.NaN;
    t.diagnostic(`median ${median.toFixed(1)} ms`);
    assert.ok(median <= 100, `${median} ms`);
  });
}

test("2.2 early response: passed on while the upload goes on, and neither connection is used again", async () => {
  const backend = await openBackend((_seen, response) => {
    response.writeHead(413, { "Content-Length": "5" }).end("large");
  });
  await using own = await openHouse({ backend, environment: { api: null } });
  const { key: ownKey } = await own.issue();
  await using client = await openClient(own.port);
  client.write(
    requestBytes({ key: ownKey, method: "POST", fields: [["Content-Length", "100000"]] }),
  );
  client.write("begins");
  const [answer] = await client.responses(["POST"]);
  assert.deepEqual([answer?.status, answer?.body.toString()], [413, "large"]);
  assert.equal(valuesOf(answer as never, "Connection").join(), "close");
  await client.ended;
  await using next = await openClient(own.port);
  await next.ask({ key: ownKey });
  assert.notEqual(backend.seen[0]?.connection, backend.seen[1]?.connection);
  await own.law();
});

test("2.3 the law holds over all of it", () => house.law({ connectionsFailed: true }));
