import { describe, expect, it } from "vitest";
import type { IncomingRequest } from "../../src/http1/server/incoming-request.ts";
import { LIMITS, Server, waiting } from "./client-bytes.ts";

const POST = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
const CHUNKED = "POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const { requestTimeoutMs } = LIMITS;

/** Whether it was too late a millisecond before the time, and at it. */
function lateAt(server: Server, nowMs: number): readonly boolean[] {
  return [nowMs - 1, nowMs].map((atMs) => {
    server.connection.tick(atMs);
    return server.seen.at(-1)?.error === "timeout";
  });
}

describe("the time of a request", () => {
  it("begins with the first byte of its head", () => {
    const server = waiting(POST.slice(0, 9));
    server.connection.tick(1_000);
    server.line.receive(POST.slice(9));
    server.connection.tick(6_000);
    expect(lateAt(server, 1_000 + requestTimeoutMs)).toEqual([false, true]);
  });

  it("does not begin with the connection, nor with the request before", () => {
    const server = new Server();
    server.connection.tick(0);
    server.line.receive(`${POST}hello`);
    server.connection.tick(9_000);
    server.line.receive(POST.slice(0, 9));
    server.connection.tick(18_000);
    server.line.receive(POST.slice(9));
    expect(lateAt(server, 18_000 + requestTimeoutMs)).toEqual([false, true]);
  });

  it("stands still while its body is held, and goes on when it is read", () => {
    const server = new Server({ answersAtOnce: false });
    const { onRequest } = server;
    let held: IncomingRequest | undefined;
    server.onRequest = (request, writer) => {
      onRequest.call(server, request, writer);
      request.hold();
      held = request;
    };
    server.line.receive(`${POST}he`);
    for (const nowMs of [0, 5_000, 100_000]) server.connection.tick(nowMs);
    expect([server.seen[0]?.error, server.seen[0]?.body]).toEqual([undefined, ""]);
    held?.read({ onBodyData: () => {}, onBodyEnd: () => {} });
    expect(lateAt(server, 100_000 + requestTimeoutMs)).toEqual([false, true]);
  });

  it("is that of the request if it has limits of its own, and of it alone", () => {
    const server = new Server();
    const { onRequest } = server;
    server.onRequest = (request, writer) => {
      if (server.seen.length === 0) request.limits = { ...LIMITS, requestTimeoutMs: 2_000 };
      onRequest.call(server, request, writer);
    };
    server.line.receive(POST);
    server.connection.tick(0);
    server.connection.tick(1_999);
    server.line.receive(`hello${POST}`);
    server.connection.tick(3_000);
    expect(lateAt(server, 3_000 + requestTimeoutMs)).toEqual([false, true]);
    const short = new Server();
    short.onRequest = (request, writer) => {
      request.limits = { ...LIMITS, requestTimeoutMs: 2_000 };
      onRequest.call(short, request, writer);
    };
    short.line.receive(POST);
    short.connection.tick(0);
    expect(lateAt(short, 2_000)).toEqual([false, true]);
  });
});

describe("trailers", () => {
  it("are measured by the limits of the request if it has its own", () => {
    for (const [own, refused] of [
      [2, undefined],
      [1, "trailer_overflow"],
    ] as const) {
      const server = new Server();
      const { onRequest } = server;
      server.onRequest = (request, writer) => {
        request.limits = { ...LIMITS, fieldCountMax: 2 + own };
        onRequest.call(server, request, writer);
      };
      server.line.receive(`${CHUNKED}0\r\nA: 1\r\nB: 2\r\n\r\n`);
      expect(server.seen[0]?.error).toBe(refused);
    }
  });
});

describe("limits that are replaced", () => {
  it("hold for the next head of a connection that is open, and not for one that has begun", () => {
    const long = `GET /${"a".repeat(200)} HTTP/1.1\r\nHost: a\r\n\r\n`;
    const server = new Server();
    server.line.receive(long.slice(0, 100));
    server.limits = { ...LIMITS, lineBytesMax: 50 };
    server.line.receive(long.slice(100));
    expect([server.seen.length, server.refused]).toEqual([1, []]);
    server.line.receive(long);
    expect([server.seen.length, server.refused]).toEqual([1, ["line_overflow"]]);
  });
});
