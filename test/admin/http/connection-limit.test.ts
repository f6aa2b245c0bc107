import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, Socket } from "node:net";
import { promisify } from "node:util";
import { describe, it } from "vitest";
import { evictConnections } from "../../../src/admin/http/connection-limit.ts";
import { eventually } from "../../support/poll.ts";

/** A server for at most two connections, whose answers to /held wait. */
async function openSmall() {
  const held: ServerResponse[] = [];
  const server = createServer({ keepAliveTimeout: 0 }, ({ url }, response) => {
    if (url === "/held") held.push(response);
    else response.end("ok");
  });
  evictConnections(server, 2);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const ask = (socket: Socket, path: string) =>
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  const open = async (path?: string) => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    await once(socket, "connect");
    if (path === undefined) return socket;
    const before = held.length;
    ask(socket, path);
    if (path === "/held") await eventually(() => assert.equal(held.length, before + 1));
    else await once(socket, "data");
    return socket.resume();
  };
  return {
    ...{ open, held, connections: promisify(server.getConnections.bind(server)) },
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

describe("a connection more than there may be", () => {
  it("takes the place of one whose requests are answered, though another one is older", async () => {
    await using house = await openSmall();
    const busy = await house.open("/held");
    const idle = await house.open("/livez");
    await Promise.all([once(idle, "close"), house.open()]);
    assert.equal(busy.destroyed, false);
    house.held[0]?.end("ok");
    await once(busy, "data");
  });

  it("takes the place of the oldest where each has a request under way", async () => {
    await using house = await openSmall();
    const oldest = await house.open("/held");
    const second = await house.open("/held");
    const [, next] = await Promise.all([once(oldest, "close"), house.open()]);
    assert.equal(second.destroyed, false);
    for (const socket of [second, next]) socket.destroy();
    await eventually(async () => assert.equal(await house.connections(), 0));
    const first = await house.open("/livez");
    await house.open("/livez");
    assert.equal(first.destroyed, false, "what has left takes no place");
  });

  it("is none where one has left", async () => {
    await using house = await openSmall();
    const first = await house.open("/livez");
    (await house.open("/livez")).destroy();
    await eventually(async () => assert.equal(await house.connections(), 1));
    await house.open("/livez");
    assert.equal(first.destroyed, false);
  });

  it("makes room for itself also where many come in one turn", async () => {
    const server = createServer().removeAllListeners("connection");
    evictConnections(server, 2);
    const all = Array.from({ length: 5 }, () => new Socket());
    for (const socket of all) server.emit("connection", socket);
    const left = all.map(({ destroyed }) => destroyed);
    assert.deepEqual(left, [true, true, true, false, false]);
  });
});
