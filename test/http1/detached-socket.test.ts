import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, it } from "vitest";
import { ServerConnection, type ServerHandler } from "../../src/http1/server/server-connection.ts";
import { LIMITS } from "./client-bytes.ts";

const detached: Socket[] = [];
const handler: ServerHandler = {
  limits: LIMITS,
  elapsed: () => performance.now(),
  onRequest: (_request, _response, connection) => void detached.push(connection.detachSocket()),
  errorResponse: () => "",
  onRequestError: () => {},
  onLinger: () => {},
};
const server = createServer({ allowHalfOpen: true }, (socket) => {
  new ServerConnection(socket, handler);
});
await once(server.listen(0, "127.0.0.1"), "listening");
const { port } = server.address() as AddressInfo;
afterAll(() => server.close());

const HEAD = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n";
const REST = Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => i % 251));

describe("a socket that is handed over", () => {
  it("holds its sender back until it is read, and loses no byte behind the head", async () => {
    const client = connect(port, "127.0.0.1");
    client.write(HEAD);
    client.end(REST);
    while (detached.length === 0) await sleep(5);
    const [socket] = detached as [Socket];
    // One read of a stream takes no more than it has room for, if it is not resumed.
    socket.read(0);
    await sleep(200);
    assert.ok(socket.readableLength < 200_000, `${socket.readableLength} bytes are held`);
    assert.ok(Buffer.concat(await socket.toArray()).equals(REST));
    socket.end();
    await once(client.resume(), "close");
  });
});
