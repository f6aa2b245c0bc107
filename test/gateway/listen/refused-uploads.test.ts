import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";

const MEBIBYTE = 1024 ** 2;
const UPLOADS = 10;

async function opened(port: number, head: string): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.write(head);
  return socket;
}

function uploadHead(bytes: number, more = ""): string {
  return `POST /v1/pets HTTP/1.1\r\nHost: gw.test\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n${more}\r\n`;
}

/** Sends the whole body before it reads, as many clients do, and gives the status that it finds. */
async function upload(port: number, bytes: number, more = ""): Promise<string> {
  const socket = await opened(port, uploadHead(bytes, more));
  const pieces = Array.from({ length: bytes / MEBIBYTE }, () => Buffer.alloc(MEBIBYTE, "x"));
  for (const piece of pieces) {
    const failed = await new Promise((resolve) => socket.write(piece, resolve));
    if (failed) return `broken pipe: ${(failed as NodeJS.ErrnoException).code}`;
  }
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  socket.destroy();
  return text.slice(0, "HTTP/1.1 413".length);
}

async function openConnections(house: TestGateway): Promise<number> {
  const text = await (await house.admin("/metrics")).text();
  return Number(/^tollgate_connections_open (\d+)$/m.exec(text)?.[1]);
}

describe("A client that sends all of a body before it reads", () => {
  for (const size of [2, 5, 20]) {
    it(`gets the 413 to ${size} MiB, ${UPLOADS} times of ${UPLOADS}`, async () => {
      await using house = await startTestGateway();
      const { key } = await house.issue();
      const answers: string[] = [];
      for (let i = 0; i < UPLOADS; i++) {
        const authorization = `Authorization: Bearer ${key}\r\n`;
        answers.push(await upload(house.port, size * MEBIBYTE, authorization));
      }
      assert.deepEqual(answers, Array<string>(UPLOADS).fill("HTTP/1.1 413"));
      await house.law();
    });
  }

  it("gets the 401 to 20 MiB without a key as well", async () => {
    await using house = await startTestGateway({ environment: { limits: { bodyBytes: "64MiB" } } });
    assert.equal(await upload(house.port, 20 * MEBIBYTE), "HTTP/1.1 401");
    await house.law();
  });
});

describe("A connection that is read on behind a refusal", () => {
  it("ends five seconds after the refusal though bytes go on", async () => {
    await using house = await startTestGateway();
    const startMs = performance.now();
    const steady = await opened(house.port, uploadHead(900 * MEBIBYTE));
    const drip = setInterval(() => steady.write("x"), 100);
    try {
      await new Promise((resolve) => steady.resume().once("close", resolve));
    } finally {
      clearInterval(drip);
    }
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs >= 5_000 && tookMs < 8_000, `${tookMs} ms`);
  });

  it("makes room for the next where there are 256 of them", async () => {
    await using house = await startTestGateway();
    const sockets: Socket[] = [];
    const drip = setInterval(() => sockets.map((socket) => socket.write("x")), 200);
    try {
      const add = async () => {
        sockets.push((await opened(house.port, uploadHead(5 * MEBIBYTE))).resume());
      };
      await add();
      // All at once, since none of them is read on for longer than five seconds.
      await Promise.all(Array.from({ length: 298 }, add));
      await add();
      await eventually(async () => {
        const open = await openConnections(house);
        assert.ok(open <= 256 && open > 200, `${open}`);
      });
      const [first, last] = [sockets[0], sockets.at(-1)];
      await eventually(() => assert.ok(first?.destroyed));
      assert.equal(last?.destroyed, false);
    } finally {
      clearInterval(drip);
      for (const socket of sockets) socket.destroy();
    }
  });
});
