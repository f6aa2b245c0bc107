import assert from "node:assert/strict";
import { once } from "node:events";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { type Client, openClient } from "../../support/wire/client.ts";

const CLIENTS = 24;
const REQUESTS = 6;
const LINE_BYTES = 16;
/** Around what one read brings and what a socket takes at once, and some between. */
const SIZES = [1, 32_767, 65_367, 65_535, 65_536, 65_537, 81_919, 81_920, 81_921, 131_072, 300_001];

/** Bytes that say in each line whose they are, of which request, and where they stand. */
function patternOf(client: number, request: number, bytes: number): Buffer {
  const whose = `${String.fromCharCode(65 + client)}${request}`;
  const lines = Array.from({ length: Math.ceil(bytes / LINE_BYTES) }, (_, i) => {
    return `${whose}${String(i).padStart(LINE_BYTES - 3, "0")}\n`;
  });
  return Buffer.from(lines.join("")).subarray(0, bytes);
}

const dice = (max: number) => Math.floor(Math.random() * max);
const isTrue = () => Math.random() < 0.5;

/** One chunk for each piece, or the bytes as they are. */
function framed(body: Buffer, isChunked: boolean): Buffer {
  if (!isChunked) return body;
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; ) {
    const piece = body.subarray(at, at + 1 + dice(90_000));
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n"));
    at += piece.length;
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** Writes the bytes up to `to`, cut at random, with turns of the event loop in between. */
async function writeCut(client: Client, bytes: Buffer, to = bytes.length): Promise<void> {
  for (let at = 0; at < to; ) {
    const end = Math.min(to, at + 1 + dice(isTrue() ? 100_000 : 2_000));
    client.write(bytes.subarray(at, end));
    at = end;
    for (let turns = dice(3); turns > 0; turns--) await turn();
  }
}

/** A request with this body in chunks or with its length, for an answer in chunks or with its length. */
function requestOf(key: string, body: Buffer): Buffer {
  const isChunked = isTrue();
  const framing = isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${body.length}`;
  const path = `/v1/pets?${isTrue() ? "chunked" : "length"}`;
  const head = `POST ${path} HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n${framing}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), framed(body, isChunked)]);
}

test("bodies of any size, cut anywhere, come back byte for byte, to slow readers and beside clients that leave", async () => {
  await using house = await startTestGateway({
    environment: { limits: { bodyBytes: "1MiB" } },
  });
  house.backend.answer(async (seen, response, _request, whole) => {
    const body = await whole;
    if (seen.target.endsWith("chunked")) response.writeHead(200);
    else response.writeHead(200, { "Content-Length": body.length });
    for (let at = 0; at < body.length && !response.destroyed; ) {
      const piece = body.subarray(at, at + 1 + dice(150_000));
      at += piece.length;
      if (!response.write(piece))
        await Promise.race([once(response, "drain"), once(response, "close")]);
      if (isTrue()) await turn();
    }
    response.end();
  });
  const { key } = await house.issue({ plan: "business" });
  let echoed = 0;
  let left = 0;
  const runClient = async (index: number) => {
    let client = await openClient(house.port);
    for (let i = 0; i < REQUESTS; i++) {
      const body = patternOf(index, i, SIZES[dice(SIZES.length)] as number);
      const request = requestOf(key, body);
      const leaves = index % 4 === 3 && i % 2 === 1;
      if (leaves) {
        // In the middle of its request, or of its answer.
        await writeCut(client, request, isTrue() ? 1 + dice(request.length) : request.length);
        client.socket.destroy();
        client = await openClient(house.port);
        left += 1;
        continue;
      }
      const isSlow = index % 4 === 2;
      if (isSlow) client.socket.pause();
      await writeCut(client, request);
      if (isSlow) {
        for (let turns = dice(40); turns > 0; turns--) await turn();
        client.socket.resume();
      }
      const [answer] = await client.responses(["POST"]);
      assert.equal(answer?.status, 200);
      assert.ok(
        answer.body.equals(body),
        `client ${index}, request ${i}: ${firstOther(answer.body, body)}`,
      );
      echoed += 1;
    }
    client.socket.destroy();
  };
  await Promise.all(each(Array.from({ length: CLIENTS }, (_, index) => runClient(index))));
  assert.deepEqual([echoed + left, left], [CLIENTS * REQUESTS, (CLIENTS / 4) * (REQUESTS / 2)]);
  await eventually(() => assert.ok(house.lines.length >= echoed));
  await house.law({ connectionsFailed: true });
});

/** Where bytes are not those that were sent. */
function firstOther(bytes: Buffer, sent: Buffer): string {
  const at = bytes.findIndex((byte, i) => byte !== sent[i]);
  return `${bytes.length} of ${sent.length} bytes, other at ${at}: ${bytes.toString("latin1", at, at + LINE_BYTES)}`;
}
