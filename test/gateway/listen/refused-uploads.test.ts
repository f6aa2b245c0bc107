import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openAuthority } from "../../support/wire/certificates.ts";

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

  it(`gets the 400 to 20 MiB of plain HTTP on a TLS port, ${UPLOADS} times of ${UPLOADS}`, async () => {
    using authority = openAuthority();
    const { cert, key } = authority.issue(["DNS:gw.test"]);
    await using house = await startTestGateway({
      environment: { tls: { cert: "./edge.pem", key: "./edge.key" } },
      files: { "edge.pem": cert, "edge.key": key },
    });
    const answers: string[] = [];
    for (let i = 0; i < UPLOADS; i++) answers.push(await upload(house.port, 20 * MEBIBYTE));
    assert.deepEqual(answers, Array<string>(UPLOADS).fill("HTTP/1.1 400"));
    await eventually(async () => assert.equal(await openConnections(house), 0));
  });
});

describe("A connection that is read on behind a refusal", () => {
  it("ends five seconds after the refusal though bytes go on", async () => {
    await using house = await startTestGateway();
    const startMs = performance.now();
    const steady = await opened(house.port, uploadHead(900 * MEBIBYTE));
    const drip = setInterval(() => steady.write("x"), 100);
    try {
      const { stalledMs } = await watchStalls(() => {
        return new Promise((resolve) => steady.resume().once("close", resolve));
      });
      const tookMs = performance.now() - startMs;
      const told = `${tookMs} ms, ${stalledMs} stalled`;
      assert.ok(tookMs >= 5_000 && tookMs < 8_000 + stalledMs, told);
    } finally {
      clearInterval(drip);
    }
  });

  /** Refuses as many uploads at once, until the first of them is closed; the places of those open. */
  async function openAfterFirst(house: TestGateway, uploads: number) {
    // The connections are there before, since none is read on for longer than five seconds.
    const sockets = await Promise.all(
      Array.from({ length: uploads }, () => opened(house.port, "")),
    );
    const startMs = performance.now();
    let drip: NodeJS.Timeout | undefined;
    try {
      const answers = sockets.map((socket) => once(socket, "data"));
      const closed = new Promise((resolve) => sockets[0]?.once("close", resolve));
      for (const socket of sockets) socket.write(uploadHead(5 * MEBIBYTE));
      drip = setInterval(() => sockets.map((socket) => socket.write("x")), 200);
      await Promise.all(answers);
      await closed;
      const places = [...sockets.keys()].filter((i) => sockets[i]?.destroyed === false);
      return { places, endedMs: performance.now() - startMs };
    } finally {
      clearInterval(drip);
      for (const socket of sockets) socket.destroy();
    }
  }

  type Opened = Awaited<ReturnType<typeof openAfterFirst>>;

  /** A busy machine may send no byte for a second, or answer the last after the first has ended. */
  async function roundWhere(isSo: (one: Opened) => boolean, once: () => Promise<Opened>) {
    let last = await once();
    for (let i = 1; !isSo(last) && i < 8; i++) last = await once();
    return last;
  }

  it("makes room for the next where there are 256 of them", async () => {
    await using house = await startTestGateway();
    const others = Array.from({ length: 256 }, (_, i) => i + 1);
    const isSo = ({ places, endedMs }: Opened) => {
      return endedMs < 5_000 && isDeepStrictEqual(places, others);
    };
    const { places, endedMs } = await roundWhere(isSo, () => openAfterFirst(house, 257));
    assert.ok(endedMs < 5_000, `the first ended after ${endedMs} ms`);
    assert.deepEqual(places, others);
    await eventually(async () => assert.equal(await openConnections(house), 0));
  });

  it("is read on for its five seconds where there are no more than 256", async () => {
    await using house = await startTestGateway();
    const isSo = ({ endedMs }: Opened) => endedMs >= 5_000;
    const { endedMs } = await roundWhere(isSo, () => openAfterFirst(house, 256));
    assert.ok(endedMs >= 5_000, `the first ended after ${endedMs} ms`);
  });
});
