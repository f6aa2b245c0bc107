import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { connect, createServer, type Server, type Socket } from "node:net";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";

const BODY_BYTES = 8 * 1024 * 1024;
const UPLOADS = 40;
const LIMIT = 1_000_000;
const KEYS = {
  [KEY]: {
    limits: [
      { window: "minute", limit: LIMIT },
      { window: "day", limit: LIMIT },
    ],
  },
} as const;

type Early = { readonly origin: string; readonly seen: string[]; close(): Promise<void> };

/** A backend that answers as soon as so many bytes have come, and then leaves in its own way. */
async function openEarly(
  afterBytes: number,
  answer: string,
  leave: (socket: Socket) => void,
): Promise<Early> {
  const seen: string[] = [];
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    let bytes = 0;
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      const before = bytes;
      bytes += chunk.length;
      if (before === 0) seen.push(chunk.toString("latin1").split("\r\n")[0] ?? "");
      if (before > afterBytes || bytes <= afterBytes) return;
      socket.pause();
      socket.write(answer, "latin1", () => leave(socket));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { origin, seen, close };
}

/** Uploads, and reads while it does; gives the status line and the body of what came. */
function upload(house: TestGateway, chunked: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: house.port, host: "127.0.0.1" });
    const framing = chunked ? "Transfer-Encoding: chunked" : `Content-Length: ${BODY_BYTES}`;
    const head = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n${framing}\r\n\r\n`;
    const piece = Buffer.alloc(65_536, "x");
    let left = BODY_BYTES;
    let text = "";
    const send = () => {
      while (left > 0 && socket.writable) {
        left -= piece.length;
        const bytes = chunked ? Buffer.concat([Buffer.from("10000\r\n"), piece, CRLF]) : piece;
        if (!socket.write(bytes)) return;
      }
      if (chunked && left === 0) socket.write("0\r\n\r\n");
      left = -1;
    };
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
    });
    socket.on("error", () => {});
    socket.on("drain", send);
    socket.once("close", () => resolve(text));
    socket.setTimeout(20_000, () => reject(new Error("no end")));
    socket.write(head, send);
  });
}

const CRLF = Buffer.from("\r\n");
const REFUSED = "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge";
const SILENT = "HTTP/1.1 401 No\r\nContent-Length: 5\r\n\r\nlarge";

describe("a backend that answers while the upload goes on", () => {
  for (const [name, answer, afterBytes, leave] of [
    ["and closes at once", REFUSED, 0, (socket: Socket) => socket.destroy()],
    ["and closes in the middle", REFUSED, 1_000_000, (socket: Socket) => socket.destroy()],
    ["and closes without saying so", SILENT, 100_000, (socket: Socket) => socket.destroy()],
    ["and half-closes", REFUSED, 100_000, (socket: Socket) => void socket.end()],
  ] as const) {
    for (const chunked of [false, true]) {
      it(`${name} has answered: ${UPLOADS} of ${UPLOADS} ${chunked ? "chunked " : ""}uploads`, async () => {
        const backend = await openEarly(afterBytes, answer, leave);
        await using house = await startTestGateway({
          upstream: backend,
          environment: { limits: { bodyBytes: "16MiB" } },
          keys: KEYS,
        });
        const texts: string[] = [];
        for (let i = 0; i < UPLOADS / 4; i++) {
          const four = Array.from({ length: 4 }, () => upload(house, chunked));
          texts.push(...(await Promise.all(four)));
        }
        const status = answer.slice(0, 12);
        const others = texts.filter((text) => !text.startsWith(status) || !text.endsWith("large"));
        assert.deepEqual(others, []);
        await eventually(() => assert.equal(house.lines.length, UPLOADS));
        for (const entry of house.lines) assert.equal(entry.source, "backend");
        assert.equal((await house.admin("/readyz")).status, 200);
        await house.law();
      });
    }
  }
});
