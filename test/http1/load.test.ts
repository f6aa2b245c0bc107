import { createServer } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { BodyParser } from "../../src/http1/parse/body-parser.ts";
import { RequestHeadParser } from "../../src/http1/parse/request-head-parser.ts";
import { ServerConnection, type ServerHandler } from "../../src/http1/server/server-connection.ts";
import { each } from "../support/each.ts";
import { LIMITS, Server } from "./client-bytes.ts";
import { connectionTo, send, startBackend, Told } from "./scripted-backend.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function memory(): number {
  // Buffers are freed beside the program: the second call waits for what the first has found.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** `TOLLGATE_STREAM_MB=1024` for a whole gigabyte. */
const STREAM_BYTES = Number(process.env.TOLLGATE_STREAM_MB ?? 128) * 1_048_576;

describe("heads", () => {
  it("that grow byte by byte cost in proportion to their bytes", () => {
    const BYTES = 64_000;
    /** As many bytes of heads of this size. The CPU of this thread alone: others do not count. */
    const growMs = (size: number) => {
      const bytes = Buffer.from(`GET / HTTP/1.1\r\n${"A: b\r\n".repeat(size / 6)}\r\n`);
      const before = process.threadCpuUsage();
      for (let grown = 0; grown < BYTES; grown += size) {
        const one = new RequestHeadParser({ lineBytesMax: size, headBytesMax: 2 * size });
        for (let i = 0; i < bytes.length; i++) one.read(bytes, i, i + 1);
        expect(one.head?.rawHeaders).toHaveLength(2 * Math.floor(size / 6));
      }
      const { user, system } = process.threadCpuUsage(before);
      return (user + system) / 1_000;
    };
    let [shortMs, longMs] = [0, 0];
    // The clock of a thread may go in steps of milliseconds: only the sums are exact.
    for (let round = 0; round < 40; round++) {
      shortMs += growMs(BYTES / 8);
      longMs += growMs(BYTES);
    }
    // The same bytes take about as long, where a square would take eight times as long.
    expect(longMs / shortMs, `${longMs} ms, ${shortMs} in short heads`).toBeLessThan(2);
  });

  it("of 20,000 slow clients hold little more than their bytes", () => {
    const COUNT = 20_000;
    const text = `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${"b".repeat(200)}`;
    const bytes = Buffer.from(text);
    const before = memory();
    const readers = Array.from({ length: COUNT }, () => new RequestHeadParser(LIMITS));
    for (const one of readers) {
      for (let i = 0; i < bytes.length; i++) one.read(bytes, i, i + 1);
    }
    const bytesEach = (memory() - before) / COUNT;
    expect(each(readers).every(({ begun, error }) => begun && error === undefined)).toBe(true);
    expect(bytesEach).toBeLessThan(2_000);
  });

  it("of 20,000 slow clients all end in time, in few milliseconds a tick", () => {
    const servers = Array.from({ length: 20_000 }, () => new Server());
    for (const { line } of servers) line.receive("GET / HT");
    // The CPU of this thread alone: how busy the machine is otherwise does not count.
    const before = process.threadCpuUsage();
    for (let tick = 0; tick < 10; tick++) {
      for (const { connection } of servers) connection.tick(tick * 1_000);
    }
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1_000 / 10).toBeLessThan(30);
    expect(each(servers).every(({ refused }) => refused.length === 0)).toBe(true);
    for (const { connection } of servers) connection.tick(LIMITS.headersTimeoutMs);
    expect(each(servers).every(({ refused }) => refused[0] === "timeout")).toBe(true);
  });
});

describe("one-byte chunks", () => {
  it("cost little: a megabyte of them a fraction of a second of CPU", () => {
    const reader = new BodyParser();
    const bytes = Buffer.from("1\r\nx\r\n".repeat(1_048_576));
    reader.startChunked({ trailerBytesMax: 0, trailerCountMax: 0 });
    const { user } = process.cpuUsage();
    let data = 0;
    for (let at = 0; at < bytes.length; at += 65_536) {
      const piece = bytes.subarray(at, at + 65_536);
      reader.read(piece, 0, piece.length);
      data += reader.dataTo - reader.dataFrom;
    }
    expect(data).toBe(1_048_576);
    expect(process.cpuUsage().user - user).toBeLessThan(500_000);
  });
});

/** The most that is held while the bytes pass. */
async function peakOf(pass: () => Promise<unknown>): Promise<number> {
  const before = memory();
  let peak = 0;
  const timer = setInterval(() => {
    peak = Math.max(peak, memory() - before);
  }, 100);
  await pass();
  clearInterval(timer);
  return peak;
}

describe("a body far larger than what may be held", () => {
  it("comes from a backend, at the pace of who takes it, without being held", async () => {
    await using backend = await startBackend((socket) => {
      const piece = Buffer.alloc(262_144);
      let left = STREAM_BYTES;
      const go = () => {
        while (left > 0) {
          left -= piece.length;
          if (!socket.write(piece)) return;
        }
      };
      socket.on("drain", go);
      socket.once("data", () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${STREAM_BYTES}\r\n\r\n`);
        go();
      });
    });
    const connection = connectionTo(backend.port);
    const told = new Told();
    told.onEvent = (event, one) => {
      if (event !== "data" || told.pieces % 64 !== 0) return;
      one.pause();
      setImmediate(() => one.resume());
    };
    const peak = await peakOf(() => send(connection, {}, told));
    expect(told.bytes).toBe(STREAM_BYTES);
    expect(peak).toBeLessThan(20 * 1_048_576);
    connection.close();
  });

  it("goes to a server that takes it slowly, without being held", async () => {
    let bytes = 0;
    const handler: ServerHandler = {
      limits: LIMITS,
      elapsed: () => performance.now(),
      onRequest: (request, writer) => {
        let pieces = 0;
        request.read({
          onBodyData: (piece) => {
            bytes += piece.length;
            pieces += 1;
            if (pieces % 16 !== 0) return;
            request.pause();
            setImmediate(() => request.resume());
          },
          onBodyEnd: () => {
            writer.writeHead(200, ["Content-Length", "0"]);
            writer.end();
          },
        });
      },
      errorResponse: () => "",
      onRequestError: () => expect.unreachable(),
      onLinger: () => expect.unreachable(),
    };
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      new ServerConnection(socket, handler);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    const connection = connectionTo(port);
    const piece = Buffer.alloc(262_144);
    let left = STREAM_BYTES;
    const told = new Told();
    told.onEvent = (event, one) => {
      if (event !== "start" && event !== "drain") return;
      while (left > 0) {
        left -= piece.length;
        if (!one.write(piece)) return;
      }
      one.end();
    };
    const request = { method: "PUT", body: "chunked" } as const;
    const peak = await peakOf(() => send(connection, request, told));
    expect([bytes, told.head?.status]).toEqual([STREAM_BYTES, 200]);
    expect(peak).toBeLessThan(20 * 1_048_576);
    connection.close();
    server.close();
  });
});
