import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";

const LIMIT = 10_000_000;
const KEYS = {
  [KEY]: {
    limits: [
      { window: "minute", limit: LIMIT },
      { window: "day", limit: LIMIT },
    ],
  },
} as const;
const CLIENTS = 16;
const POSTS = 2_000;
const ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** A backend that answers, does not say that it will close, and closes right behind its answer. */
async function openClosing(behind: string, afterMs = 0) {
  const seen: string[] = [];
  let [opened, closed] = [0, 0];
  const server = createServer((socket) => {
    opened += 1;
    socket.on("close", () => {
      closed += 1;
    });
    socket.on("error", () => {});
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (!text.endsWith("\r\n\r\n{}")) return;
      seen.push(text);
      text = "";
      socket.write(ANSWER, "latin1");
      if (afterMs > 0) setTimeout(() => socket.end(), afterMs);
      else if (behind === "") socket.end();
      else setImmediate(() => socket.write(behind, "latin1"));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    await new Promise((resolve) => server.close(resolve));
  };
  return { origin, seen, close, counts: () => [opened, closed] };
}

async function post(port: number): Promise<string[]> {
  let left = POSTS;
  const others: string[] = [];
  const work = async () => {
    await using client = await openClient(port);
    while (left > 0) {
      left -= 1;
      const { status, body } = await client.ask({ key: KEY, method: "POST", body: "{}" });
      if (status !== 200 || body.toString() !== "ok") others.push(`${status} ${body}`);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, work));
  return others;
}

describe("a backend that closes each connection right behind its answer", () => {
  for (const upstreamConnections of [256, 4]) {
    it(`loses none of ${POSTS} POSTs over ${upstreamConnections} connections`, async () => {
      const upstream = await openClosing("");
      await using house = await startTestGateway({
        upstream,
        environment: { limits: { upstreamConnections } },
        keys: KEYS,
      });
      assert.deepEqual(await post(house.port), []);
      await house.law();
    });
  }
});

describe("a backend that closes each connection a moment after its answer", () => {
  // Those that are sent before the first close is seen cannot be known to be lost.
  for (const upstreamConnections of [256, 16]) {
    it(`loses few POSTs over ${upstreamConnections} connections`, async () => {
      const upstream = await openClosing("", 2);
      await using house = await startTestGateway({
        upstream,
        environment: { limits: { upstreamConnections } },
        keys: KEYS,
      });
      const lost = await post(house.port);
      assert.ok(lost.length < POSTS / 20, `${lost.length} of ${POSTS} lost`);
      await house.law();
    });
  }
});

describe("an idle connection to a backend", () => {
  it("is used again at once though the backend closed one that was idle for long", async () => {
    const upstream = await openClosing("", 1_000);
    await using house = await startTestGateway({ upstream, keys: KEYS });
    const ask = { key: KEY, method: "POST", body: "{}" };
    assert.equal((await sendRequest(house.port, ask)).status, 200);
    await eventually(() => assert.deepEqual(upstream.counts(), [1, 1]));
    for (let i = 0; i < 3; i++) assert.equal((await sendRequest(house.port, ask)).status, 200);
    assert.equal(upstream.counts()[0], 2);
    await house.law();
  });

  it("is closed by the gateway after upstreamIdle, and not before", async () => {
    // Before the connection can be idle, however late this process hears of the answer.
    let fromMs = 0;
    await using backend = await startTestUpstream((_seen, response) => {
      fromMs = performance.now();
      response.end("ok");
    });
    await using house = await startTestGateway({
      backend,
      environment: { limits: { upstreamIdle: "400ms" } },
      keys: KEYS,
    });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    await eventually(() => assert.equal(backend.closed(), 1));
    const tookMs = performance.now() - fromMs;
    assert.ok(tookMs >= 390 && tookMs < 5_000, `${tookMs} ms`);
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    assert.equal(backend.connections(), 2);
    await house.law();
  });

  it("is closed earlier where the backend says that it will close it", async () => {
    let fromMs = 0;
    await using backend = await startTestUpstream((_seen, response) => {
      fromMs = performance.now();
      response.writeHead(200, { "Content-Length": 2, "Keep-Alive": "timeout=2" }).end("ok");
    });
    await using house = await startTestGateway({
      backend,
      environment: { limits: { upstreamIdle: "60s" } },
      keys: KEYS,
    });
    const { stalledMs } = await watchStalls(async () => {
      assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
      await eventually(() => assert.equal(backend.closed(), 1));
    });
    const tookMs = performance.now() - fromMs;
    assert.ok(tookMs >= 990 && tookMs < 1_900 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
    await house.law();
  });
});
