import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";
import { handshakeOf, startWebSocketUpstream } from "../support/wire/websocket.ts";

const AWAY = "http://127.0.0.1:1";

// A port that the system gave and took back may be another test's by now, so none is taken so.
describe("connectRetry", () => {
  it("lets a POST wait for an upstream that comes up, and forwards it once", async () => {
    const port = await freePort();
    await using house = await startTestGateway({
      environment: {
        upstreams: [AWAY, `http://127.0.0.1:${port}`],
        limits: { connectRetry: "20s" },
      },
      keys: { [KEY]: {} },
    });
    const asked = sendRequest(house.port, { key: KEY, method: "POST", body: '{"name":"Rex"}' });
    await eventually(async () => {
      const metrics = await (await house.admin("/metrics")).text();
      assert.match(metrics, /upstream_up\{[^}]*\} 0/);
    });
    await using second = await startTestUpstream(undefined, { port });
    assert.equal((await asked).status, 200);
    assert.deepEqual(
      second.seen.map(({ body }) => body.toString()),
      ['{"name":"Rex"}'],
    );
    await eventually(() => assert.equal(house.lines.length, 1));
    assert.deepEqual([house.lines[0]?.charged, house.lines[0]?.forwards], [1, 1]);
  });

  it("ends in a 502 when its time is over, and not before", async () => {
    await using house = await startTestGateway({
      environment: { upstreams: ["http://127.0.0.1:1"], limits: { connectRetry: "300ms" } },
      keys: { [KEY]: {} },
    });
    const startMs = performance.now();
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 502);
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs >= 300, `${tookMs} ms`);
    await house.law();
  });

  it("stops when the client leaves: nothing is forwarded for it later", async () => {
    const port = await freePort();
    await using house = await startTestGateway({
      environment: { upstreams: [`http://127.0.0.1:${port}`], limits: { connectRetry: "20s" } },
      keys: { [KEY]: {} },
    });
    const client = await openClient(house.port);
    client.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    await eventually(async () => {
      const metrics = await (await house.admin("/metrics")).text();
      assert.match(metrics, /upstream_up\{[^}]*\} 0/);
    });
    await client[Symbol.asyncDispose]();
    await eventually(() => assert.equal(house.lines[0]?.status, 499));
    await using second = await startTestUpstream(undefined, { port });
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    assert.equal(second.seen.length, 1);
    assert.equal(house.lines[0]?.forwards, 0);
  });

  it("holds a WebSocket handshake too, until its client leaves", async () => {
    const upstream = await startWebSocketUpstream();
    await using house = await startTestGateway({
      upstream,
      environment: {
        api: null,
        upstreams: ["http://127.0.0.1:1"],
        limits: { connectRetry: "20s" },
      },
    });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    const asked = client.ask({ key, fields: handshakeOf() });
    await eventually(async () => {
      const metrics = await (await house.admin("/metrics")).text();
      assert.match(metrics, /upstream_up\{[^}]*\} 0/);
    });
    await client[Symbol.asyncDispose]();
    await asked.catch(() => {});
    await eventually(() => assert.equal(house.lines[0]?.status, 499));
    assert.equal(house.lines[0]?.forwards, 0);
    await house.law();
  });
});
