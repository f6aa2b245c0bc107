import { Socket } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { each } from "../support/each.ts";
import {
  answering,
  connectionTo,
  get,
  OK,
  saying,
  send,
  startBackend,
  Told,
  until,
} from "./scripted-backend.ts";

const WHOLE = ["start", "sending", "sent", "head 200", "data", "end"];

describe("a connection to a backend", () => {
  it("tells a request and its response in order", async () => {
    const told = await get(saying(OK));
    expect(told.events).toEqual(WHOLE);
    expect(told.body).toBe("ok");
    expect(told.head?.rawHeaders).toEqual(["Content-Length", "2"]);
  });

  it("tells the first bytes of a response once, and where a read did not bring all of it", async () => {
    const told = new Told();
    await using backend = await startBackend((socket) => {
      socket.once("data", () => socket.write(OK.slice(0, -1)));
      told.onEvent = (event) => event === "data" && told.pieces === 1 && socket.write("k");
    });
    const connection = connectionTo(backend.port);
    await send(connection, {}, told);
    expect(told.events).toEqual([...WHOLE.slice(0, -1), "read end", "data", "end"]);
    connection.close();
  });

  it("writes Host first, then the fields, and the framing of no body, none, and a chunked one", async () => {
    const requests: string[] = [];
    await using backend = await startBackend((socket) => {
      socket.on("data", (chunk: Buffer) => {
        requests.push(chunk.toString("latin1"));
        socket.write(OK);
      });
    });
    const connection = connectionTo(backend.port);
    await send(connection);
    await send(connection, { method: "POST", body: 0 });
    connection.close();
    expect(requests).toEqual([
      "GET / HTTP/1.1\r\nHost: backend.test\r\nX-A: b\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: backend.test\r\nX-A: b\r\nContent-Length: 0\r\n\r\n",
    ]);
  });

  it.each([
    ["a name", { fields: ["X A", "b"] }],
    ["an empty name", { fields: ["", "b"] }],
    ["a line end in a value", { fields: ["X-A", "b\r\nX-Evil: c"] }],
    ["a letter whose low byte is a line end", { fields: ["X-A", "\u010a"] }],
    ["a space in the target", { target: "/a HTTP/1.1" }],
    ["an empty Host", { host: "" }],
  ])("refuses %s that would not be sent as what it is, and sends nothing", (_what, request) => {
    const connection = connectionTo(1);
    expect(() => send(connection, request)).toThrow(/cannot be sent/);
    expect(connection.open).toBe(false);
  });

  it("is used again, and says so", async () => {
    await using backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    expect((await send(connection)).reused).toBe(false);
    expect((await send(connection)).reused).toBe(true);
    connection.renew();
    expect((await send(connection)).reused).toBe(false);
    connection.close();
    expect(backend.sockets).toHaveLength(2);
    await until(() => each(backend.sockets).every((socket) => socket.destroyed));
    expect(backend.sockets.map(({ destroyed }) => destroyed)).toEqual([true, true]);
  });

  it("has its time to connect for connecting alone", async () => {
    await using backend = await startBackend(answering(OK));
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const connection = connectionTo(backend.port);
      const told = new Told();
      connection.send({ method: "GET", target: "/", host: "a", fields: [], body: undefined }, told);
      expect(vi.getTimerCount()).toBe(1);
      connection.abort();
      expect(vi.getTimerCount()).toBe(0);
      expect((await send(connection)).body).toBe("ok");
      expect([vi.getTimerCount(), connection.open]).toEqual([0, true]);
      connection.close();
    } finally {
      vi.useRealTimers();
    }
  });

  it.each([
    ["Connection: close", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok"],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"],
    ["bytes behind the end", `${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`],
    ["a body on 204", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"],
  ])("is not used again after %s", async (_what, answer) => {
    await using backend = await startBackend(answering(answer, OK));
    const connection = connectionTo(backend.port);
    expect((await send(connection)).events.at(-1)).toBe("end");
    expect(connection.open).toBe(false);
    const next = await send(connection);
    expect([next.reused, next.body]).toEqual([false, "ok"]);
    connection.close();
  });

  it("is not used again after bytes that nobody asked for", async () => {
    await using backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    await send(connection);
    backend.sockets[0]?.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    await until(() => !connection.open);
    const next = await send(connection);
    expect([next.reused, next.body]).toEqual([false, "ok"]);
    connection.close();
  });

  it("sees that an idle one was ended, also where the response was paused", async () => {
    await using backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    const told = new Told();
    told.onEvent = (event, one) => event.startsWith("head") && one.pause();
    await send(connection, {}, told);
    backend.sockets[0]?.end();
    await until(() => !connection.open);
    expect(connection.open).toBe(false);
  });

  it.each([
    [
      "its idle time, whatever else the backend says",
      OK.replace("\r\n\r\n", "\r\nKeep-Alive: max=3\r\n\r\n"),
      3_999,
      4_000,
    ],
    ["its idle time", OK, 3_999, 4_000],
    [
      "its idle time, though the backend says more",
      OK.replace("\r\n\r\n", "\r\nKeep-Alive: timeout=60\r\n\r\n"),
      3_999,
      4_000,
    ],
    [
      "what the backend says, less a second",
      OK.replace("\r\n\r\n", "\r\nKeep-Alive: max=3, timeout=3\r\n\r\n"),
      1_999,
      2_000,
    ],
  ])("is used again up to %s", async (_what, answer, usedMs, lateMs) => {
    await using backend = await startBackend(answering(answer));
    let nowMs = 0;
    const connection = connectionTo(backend.port, { elapsed: () => nowMs });
    await send(connection);
    nowMs += usedMs;
    expect((await send(connection)).reused).toBe(true);
    nowMs += lateMs;
    expect((await send(connection)).reused).toBe(false);
    connection.close();
  });

  it("ends behind the response under way when it is closed, and at once when it is idle", async () => {
    await using backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    const told = new Told();
    told.onEvent = (event, one) => event === "sent" && one.close();
    await send(connection, {}, told);
    expect([told.body, connection.open]).toEqual(["ok", false]);
    const idle = connectionTo(backend.port);
    await send(idle);
    idle.close();
    expect(idle.open).toBe(false);
  });

  it.each(["later", "at once"])(
    "tells nothing more of a request that was aborted, at any event, and takes the next %s",
    async (when) => {
      for (const event of WHOLE.slice(0, -1)) {
        await using backend = await startBackend(answering(OK));
        const connection = connectionTo(backend.port);
        const told = new Told();
        let next: Promise<Told> | undefined;
        told.onEvent = (now, one) => {
          if (now !== event) return;
          one.abort();
          if (when === "at once") next = send(one);
        };
        void send(connection, {}, told);
        await until(() => told.events.includes(event));
        expect((await (next ?? send(connection))).events).toEqual(WHOLE);
        expect(told.events).toEqual(WHOLE.slice(0, WHOLE.indexOf(event) + 1));
        connection.close();
      }
    },
  );

  it("reads a body of 64 KiB in one piece with its head", async () => {
    const head = `HTTP/1.1 200 OK\r\nX-A: ${"a".repeat(8_000)}\r\nContent-Length: 65536\r\n\r\n`;
    const body = "0123456789abcdef".repeat(4_096);
    const told = await get(saying(head + body));
    expect([told.pieces, told.body === body]).toEqual([1, true]);
  });

  it("takes no notice of a caller who goes on where there is none", () => {
    const connection = connectionTo(1);
    connection.pause();
    connection.resume();
    expect(connection.write(Buffer.from("x"))).toBe(true);
    expect(connection.writeTogether([Buffer.from("x"), Buffer.from("y")])).toBe(true);
    connection.end();
    for (const end of ["abort", "renew", "close"] as const) connection[end]();
    expect([connection.open, connection.reused]).toEqual([false, false]);
  });

  it("can be aborted before it is there", async () => {
    await using backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    const told = new Told();
    connection.send({ method: "GET", target: "/", host: "a", fields: [], body: undefined }, told);
    connection.abort();
    expect((await send(connection)).body).toBe("ok");
    expect(told.events).toEqual([]);
    connection.close();
  });
});

