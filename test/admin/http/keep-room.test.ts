import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, get } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { describe, it } from "vitest";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openAdminHouse } from "../admin-house.ts";

async function openMany(port: number, count: number, bytes: string): Promise<Socket[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      await once(socket, "connect");
      socket.write(bytes);
      return socket.resume();
    }),
  );
}

describe("256 connections that finish nothing", () => {
  const told = {
    "say nothing": "",
    "stop in the middle of a head": "GET /livez HTTP/1.1\r\nHost: x\r\n",
    "stop in the middle of a body": `POST /api/reload HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
  };
  for (const [name, bytes] of Object.entries(told)) {
    it(`and ${name} do not keep /livez from its answer`, async () => {
      // None of them is closed for its silence while a busy machine is asked.
      const limits = { headersTimeoutMs: 120_000, requestTimeoutMs: 120_000 };
      await using house = await openAdminHouse({ limits });
      const silent = await openMany(house.port, 256, bytes);
      const left = () => silent.filter(({ closed }) => closed).length;
      for (let i = 0; i < 5; i++) {
        const startMs = performance.now();
        const { value, stalledMs } = await watchStalls(() => house.ask("GET", "/livez"));
        assert.equal(value.status, 200);
        const tookMs = performance.now() - startMs;
        const told = `${tookMs} ms, ${stalledMs} stalled`;
        assert.ok(tookMs < 2_000 + stalledMs, `at once, not after a timeout: ${told}`);
        if (i === 0 && bytes === "") await eventually(() => assert.equal(left(), 1));
      }
      for (const socket of silent) socket.destroy();
    });
  }
});

it("a connection that asks again and again outlives the deadline of its answers", async () => {
  await using house = await openAdminHouse({ limits: { responseTimeoutMs: 300 } });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const sockets = new Set<unknown>();
  for (let i = 0; i < 8; i++) {
    const request = get({ port: house.port, path: "/livez", agent });
    const [response] = await once(request, "response");
    assert.equal(response.statusCode, 200);
    sockets.add(request.socket);
    response.resume();
    await once(response, "end");
    await delay(100);
  }
  assert.equal(sockets.size, 1);
  agent.destroy();
});

it("a stream of figures outlives the deadline of answers, and connections that say nothing", async () => {
  await using house = await openAdminHouse({ limits: { responseTimeoutMs: 2_000 } });
  const { token } = house.guard;
  const leave = new AbortController();
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(`${house.url}/api/events`, { headers, signal: leave.signal });
  const reader = response.body?.getReader() ?? assert.fail("no stream");
  const silent = await openMany(house.port, 300, "");
  let figures = 0;
  while (figures < 4) {
    const { done, value } = await reader.read();
    assert.equal(done, false, `it ended after ${figures} figures`);
    figures +=
      Buffer.from(value ?? [])
        .toString()
        .match(/^event: figures$/gm)?.length ?? 0;
  }
  leave.abort();
  for (const socket of silent) socket.destroy();
});
