import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, it, test } from "vitest";
import { startByteUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { expectDuration, watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, openClient, requestBytes } from "../support/wire/client.ts";

/** The default limits, a few times faster. */
const LIMITS = { idleTimeout: "800ms", responseTimeout: "1500ms" };
const SWEEP_MS = 200;

const house = await startTestGateway({ environment: { api: null, limits: LIMITS } });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });
house.backend.answer(async (seen, response) => {
  switch (seen.target) {
    case "/v1/silent":
      return;
    case "/v1/stall":
    case "/v1/stall?early":
      return void response.write("a");
    default:
      return void response.end("ok");
  }
});
const connectionOf = (path: string) =>
  house.backend.seen.findLast(({ target }) => target === path)?.connection;

describe.concurrent("A backend that is slow", () => {
  it("2.2 Hangs before headers: 504 at responseTimeout + 10 %, and its connection is not used again", async (t) => {
    await using client = await openClient(house.port);
    await expectDuration(t, { wantedMs: 1_500, lateMs: 150 }, async () => {
      const answer = await client.ask({ key, path: "/v1/silent" });
      assert.deepEqual([answer.status, errorOf(answer).code], [504, "upstream_timeout"]);
      assert.equal(errorOf(answer).message, "The upstream service took too long to answer");
    });
    const hung = connectionOf("/v1/silent");
    for (let i = 0; i < 20; i++) {
      assert.equal((await client.ask({ key, path: "/v1/after" })).status, 200);
      assert.notEqual(connectionOf("/v1/after"), hung);
    }
  });

  it("is not what a request is told of that got no connection and was never sent", async () => {
    const limits = { ...LIMITS, idleTimeout: "30s", upstreamConnections: 1 };
    await using own = await startTestGateway({ environment: { api: null, limits } });
    const over = Promise.withResolvers<void>();
    own.backend.answer(async (_seen, response) => {
      response.write("a");
      await over.promise;
      response.end();
    });
    const { key: ownKey } = await own.issue();
    await using first = await openClient(own.port);
    await using second = await openClient(own.port);
    const held = first.ask({ key: ownKey });
    // Its client is closed where a claim ahead of its answer fails, and nobody waits for it then.
    held.catch(() => undefined);
    await eventually(() => assert.equal(own.backend.seen.length, 1));
    const { code, message } = errorOf(await second.ask({ key: ownKey }));
    assert.deepEqual([code, own.backend.seen.length], ["upstream_timeout", 1]);
    assert.match(message, /^No connection to the upstream service became free in time/);
    over.resolve();
    assert.equal((await held).status, 200);
  });

  it("2.2 Slow trickle: a response whose pieces come within idleTimeout passes, each as it comes", async () => {
    // A thirtieth of the time for each piece: a machine that stands still sends it in time all the same.
    const limits = { idleTimeout: "3s" };
    await using own = await startTestGateway({ environment: { api: null, limits } });
    let sent = 0;
    own.backend.answer(async (_seen, response) => {
      for (; sent < 33; sent++) {
        response.write("x");
        await sleep(100);
      }
      response.end();
    });
    const { key: ownKey } = await own.issue();
    await using client = await openClient(own.port);
    const asked = client.ask({ key: ownKey });
    await eventually(() => client.waiting().includes("1\r\nx"));
    assert.ok(sent < 33, "the first pieces are here while the last ones have not been sent");
    assert.equal((await asked).body.toString(), "x".repeat(33));
  });

  it("2.2 Slow trickle: a response that stalls for idleTimeout is cut off, and the log says how far it came", async (t) => {
    await expectDuration(t, { wantedMs: 800, lateMs: SWEEP_MS }, async () => {
      await using client = await openClient(house.port);
      await assert.rejects(client.ask({ key, path: "/v1/stall" }), /closed/);
    });
    const line = () =>
      house.lines.find(({ path, method }) => path === "/v1/stall" && method === "GET");
    await eventually(() => assert.ok(line()));
    assert.equal(line()?.why, "waited too long for: download, after 1 bytes of the body");
  });

  it("2.2 Slow trickle: a response that began before the end of its upload, and stalls behind that, is cut off as any other", async () => {
    await using client = await openClient(house.port);
    const whole = requestBytes({
      key,
      method: "POST",
      path: "/v1/stall?early",
      body: "x".repeat(9),
    });
    client.write(whole.subarray(0, -4));
    await eventually(() => client.waiting().includes("1\r\na"));
    client.write(whole.subarray(-4));
    await client.ended;
    const line = () => house.lines.find(({ method }) => method === "POST");
    await eventually(() => assert.ok(line()));
    assert.equal(line()?.why, "waited too long for: download, after 1 bytes of the body");
  });
});

for (const [framing, told] of [
  ["Content-Length: 10", "after 3 of 10 bytes of the body"],
  ["Transfer-Encoding: chunked", "after 3 bytes of the body"],
] as const) {
  test(`2.2 Resets mid-body (${framing}): the client's connection ends within 100 ms, without a clean end, and the log says how far it came`, async (t) => {
    let reset: () => void = () => undefined;
    const backend = await startByteUpstream((socket) => {
      const body = framing.endsWith("chunked") ? "3\r\nabc\r\n" : "abc";
      socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${body}`);
      reset = () => socket.resetAndDestroy();
    });
    const upstream = { origin: backend.origin, seen: [], close: backend.close };
    await using own = await startTestGateway({ upstream, environment: { api: null } });
    const { key: ownKey } = await own.issue();
    const tookMs: number[] = [];
    for (let i = 0; i < 5; i++) {
      await using client = await openClient(own.port);
      client.write(requestBytes({ key: ownKey }));
      await eventually(() => client.waiting().includes("abc"));
      const startMs = performance.now();
      reset();
      const { stalledMs } = await watchStalls(() => client.ended);
      tookMs.push(performance.now() - startMs - stalledMs);
      assert.ok(!client.waiting().includes("\r\n0\r\n"));
    }
    const median = tookMs.sort((a, b) => a - b)[2] ?? Number.NaN;
    t.annotate(`median ${median.toFixed(1)} ms`);
    assert.ok(median <= 100, `${median} ms`);
    await eventually(() => assert.equal(own.lines.length, 5));
    for (const { status, charged, why = "" } of own.lines) {
      assert.deepEqual([status, charged], [200, 1]);
      assert.match(why, /^upstream_aborted: \w+, /);
      assert.ok(why.endsWith(told), why);
    }
  });
}

test("the law holds after all of it", () => house.law({ connectionsFailed: true }));
