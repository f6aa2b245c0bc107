import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { openClient, rateLimitFieldsOf, requestBytes } from "../support/wire/client.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const AHEAD_BYTES_MAX = 65_536;

test("2.3 Pipelining: 100 requests of a Free key are 60 x 200, then 40 x 429, in order, one at a time at the backend", async () => {
  await using house = await startTestGateway({ now: () => NOON });
  let [pending, most] = [0, 0];
  house.backend.answer((seen, response) => {
    pending += 1;
    most = Math.max(most, pending);
    const late = Number(/n=(\d+)/.exec(seen.target)?.[1]) % 3;
    setTimeout(() => {
      pending -= 1;
      response.end(seen.target);
    }, late);
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const requests = Array.from({ length: 100 }, (_, n) =>
    requestBytes({ key, path: `/v1/pets?n=${n}` }),
  );
  client.write(Buffer.concat(requests));
  const answers = await client.responses(Array<string>(100).fill("GET"));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [...Array<number>(60).fill(200), ...Array<number>(40).fill(429)],
  );
  assert.deepEqual(
    answers.slice(0, 60).map(({ body }) => body.toString()),
    Array.from({ length: 60 }, (_, n) => `/v1/pets?n=${n}`),
  );
  assert.deepEqual(
    answers.slice(0, 60).map((answer) => rateLimitFieldsOf(answer).remaining),
    Array.from({ length: 60 }, (_, n) => 59 - n),
  );
  await house.law();
  assert.equal(house.backend.seen.length, 60);
  assert.equal(most, 1);
});

/** Bytes of one connection that the system holds: sent and not yet read by the other side. */
async function heldBytes(from: number, to: number): Promise<number> {
  const hex = (port: number) => port.toString(16).toUpperCase().padStart(4, "0");
  let held = 0;
  for (const line of (await readFile("/proc/net/tcp", "utf8")).split("\n")) {
    const [, local = "", remote = "", , queues = ""] = line.trim().split(/\s+/);
    const [ours, theirs] = [local.split(":")[1], remote.split(":")[1]];
    const [unsent, unread] = queues.split(":").map((part) => Number.parseInt(part, 16));
    if (ours === hex(from) && theirs === hex(to)) held += unsent ?? 0;
    if (ours === hex(to) && theirs === hex(from)) held += unread ?? 0;
  }
  return held;
}

test("2.3 Pipelining: while one is unanswered, at most 128 KiB of those behind it are read", async (t) => {
  await using house = await startTestGateway();
  house.backend.answer(() => undefined);
  const { key } = await house.issue({ plan: "business" });
  await using client = await openClient(house.port);
  const { socket } = client;
  const from = socket.localPort ?? 0;
  const piece = Buffer.concat(Array<Buffer>(16).fill(requestBytes({ key })));
  let left = 0;
  const more = () => {
    socket.write(piece, (error) => {
      if (error) return;
      left += piece.length;
      setImmediate(more);
    });
  };
  more();
  await eventually(() => house.backend.seen.length === 1);
  // The client writes until the buffers of the system are full, unless somebody goes on reading.
  let before = -1;
  const isStill = () => {
    const was = before;
    before = left;
    return left === was;
  };
  await eventually(isStill, { everyMs: 50 });
  const read = left - (await heldBytes(from, house.port));
  t.annotate(`${read} of ${left} bytes were read`);
  assert.ok(left > 4 * AHEAD_BYTES_MAX, `${left}`);
  // Reading stops behind the piece of 64 KiB that goes past the limit.
  assert.ok(read <= 2 * AHEAD_BYTES_MAX + 2 * piece.length, `${read} bytes`);
  assert.equal(house.backend.seen.length, 1);
});

test("2.3 Pipelining: 2,000 requests that are held back are all answered, in order", async () => {
  await using house = await startTestGateway({ config: { plans: { free: { day: 10_000 } } } });
  house.backend.answer((seen, response) => void response.end(seen.target));
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const count = 2_000;
  const path = (n: number) => `/v1/pets?n=${n}`;
  const requests = Array.from({ length: count }, (_, n) => requestBytes({ key, path: path(n) }));
  client.write(Buffer.concat(requests));
  const all = Array.from({ length: count }, (_, n) => path(n));
  const answered = () =>
    client
      .waiting()
      .toString()
      .match(/\/v1\/pets\?n=\d+/g) ?? [];
  await eventually(() => assert.equal(answered().length, count), { withinMs: 60_000, everyMs: 50 });
  assert.deepEqual(answered(), all);
  await house.law();
});
