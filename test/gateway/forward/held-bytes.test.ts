import assert from "node:assert/strict";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { test } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, requestBytes } from "../../support/wire/client.ts";

const MIB = 1024 ** 2;
const PIECE = Buffer.alloc(65_536);
/** More than the buffers of the system take for two connections, which is 72 MiB on some machines. */
const ENDLESS = 1024 * MIB;
/** A read of 64 KiB, and what waits until a pause is noticed. */
const HELD_MAX = MIB;

const MADE = ["net.client.socket", "net.server.socket"];
const made: Socket[] = [];
for (const kind of MADE)
  subscribe(kind, (message) => made.push((message as { socket: Socket }).socket));

/**
 * The sockets of the only request of a gateway in this process: that of its client, and those to its
 * upstream, to which a slow machine may make more than one. What the gateway holds is what it has
 * read from one side and the system has not taken for the other: the rest is in the system, whose
 * buffers grow with the time that a busy machine leaves them unread.
 */
function socketsOf({ port, backend }: TestGateway) {
  const open = made.filter(({ destroyed }) => !destroyed);
  const client = open.filter(({ localPort }) => localPort === port);
  const upstream = open.filter(({ remotePort }) => remotePort === backend.port);
  return { client, upstream };
}

/** 0 while one side is not open. */
function held(from: readonly Socket[], to: readonly Socket[]): number {
  if (to.length === 0) return 0;
  const read = from.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
  return to.reduce((sum, each) => sum - (each.bytesWritten - each.writableLength), read);
}

const open = () => {
  const limits = { bodyBytes: "2GiB", idleTimeout: "2s" };
  return startTestGateway({ environment: { limits } });
};

test("a client that reads nothing holds the backend back, and is given up after idleTimeout", async (t) => {
  await using house = await open();
  const { key } = await house.issue({ plan: "business" });
  let [written, most] = [0, 0];
  house.backend.answer((_seen, response) => {
    const more = () => {
      while (!response.destroyed && written < ENDLESS && most <= HELD_MAX) {
        written += PIECE.length;
        if (!response.write(PIECE)) return void response.once("drain", more);
      }
    };
    more();
  });
  await using client = await openClient(house.port);
  client.socket.pause();
  client.write(requestBytes({ key }));
  const entry = await eventually(
    () => {
      const { client: to, upstream: from } = socketsOf(house);
      most = Math.max(most, held(from, to));
      assert.ok(house.lines[0]);
      return house.lines[0];
    },
    { everyMs: 1 },
  );
  void t.annotate(`${most / 1024} KiB of ${written / MIB} MiB`);
  assert.ok(most > 0 && most <= HELD_MAX, `${most} bytes are held of ${written}`);
  assert.deepEqual([entry.status, entry.why], [499, "the client stopped reading"]);
  await house.law();
});

test("a backend that reads nothing holds the client back, and is given up after idleTimeout", async (t) => {
  await using house = await open();
  const { key } = await house.issue({ plan: "business" });
  house.backend.answer((_seen, _response, request) => {
    request.pause();
  });
  await using client = await openClient(house.port);
  const fields = `Authorization: Bearer ${key}\r\nContent-Length: ${ENDLESS}\r\n`;
  client.write(`POST /v1/pets HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  let [written, most] = [0, 0];
  const more = () => {
    while (!client.socket.destroyed && written < ENDLESS && most <= HELD_MAX) {
      written += PIECE.length;
      if (!client.socket.write(PIECE)) return void client.socket.once("drain", more);
    }
  };
  more();
  const entry = await eventually(
    () => {
      const { client: from, upstream: to } = socketsOf(house);
      most = Math.max(most, held(from, to));
      assert.ok(house.lines[0]);
      return house.lines[0];
    },
    { everyMs: 1 },
  );
  void t.annotate(`${most / 1024} KiB of ${written / MIB} MiB`);
  assert.ok(most > 0 && most <= HELD_MAX, `${most} bytes are held of ${written}`);
  assert.deepEqual([entry.status, entry.code, entry.charged], [504, "upstream_timeout", 1]);
  await house.law();
});
