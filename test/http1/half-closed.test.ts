import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterAll, describe, it } from "vitest";
import { ServerConnection, type ServerHandler } from "../../src/http1/server/server-connection.ts";
import { eventually } from "../support/poll.ts";
import { LIMITS } from "./client-bytes.ts";

/** More than the system takes for a client that does not read. */
const BODY = Buffer.alloc(32 * 1_048_576);
const requested: string[] = [];
const handler: ServerHandler = {
  limits: LIMITS,
  elapsed: () => performance.now(),
  onRequest: ({ target }, response) => {
    requested.push(target);
    response.writeHead(200, ["Content-Length", String(BODY.length)]);
    response.write(BODY);
    response.end();
  },
  errorResponse: () => "",
  onRequestError: () => {},
  onLinger: () => {},
};
const accepted: Socket[] = [];
const server = createServer({ allowHalfOpen: true }, (socket) => {
  accepted.push(socket);
  new ServerConnection(socket, handler);
});
await once(server.listen(0, "127.0.0.1"), "listening");
const { port } = server.address() as AddressInfo;
afterAll(() => server.close());

const asking = (target: string) => `GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`;

describe("a client that ends its side while the answer to its request is still being sent", () => {
  it("gets that answer whole, and none of its pipelined requests is served", async () => {
    const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).pause();
    client.write(asking("/a") + asking("/b") + asking("/c"));
    await eventually(() => assert.deepEqual(requested, ["/a"]));
    const [socket] = accepted as [Socket];
    const ended = once(socket, "end");
    client.end();
    await ended;
    assert.ok(socket.writableLength > 0, "the answer is on its way");
    let bytes = 0;
    client.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    await once(client.resume(), "end");
    assert.ok(bytes > BODY.length && bytes < BODY.length + 200, `${bytes} bytes`);
    assert.deepEqual(requested, ["/a"]);
  });
});
