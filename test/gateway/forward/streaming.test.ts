import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, test } from "vitest";
import type { AccessLogEntry } from "../../../src/telemetry/log/access-log-entry.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, requestBytes } from "../../support/wire/client.ts";
import type { RawResponse } from "../../support/wire/response.ts";

const MIB = 1024 ** 2;
const house = await startTestGateway({
  environment: { limits: { bodyBytes: "64MiB" } },
});
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

function nth(index: number): AccessLogEntry {
  const entry = house.lines[index];
  assert.ok(entry, "the request line has not come");
  return entry;
}

test("each event of an event stream comes within 50 ms, unbuffered", async () => {
  let send = (_text: string) => {};
  house.backend.answer((_seen, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).flushHeaders();
    send = (text) => void (text === "" ? response.end() : response.write(text));
  });
  await using client = await openClient(house.port);
  client.write(requestBytes({ key }));
  await eventually(() => client.waiting().includes("text/event-stream"));
  const tookMs: number[] = [];
  for (let i = 0; i < 20; i++) {
    const startMs = performance.now();
    // The time in which the whole process stood still is the machine's.
    const { stalledMs } = await watchStalls(async () => {
      send(`data: ${i}\n\n`);
      await eventually(() => client.waiting().includes(`data: ${i}\n\n`), { everyMs: 1 });
    });
    tookMs.push(performance.now() - startMs - stalledMs);
  }
  tookMs.sort((a, b) => a - b);
  assert.ok((tookMs[17] as number) < 50, `${tookMs}`);
  send("");
  const [answer] = (await client.responses(["GET"])) as [RawResponse];
  assert.equal(answer.framing, "chunked");
});

test("a request body reaches the backend as it comes", async () => {
  const got: string[] = [];
  house.backend.answer(async (_seen, response, request, whole) => {
    request.on("data", (chunk: Buffer) => got.push(chunk.toString()));
    await whole;
    response.end("ok");
  });
  await using client = await openClient(house.port);
  const fields = `Authorization: Bearer ${key}\r\nContent-Length: 6\r\n`;
  client.write(`POST /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  for (const piece of ["ab", "cd", "ef"]) {
    client.write(piece);
    await eventually(() => got.at(-1) === piece);
  }
  assert.equal((await client.responses(["POST"]))[0]?.status, 200);
});

test("32 MiB each way arrive whole", async () => {
  const sent = Buffer.alloc(32 * MIB, "tollgate ");
  const digest = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  house.backend.answer(async (_seen, response, _request, whole) => {
    response.end(await whole);
  });
  const response = await house.ask(key, "/v1/pets", { method: "POST", body: sent });
  assert.equal(digest(new Uint8Array(await response.arrayBuffer())), digest(sent));
});

test("a client that goes away takes its request at the backend along", async () => {
  let gone = false;
  house.backend.answer((_seen, response) => {
    response.write("begun");
    response.once("close", () => {
      gone = true;
    });
  });
  const client = await openClient(house.port);
  const lines = house.lines.length;
  client.write(requestBytes({ key }));
  await eventually(() => client.waiting().includes("begun"));
  client.socket.destroy();
  await eventually(() => gone);
  const entry = await eventually(() => nth(lines));
  assert.deepEqual([entry.forwards, entry.charged, entry.decision], [1, 1, "admitted"]);
  assert.equal(entry.why, "the client went away");
});

test("a client that goes away before the answer counts as forwarded, too", async () => {
  let gone = false;
  house.backend.answer((_seen, response) => {
    response.once("close", () => {
      gone = true;
    });
  });
  const client = await openClient(house.port);
  const [lines, seen] = [house.lines.length, house.backend.seen.length];
  client.write(requestBytes({ key }));
  await eventually(() => house.backend.seen.length === seen + 1);
  client.socket.destroy();
  await eventually(() => gone);
  const entry = await eventually(() => nth(lines));
  assert.deepEqual([entry.status, entry.forwards, entry.charged], [499, 1, 1]);
  await house.law();
});

async function isUp(): Promise<boolean> {
  const text = await (await house.admin("/readyz")).text();
  return !text.includes(`down: production ${house.backend.origin}`);
}

test("a backend that failed is told as up once a stream of it has begun", async () => {
  house.backend.answer((_seen, response) => void response.destroy());
  for (let i = 0; i < 5; i++) assert.equal((await house.ask(key)).status, 502);
  assert.ok(!(await isUp()));
  house.backend.answer((_seen, response) => void response.write("begun"));
  await using client = await openClient(house.port);
  client.write(requestBytes({ key }));
  await eventually(() => client.waiting().includes("begun"));
  assert.ok(await isUp());
});

async function breakOff(times: number): Promise<void> {
  house.backend.answer((_seen, response) => {
    response.write("part", () => void response.destroy());
  });
  for (let i = 0; i < times; i++) {
    await assert.rejects(house.ask(key).then((answer) => answer.text()));
  }
}

/** A client gets the first part of a body that goes no further, and leaves in the middle of it. */
async function leaveStream(afterMs: number): Promise<void> {
  house.backend.answer((_seen, response) => void response.write("begun"));
  const lines = house.lines.length;
  await using client = await openClient(house.port);
  client.write(requestBytes({ key }));
  await eventually(() => client.waiting().includes("begun"));
  await delay(afterMs);
  client.socket.destroy();
  await eventually(() => nth(lines));
}

test("five bodies in a row that break off take a backend out, and a stream that its client left ends the row", async () => {
  await breakOff(4);
  await leaveStream(0);
  await breakOff(4);
  assert.ok(await isUp());
  await breakOff(1);
  assert.ok(!(await isUp()));
});

test("a client that leaves a body that brought nothing for a second speaks neither for its backend nor against it", async () => {
  await leaveStream(0);
  await breakOff(4);
  await leaveStream(1_050);
  assert.ok(await isUp());
  await breakOff(1);
  assert.ok(!(await isUp()));
});
