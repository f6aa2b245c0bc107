import assert from "node:assert/strict";
import { type IncomingMessage, request } from "node:http";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { requestBytes } from "../support/wire/client.ts";
import { openSocket, rssBytes } from "./process-memory.ts";

const MB = 1_000_000;
/** `TOLLGATE_STREAM_MB=1000` for 1 GB. */
const STREAM_BYTES = Number(process.env.TOLLGATE_STREAM_MB ?? 300) * MB;
const PIECE = Buffer.alloc(64 * 1024, "x");

/** Pieces of a body of so many bytes, made as they are taken. */
function* bytesOf(length: number): Generator<Buffer> {
  for (let left = length; left > 0; left -= PIECE.length) {
    yield left < PIECE.length ? PIECE.subarray(0, left) : PIECE;
  }
}

/** By how much the memory of the gateway grew while something was under way, at most. */
async function growthDuring(served: SpawnedGateway, work: () => Promise<unknown>): Promise<number> {
  const before = rssBytes(served);
  let most = before;
  // It ends with the work, however that ends: of a gateway that is gone nothing can be read.
  using _timer = setInterval(() => {
    most = Math.max(most, rssBytes(served));
  }, 20);
  await work();
  return Math.max(most, rssBytes(served)) - before;
}

/** The backend answers `?down=N` with N bytes, and says how many bytes any body had. */
function openPipes() {
  return startTestUpstream(async (seen, response, incoming) => {
    const down = Number(/down=(\d+)/.exec(seen.target)?.[1] ?? 0);
    // The recorder keeps the bodies that it sees: these are only counted.
    incoming.removeAllListeners("data");
    let up = 0;
    for await (const chunk of incoming) up += (chunk as Buffer).length;
    response.writeHead(200, { "X-Up": String(up) });
    await pipeline(bytesOf(down), response);
  });
}

async function transfer({ port }: SpawnedGateway, up: number, down: number) {
  const headers = { Authorization: `Bearer ${KEY}`, "Content-Length": String(up) };
  const outgoing = request({ port, method: "POST", path: `/v1/pipe?down=${down}`, headers });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once("response", resolve).once("error", reject);
  });
  await pipeline(bytesOf(up), outgoing);
  const answer = await answered;
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += (chunk as Buffer).length;
  }
  return { status: answer.statusCode, up: Number(answer.headers["x-up"]), down: bytes };
}

const LIMITS = { bodyBytes: "2GiB", requestTimeout: "10m" };

test(`2.2 1 GB body: ${STREAM_BYTES / MB} MB each way grow the gateway by at most 20 MB`, async (t) => {
  await using backend = await openPipes();
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    api: null,
    limits: LIMITS,
  });
  await transfer(served, 50 * MB, 50 * MB);
  for (const [name, up, down] of [
    ["up", STREAM_BYTES, 0],
    ["down", 0, STREAM_BYTES],
    ["both", STREAM_BYTES / 2, STREAM_BYTES / 2],
  ] as const) {
    const startMs = performance.now();
    const grown = await growthDuring(served, async () => {
      assert.deepEqual(await transfer(served, up, down), { status: 200, up, down });
    });
    const seconds = (performance.now() - startMs) / 1000;
    t.annotate(
      `${name}: grew by ${(grown / MB).toFixed(1)} MB, ${((up + down) / MB / seconds).toFixed(0)} MB/s`,
    );
    assert.ok(grown <= 20 * MB, `${name}: ${grown} bytes`);
  }
  const slow = await growthDuring(served, () => readSlowly(served));
  t.annotate(`a reader of 1 MB/s: grew by ${(slow / MB).toFixed(1)} MB`);
  assert.ok(slow <= 20 * MB, `slowly: ${slow} bytes`);
});

/** Takes 1 MB/s of a response of 1 GB for a while, then goes away. */
async function readSlowly({ port }: SpawnedGateway): Promise<void> {
  const socket = await openSocket(port);
  socket.write(requestBytes({ key: KEY, method: "POST", path: `/v1/pipe?down=${1_000 * MB}` }));
  const startMs = performance.now();
  let taken = 0;
  // A machine that stalls brings the first bytes late.
  for (const endMs = startMs + 1_500; performance.now() < endMs || taken <= MB; await sleep(10)) {
    const due = (performance.now() - startMs) * 1_000;
    while (taken < due) {
      const piece = socket.read() as Buffer | null;
      if (piece === null) break;
      taken += piece.length;
    }
  }
  socket.destroy();
  assert.ok(taken > MB, `${taken} bytes were read`);
}

/**
 * 256 of the readers have a response under way, of which the gateway holds some 200 kB each in whole
 * pieces of 64 KiB, 100 to 160 MB with the connections (docs/decisions/tunnels-and-streams.md).
 */
test("2.3 Slow reader: 1,000 of 10 MB hold at most 200 MB, and are cut after idleTimeout", async (t) => {
  await using backend = await openPipes();
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    api: null,
    // Those that wait for a connection to the backend wait for long on a busy machine.
    limits: { idleTimeout: "2s", responseTimeout: "10m" },
  });
  await transfer(served, 0, 20 * MB);
  const COUNT = 1_000;
  const before = rssBytes(served);
  const target = `/v1/pipe?down=${10 * MB}`;
  const sockets = await Promise.all(Array.from({ length: COUNT }, () => openSocket(served.port)));
  const startMs = performance.now();
  for (const socket of sockets) {
    socket.pause();
    socket.write(requestBytes({ key: KEY, method: "POST", path: target }));
  }
  let most = 0;
  const ended = () => {
    most = Math.max(most, rssBytes(served) - before);
    return served.lines.length === COUNT + 1;
  };
  await eventually(ended, { withinMs: 150_000, everyMs: 50 });
  const seconds = (performance.now() - startMs) / 1000;
  t.annotate(`held ${(most / MB).toFixed(1)} MB; all cut after ${seconds.toFixed(1)} s`);
  assert.ok(most <= 200 * MB, `${most} bytes`);
  for (const socket of sockets) socket.destroy();
  assert.equal((await transfer(served, 0, 1_000)).status, 200);
  assert.equal(backend.seen.length, COUNT + 2);
});