describe("a loss", () => {
  it.each([
    ["at first", 0],
    ["any more", 1],
  ])("is unreached where nobody listens %s", async (_when, answered) => {
    const backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    for (let i = 0; i < answered; i++) await send(connection);
    await backend[Symbol.asyncDispose]();
    await until(() => !connection.open);
    expect((await send(connection)).failure).toEqual({
      kind: "unreached",
      why: "ECONNREFUSED",
      sent: false,
      reused: false,
    });
  });

  it("is unreached where the connection takes too long", async () => {
    // Over TLS, to a backend that says nothing: the handshake never ends.
    await using backend = await startBackend(() => undefined);
    const destination = { host: "127.0.0.1", port: backend.port, tls: {} };
    const told = await send(connectionTo(0, { destination, connectTimeoutMs: 50 }));
    expect(told.failure).toEqual({ kind: "unreached", why: "timeout", sent: false, reused: false });
  });

  it("is unanswered where the connection ends before any byte, new or old", async () => {
    const fresh = await get((socket) => socket.once("data", () => socket.end()));
    expect(fresh.failure).toEqual({ kind: "unanswered", why: "closed", sent: true, reused: false });
    await using backend = await startBackend((socket) => {
      socket.once("data", () => {
        socket.write(OK);
        socket.once("data", () => socket.resetAndDestroy());
      });
    });
    const connection = connectionTo(backend.port);
    await send(connection);
    const old = await send(connection);
    expect(old.failure).toEqual({
      kind: "unanswered",
      why: "ECONNRESET",
      sent: true,
      reused: true,
    });
  });

  it("before the first byte of the body says that nothing was sent", async () => {
    await using backend = await startBackend((socket) => setTimeout(() => socket.end(), 20));
    const told = await send(connectionTo(backend.port), { method: "POST", body: 10 });
    expect(told.events).toEqual(["start", "lost"]);
    expect(told.failure?.sent).toBe(false);
  });
});

describe("a socket", () => {
  it.each(["start", "sent"])(
    "that is not the present one any more tells nothing at %s",
    async (when) => {
      await using backend = await startBackend(answering(OK));
      const connection = connectionTo(backend.port);
      const told = new Told();
      told.onEvent = (event, one) => {
        if (event !== when) return;
        const stranger = new Socket();
        const evil = Buffer.from("HTTP/1.1 500 Evil\r\nContent-Length: 0\r\n\r\n");
        one.onConnect(stranger);
        one.onRead(stranger, evil, evil.length);
        one.onDrain(stranger);
        one.onEnd(stranger);
        one.onClose(stranger, "closed");
      };
      expect((await send(connection, {}, told)).events).toEqual(WHOLE);
      connection.close();
    },
  );
});
