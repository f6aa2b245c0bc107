import assert from "node:assert/strict";
import { Worker } from "node:worker_threads";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { type Client, openClient } from "../support/wire/client.ts";

const FLOOD_MS = 1_000;
/** A stall of the gateway shows in each, one of the machine does not. */
const FLOODS = 3;

/** Asks over so many connections, in a thread of its own, until it is told to end. */
const ASKER = `
const { parentPort, workerData } = require("node:worker_threads");
const { connect } = require("node:net");
const { port, connections, bytes } = workerData;
const open = () => {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {}).on("close", () => setTimeout(open, 10)).resume();
  const ask = () => socket.write(bytes);
  socket.on("connect", ask).on("drain", ask);
  const timer = setInterval(ask, 200);
  socket.on("close", () => clearInterval(timer));
};
for (let i = 0; i < connections; i++) open();
`;

/** The longest that a customer waited for an answer, in milliseconds. */
async function longestMs(customer: Client, forMs: number): Promise<number> {
  const endMs = performance.now() + forMs;
  let longest = 0;
  while (performance.now() < endMs) {
    const startMs = performance.now();
    assert.equal((await customer.ask({ key: KEY })).status, 200);
    longest = Math.max(longest, performance.now() - startMs);
  }
  return longest;
}

describe("What an asker without a token sends to the admin listener", () => {
  const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nHost: a\r\n${more}\r\n`;
  const floods: Readonly<Record<string, readonly [connections: number, bytes: string]>> = {
    "20 connections of 50 pipelined GET /metrics": [20, get("/metrics").repeat(50)],
    "64 KB of pipelined GET / on each of 100 connections": [100, get("/").repeat(2_000)],
    "64 KB of requests to /api with a wrong token": [
      50,
      get("/api/keys", "Authorization: Bearer x\r\n").repeat(1_000),
    ],
    "64 KB of what is no HTTP": [100, "GET ".repeat(16_000)],
    "a new connection for each GET /metrics": [200, get("/metrics", "Connection: close\r\n")],
  };
  for (const [name, [connections, bytes]] of Object.entries(floods)) {
    it(`delays no customer by more than 50 ms: ${name}`, async (t) => {
      await using backend = await startTestUpstream(async (_seen, response) => {
        response.end("ok");
      });
      await using served = await spawnGateway({ upstreams: [backend.origin] });
      await using customer = await openClient(served.port);
      await longestMs(customer, 500);
      const quietMs = await longestMs(customer, 1_000);
      const port = Number(new URL(served.adminUrl).port);
      const asker = new Worker(ASKER, { eval: true, workerData: { port, connections, bytes } });
      await longestMs(customer, 500);
      const floods: number[] = [];
      for (let i = 0; i < FLOODS; i++) floods.push(await longestMs(customer, FLOOD_MS));
      await asker.terminate();
      const floodMs = Math.min(...floods);
      t.annotate(`${Math.round(floodMs)} ms, without the flood ${Math.round(quietMs)} ms`);
      assert.ok(floodMs - quietMs <= 50, `${floodMs} ms, without the flood ${quietMs} ms`);
    });
  }
});
