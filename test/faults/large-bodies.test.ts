import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, openClient, requestBytes, sendRequest } from "../support/wire/client.ts";
import { sendRaw } from "../support/wire/raw.ts";
import { onlyValue, parseResponses, type RawResponse, valuesOf } from "../support/wire/response.ts";

const MAX = 1_048_576;
const KEPT = 65_536;
const REJECTS = 1_000;

const house = await startTestGateway({ config: { unauthenticated: { minute: 1_000_000 } } });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

function chunked(sizes: readonly number[]): string {
  const chunks = sizes.map((size) => `${size.toString(16)}\r\n${"x".repeat(size)}\r\n`).join("");
  return (
    `POST /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n` +
    `Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`
  );
}

async function sentRaw(bytes: string | Uint8Array): Promise<RawResponse> {
  const { bytes: got } = await sendRaw(house.port, bytes, { methods: ["POST"] });
  const { responses } = parseResponses(got, { methods: ["POST"] });
  assert.equal(responses.length, 1, got.toString());
  return responses[0] as RawResponse;
}

test("2.3 Body too large: exactly 1 MiB passes, one byte more is 413 before any of it is sent, and uncharged", async () => {
  const whole = await sendRequest(house.port, { key, method: "POST", body: "x".repeat(MAX) });
  assert.equal(whole.status, 200);
  assert.equal(house.backend.seen.at(-1)?.body.length, MAX);
  const seen = house.backend.seen.length;
  await using client = await openClient(house.port);
  const fields = [["Content-Length", String(MAX + 1)]] as const;
  client.write(requestBytes({ key, method: "POST", fields }));
  const [over] = (await client.responses(["POST"])) as [RawResponse];
  assert.deepEqual([over.status, errorOf(over).code], [413, "body_too_large"]);
  assert.equal(house.backend.seen.length, seen);
  await eventually(() => house.lines.at(-1)?.status === 413);
  assert.equal(house.lines.at(-1)?.charged, 0);
});

test("2.3 Body too large: chunked, in one chunk or many, it is 413 at 1 MiB + 1 byte, charged, and the backend is let go", async () => {
  for (const sizes of [[MAX], [1, MAX - 1], Array<number>(64).fill(MAX / 64)]) {
    assert.equal((await sentRaw(chunked(sizes))).status, 200);
    assert.equal(house.backend.seen.at(-1)?.body.length, MAX);
  }
  for (const sizes of [[MAX + 1], [1, MAX], [MAX, 1]]) {
    const from = house.lines.length;
    const answer = await sentRaw(chunked(sizes));
    assert.deepEqual([answer.status, errorOf(answer).code], [413, "body_too_large"]);
    assert.equal(onlyValue(answer, "Connection"), "close");
    await eventually(() => house.lines[from]?.status === 413);
    assert.equal(house.lines[from]?.charged, 1, "it stays charged");
    assert.equal(house.backend.seen.at(-1)?.complete, false);
  }
});

test("2.3 Early reject with a body: at most 64 KiB by Content-Length is read, and the connection kept", async () => {
  await using client = await openClient(house.port);
  const refused = await client.ask({ method: "POST", body: Buffer.alloc(KEPT) });
  assert.equal(refused.status, 401);
  assert.ok(!valuesOf(refused, "Connection").includes("close"));
  assert.equal((await client.ask()).status, 401, "the next request on it is answered");
});

test("2.3 Early reject with a body: over 64 KiB, or chunked, it carries Connection: close and ends", async () => {
  const long = Buffer.alloc(KEPT + 1);
  await using client = await openClient(house.port);
  const refused = await client.ask({ method: "POST", body: long });
  assert.deepEqual([refused.status, onlyValue(refused, "Connection")], [401, "close"]);
  assert.equal(await client.ended, "closed");
  await using other = await openClient(house.port);
  other.write("POST /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const [answer] = (await other.responses(["POST"])) as [RawResponse];
  assert.deepEqual([answer.status, onlyValue(answer, "Connection")], [401, "close"]);
  assert.equal(await other.ended, "closed");
});

test(`2.3 Early reject with a body: clients that write all before they read can read the answer, in 99 % of ${REJECTS}`, async (t) => {
  const bytes = requestBytes({ method: "POST", body: Buffer.alloc(900_000) });
  let [left, read] = [REJECTS, 0];
  const work = async () => {
    while (left-- > 0) {
      await using client = await openClient(house.port);
      client.socket.pause();
      await new Promise((resolve) => client.socket.write(bytes, resolve));
      client.socket.resume();
      const answer = await client.responses(["POST"], 10_000).catch(() => []);
      if (answer[0]?.status === 401) read += 1;
    }
  };
  await Promise.all([work(), work()]);
  t.annotate(`${read} of ${REJECTS} answers were read`);
  assert.ok(read >= 0.99 * REJECTS, `${read} of ${REJECTS}`);
});

test("2.3 Early reject with a body: one without an end is cut off after 5 s, and one that stalls after 1 s", async (t) => {
  await using client = await openClient(house.port);
  client.write("POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 99000000000\r\n\r\n");
  const beganMs = performance.now();
  const piece = Buffer.alloc(65_536);
  let taken = 0;
  client.socket.on("error", () => undefined);
  const more = () => {
    if (client.socket.destroyed || client.socket.errored !== null) return;
    client.socket.write(piece, (error) => {
      if (error) return;
      taken += piece.length;
      more();
    });
  };
  more();
  await client.ended;
  await eventually(() => client.socket.destroyed || client.socket.errored !== null);
  const tookMs = performance.now() - beganMs;
  t.annotate(`${(taken / 1e6).toFixed(1)} MB left the client in ${Math.round(tookMs)} ms`);
  assert.ok(tookMs >= 5_000 && tookMs < 8_000, `${tookMs} ms`);

  const startMs = performance.now();

  await using other = await openClient(house.port);
  other.write("POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n");
  const [answer] = (await other.responses(["POST"])) as [RawResponse];
  assert.equal(answer.status, 401);
  await other.ended;
  await eventually(async () => {
    other.write("x");
    await sleep(50);
    return other.socket.destroyed || other.socket.errored !== null;
  });
  assert.ok(performance.now() - startMs < 8_000);
});

test("the law holds after all of it", () => house.law({ connectionsFailed: true }));
