import type { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { LIMITS, Server, settled, waiting } from "./client-bytes.ts";

const GET = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";

describe("time", () => {
  const { headersTimeoutMs, requestTimeoutMs, idleTimeoutMs, lingerMs, lingerIdleMs } = LIMITS;

  /** Ticks at 0, then a millisecond before the limit, then at the limit. */
  function overAt(server: Server, limitMs: number): [before: boolean, after: boolean] {
    const isOver = () => server.line.destroyed || server.line.writableEnded;
    server.connection.tick(0);
    server.connection.tick(limitMs - 1);
    const before = isOver();
    server.connection.tick(limitMs);
    return [before, isOver()];
  }

  it("ends a connection that brings no head", () => {
    const server = new Server();
    expect(overAt(server, headersTimeoutMs)).toEqual([false, true]);
    expect(server.refused).toEqual(["timeout"]);
  });

  it("runs from the beginning of a connection to the end of its first head", () => {
    const server = new Server();
    server.connection.tick(0);
    server.line.receive("G");
    server.connection.tick(headersTimeoutMs - 1);
    expect(server.refused).toEqual([]);
    server.connection.tick(headersTimeoutMs);
    expect(server.refused).toEqual(["timeout"]);
  });

  it("runs for a head from its first byte on, and not from each", () => {
    const server = new Server();
    server.line.receive(GET);
    server.connection.tick(0);
    server.connection.tick(5_000);
    server.line.receive("G");
    server.connection.tick(6_000);
    server.line.receive("E");
    server.connection.tick(6_000 + headersTimeoutMs - 1);
    expect(server.refused).toEqual([]);
    server.connection.tick(6_000 + headersTimeoutMs);
    expect(server.refused).toEqual(["timeout"]);
  });

  it("ends an idle connection without a word, empty lines or not", () => {
    const server = new Server();
    server.line.receive(GET);
    const { sent } = server.line;
    server.connection.tick(0);
    server.line.receive("\r\n");
    expect(overAt(server, idleTimeoutMs)).toEqual([false, true]);
    expect([server.refused, server.line.sent]).toEqual([[], sent]);
  });

  it("ends a request that is not whole, and none that waits for its answer", () => {
    const server = waiting(`${POST}he`);
    expect(overAt(server, requestTimeoutMs)).toEqual([false, true]);
    expect(server.seen[0]?.error).toBe("timeout");
    const whole = waiting(`${POST}hello`);
    expect(overAt(whole, 10 * requestTimeoutMs)).toEqual([false, false]);
  });

  it("breaks a request that is not whole once, also where its answer waits", () => {
    const server = waiting(`${POST}he`);
    let broken = 0;
    server.onRequestError = () => {
      broken += 1;
    };
    for (const nowMs of [0, 1, 2, 3]) server.connection.tick(nowMs * requestTimeoutMs);
    expect([broken, server.line.destroyed]).toEqual([1, false]);
  });

  it("lets go of the bytes that waited in a body that was not taken in time", () => {
    const server = new Server({ limits: { aheadBytesMax: 2 } });
    let broken = 0;
    server.onRequest = () => {};
    server.onRequestError = () => {
      broken += 1;
    };
    server.line.receive(`${POST}he`);
    expect([server.line.isPaused(), server.connection.bytesAhead]).toEqual([true, 2]);
    for (const nowMs of [0, requestTimeoutMs]) server.connection.tick(nowMs);
    expect([broken, server.line.isPaused(), server.connection.bytesAhead]).toEqual([1, false, 0]);
  });

  it("ends the wait behind the last answer", () => {
    const server = new Server();
    server.line.receive("x\r\n");
    expect(server.lingering).toBe(1);
    server.connection.tick(0);
    server.connection.tick(lingerIdleMs - 1);
    expect(server.line.destroyed).toBe(false);
    server.connection.tick(lingerIdleMs);
    expect(server.line.destroyed).toBe(true);
  });

  it("ends it later where bytes go on, and then however many they are", () => {
    const server = new Server();
    server.line.receive("x\r\n");
    server.connection.tick(0);
    for (let nowMs = 900; nowMs < lingerMs; nowMs += 900) {
      server.line.receive("x".repeat(1_000_000));
      server.connection.tick(nowMs);
      expect(server.line.destroyed).toBe(false);
    }
    server.line.receive("x");
    server.connection.tick(lingerMs);
    expect(server.line.destroyed).toBe(true);
  });

  it("means nothing to a connection that is closed", async () => {
    const server = new Server();
    server.line.destroy();
    await settled();
    for (const nowMs of [0, 1e9]) server.connection.tick(nowMs);
    expect(server.refused).toEqual([]);
  });
});

/** Gives its socket away with the next request, or if `late` when `take` is called: `taken` is what comes over it. */
function givenAway(server: Server, late: boolean) {
  const taken: string[] = [];
  const take = () => {
    const socket = server.connection.detachSocket();
    socket.on("data", (chunk: Buffer) => taken.push(chunk.toString()));
    socket.resume();
  };
  server.onRequest = (_request, writer) => {
    server.answers.push(writer);
    if (!late) take();
  };
  return { taken, take };
}

describe("an upgrade", () => {
  for (const late of [false, true]) {
    it(`gives the socket away with what was not read${late ? ", later too" : ""}`, async () => {
      const server = new Server();
      const { taken, take } = givenAway(server, late);
      server.line.receive(`${GET}frames`);
      if (late) take();
      await settled();
      server.line.push("more");
      await settled();
      expect(taken.join("")).toBe("framesmore");
      server.connection.tick(0);
      server.connection.tick(1e9);
      server.answer();
      expect([server.line.destroyed, server.line.writableEnded]).toEqual([false, false]);
    });
  }

  it("gives the socket away with all that came in several reads, in order", async () => {
    for (const late of [false, true]) {
      const server = waiting(GET);
      const { taken, take } = givenAway(server, late);
      server.line.receive(`${GET}fra`);
      server.answer();
      if (late) for (const piece of ["mes", "mo", "re"]) server.line.receive(piece);
      if (late) take();
      else server.line.push("mesmore");
      await settled();
      expect([taken.join(""), server.connection.bytesAhead]).toEqual(["framesmore", 0]);
    }
  });

  it("gives it away paused, also where it waited behind another request", () => {
    const server = waiting(`${GET}${GET}frames`);
    let socket: Socket | undefined;
    server.onRequest = () => {
      socket = server.connection.detachSocket();
    };
    server.answer();
    expect([socket?.isPaused(), server.connection.bytesAhead]).toEqual([true, 0]);
    expect(String(socket?.read())).toBe("frames");
  });

  it("gives it away where nothing waits", async () => {
    const server = waiting(GET);
    const socket = server.connection.detachSocket();
    expect(socket.isPaused()).toBe(true);
    server.line.push(null);
    socket.resume();
    await settled();
    expect(server.line.destroyed).toBe(false);
  });

  it("hears no more of the socket: that it drained, that it ended", async () => {
    const server = waiting(GET);
    let drained = 0;
    server.answers[0]!.listener = { onDrain: () => (drained += 1), onClose: () => {} };
    const socket = server.connection.detachSocket();
    socket.emit("drain");
    expect([drained, socket.listenerCount("data"), socket.listenerCount("end")]).toEqual([0, 0, 0]);
  });
});
