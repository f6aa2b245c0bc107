import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { it } from "vitest";
import { meterInput } from "../../../src/admin/http/metered-input.ts";
import { handleParserErrors } from "../../../src/admin/http/parser-error.ts";
import { eventually } from "../../support/poll.ts";

const REQUEST = `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(8_000)}\r\n\r\n`;
const REQUESTS = 40;
/**
 * How much a paused connection has read at most: 64 KiB less one byte, the piece of 64 KiB that
 * paused it, and as much again in the buffer of Node's stream.
 */
const READ_BYTES_MAX = 4 * 65_536;

type Held = Awaited<ReturnType<typeof openHeld>>;

/** A server that answers the first request when it is let, and the socket that it has for it. */
async function openHeld(rest: string) {
  const server = createServer({ keepAliveTimeout: 0 });
  let held: (() => void) | undefined;
  let isLet = false;
  let requests = 0;
  server.on("request", (_request, response) => {
    requests += 1;
    if (isLet) response.end();
    else held = () => response.end();
  });
  handleParserErrors(server);
  meterInput(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const accepted = once(server, "connection");
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const errors: Error[] = [];
  let got = "";
  client.on("error", (error) => errors.push(error)).setEncoding("latin1");
  client.on("data", (piece) => {
    got += piece;
  });
  const closed = once(client, "close");
  closed.catch(() => {});
  client.write(REQUEST + rest);
  const [socket] = (await accepted) as [Socket];
  await eventually(() => assert.ok(held));
  return {
    ...{ client, socket, errors, closed },
    /** Another client. */
    connect: () => connect({ port, host: "127.0.0.1" }),
    got: () => got,
    requests: () => requests,
    /** Answers the request that is held, and waits until the next one is. */
    answerOne: async () => {
      const first = held;
      first?.();
      await eventually(() => assert.notEqual(held, first));
    },
    /** Has later requests answered at once. */
    letLater: () => {
      isLet = true;
    },
    answer: () => {
      isLet = true;
      held?.();
    },
    [Symbol.asyncDispose]: async () => {
      client.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it("a connection of which too much waits for an answer is read no further until the answer is out", async () => {
  await using held = await openHeld(REQUEST.repeat(REQUESTS - 1));
  await eventually(() => assert.ok(held.socket.isPaused()));
  assert.ok(held.socket.bytesRead < READ_BYTES_MAX, `${held.socket.bytesRead} bytes`);
  held.answer();
  await eventually(() => assert.equal(held.got().match(/ 200 OK/g)?.length, REQUESTS));
  assert.equal(held.socket.isPaused(), false);
  held.client.end();
  await eventually(() => assert.ok(held.client.closed, "it has closed its side"));
});

it("a connection of which too much still waits after an answer is read no further", async () => {
  const small = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  await using held = await openHeld(small.repeat(10) + REQUEST.repeat(100));
  await eventually(() => assert.ok(held.socket.isPaused()));
  for (let i = 0; i < 8; i++) await held.answerOne();
  assert.ok(held.socket.bytesRead < READ_BYTES_MAX, `${held.socket.bytesRead} bytes`);
});

it("a client that goes on for more than a MiB after a refusal is cut off", async () => {
  await using held = await openHeld(`BROKEN\r\n\r\n${"x".repeat(16 * 1_048_576)}`);
  const cut = once(held.socket, "close");
  held.answer();
  await cut;
  assert.ok(held.socket.bytesRead < 2 * 1_048_576, `${held.socket.bytesRead} bytes`);
});

it("what a client has sent after a refusal is read to its end, though more waited than may", async () => {
  const rest = "BROKEN\r\n\r\n".repeat(100_000);
  await using held = await openHeld(rest);
  await eventually(() => assert.ok(held.socket.isPaused()));
  const ended = once(held.client, "end");
  held.answer();
  await ended;
  assert.match(held.got(), /^HTTP\/1\.1 200 OK\r\n[\s\S]*HTTP\/1\.1 400 Bad Request\r\n/);
  await eventually(() => assert.equal(held.socket.bytesRead, REQUEST.length + rest.length));
  held.client.end();
  await held.closed;
  assert.deepEqual(held.errors, []);
});

for (const [how, leave] of [
  ["left", ({ client }: Held) => client.resetAndDestroy()],
  ["was evicted", ({ socket }: Held) => socket.destroy()],
] as const) {
  it(`what a client sent ahead before it ${how} is no request of it any more, nor of the next client`, async () => {
    const small = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const rest = small.repeat(1_000);
    await using held = await openHeld(rest);
    await eventually(() => assert.equal(held.socket.bytesRead, REQUEST.length + rest.length));
    const closed = new Promise((resolve) => held.socket.once("close", resolve));
    leave(held);
    await closed;
    held.letLater();
    // Node gives one of them the parser of the connection that has closed.
    const next = Array.from({ length: 3 }, () => held.connect());
    for (const client of next) client.write(small);
    for (const client of next) await once(client, "data");
    assert.equal(held.requests(), 1 + next.length);
    for (const client of next) client.destroy();
  });
}

/** A server of which this process has so many connections open, each with its side of it. */
async function openSome(count: number) {
  const server = createServer();
  meterInput(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const clients: Socket[] = [];
  const sockets: Socket[] = [];
  for (let i = 0; i < count; i++) {
    const accepted = once(server, "connection");
    clients.push(connect({ port, host: "127.0.0.1" }).resume());
    sockets.push(((await accepted) as [Socket])[0]);
  }
  return {
    ...{ server, sockets },
    [Symbol.asyncDispose]: async () => {
      for (const client of clients) client.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it("one request of all that wait is read in each turn of the event loop, of one connection after the other", async () => {
  await using open = await openSome(3);
  let turn = 0;
  const seen: { readonly socket: Socket; readonly turn: number }[] = [];
  open.server.on("request", ({ socket }, response) => {
    seen.push({ socket, turn });
    response.end();
  });
  const bytes = Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(4));
  for (const socket of open.sockets) socket.emit("data", bytes);
  for (; seen.length < 12; turn++) await setImmediate();
  assert.equal(new Set(seen.map((one) => one.turn)).size, 12);
  const order = seen.map(({ socket }) => open.sockets.indexOf(socket));
  assert.deepEqual(order.slice(0, 3), [0, 1, 2]);
  for (const from of [3, 6, 9]) {
    assert.deepEqual(order.slice(from, from + 3).toSorted(), [0, 1, 2], `${order}`);
  }
});

it("a body is read in pieces of 16 KiB, however much of it is there", async () => {
  await using open = await openSome(1);
  const lengths: number[] = [];
  const ended = new Promise((resolve) => {
    open.server.on("request", (request) => {
      request.on("data", ({ length }: Buffer) => lengths.push(length)).once("end", resolve);
    });
  });
  const body = 3 * 16_384 + 1;
  const head = `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${body}\r\n\r\n`;
  open.sockets[0]?.emit("data", Buffer.from(head + "x".repeat(body)));
  await ended;
  assert.deepEqual(lengths, [16_384, 16_384, 16_384, 1]);
});
