import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { startByteUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { type Client, openClient, requestBytes, sendRequest } from "../../support/wire/client.ts";

/** More than the buffers of the system hold. */
const REFUSALS = 40_000;
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/** Longer than the limit of a test, and than two looks at the time. */
const TOO_LONG_MS = 900;

async function openHouse(serve: (socket: Socket) => void, limits: object) {
  const backend = await startByteUpstream(serve);
  const upstream = { origin: backend.origin, seen: backend.received, close: backend.close };
  const house = await startTestGateway({ upstream, environment: { api: null, limits } });
  const { key } = await house.issue({ plan: "business" });
  return { house, backend, key };
}

function beginUpload(client: Client, key: string, fields: string, body: string): void {
  const head = `POST /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n`;
  client.write(`${head}${fields}\r\n\r\n${body}`);
}

describe("a client that does not read", () => {
  it("is cut after idleTimeout by refusals too that belong to no environment", async () => {
    await using house = await startTestGateway({
      environment: { hosts: ["api.test"], limits: { idleTimeout: "700ms" } },
    });
    await using client = await openClient(house.port);
    client.socket.pause();
    client.write("GET /v1/pets HTTP/1.1\r\nHost: other.test\r\n\r\n".repeat(REFUSALS));
    await eventually(() => assert.equal(house.lines.at(-1)?.status, 499), { withinMs: 20_000 });
    assert.ok(house.lines.length < REFUSALS, "what came behind it is no request any more");
  });
});

describe("an upload that waits for the gateway", () => {
  it("is no late one, whatever requestTimeout says, while it waits for a connection", async () => {
    const limits = { upstreamConnections: 1, requestTimeout: "300ms", headersTimeout: "300ms" };
    const { house, backend, key } = await openHouse(() => {}, limits);
    await using _ = house;
    const first = sendRequest(house.port, { key, path: "/v1/slow" });
    await eventually(() => backend.received.length === 1);
    const second = sendRequest(house.port, { key, method: "POST", body: "12345" });
    await using third = await openClient(house.port);
    beginUpload(third, key, "Transfer-Encoding: chunked", "5\r\nabcde\r\n0\r\n\r\n");
    await sleep(TOO_LONG_MS);
    const { socket, bytes } = backend.received[0] ?? assert.fail();
    socket.on("data", () => /12345$|\r\n0\r\n\r\n$/.test(String(bytes())) && socket.write(OK));
    socket.write(OK);
    assert.deepEqual([(await first).status, (await second).status], [200, 200]);
    assert.equal((await third.responses(["POST"]))[0]?.status, 200);
  });
});

describe("a wait for the answer", () => {
  it.each([
    ["a 103", "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n", OK],
    ["a 102", "HTTP/1.1 102 Processing\r\n\r\n", OK],
    ["the beginning of its head", OK.slice(0, 20), OK.slice(20)],
  ])(
    "lasts up to responseTimeout also behind %s, which came during the upload",
    async (_what, early, late) => {
      const { house, backend, key } = await openHouse((socket) => socket.write(early), {
        idleTimeout: "300ms",
      });
      await using _ = house;
      await using client = await openClient(house.port);
      beginUpload(client, key, "Content-Length: 10", "hello");
      await eventually(() => backend.received[0]?.bytes().includes("hello"));
      // Nothing tells that the gateway has read what came early.
      await sleep(50);
      client.write("world");
      await eventually(() => backend.received[0]?.bytes().includes("world"));
      await sleep(TOO_LONG_MS);
      backend.received[0]?.socket.write(late);
      await eventually(() => client.waiting().includes("\r\n\r\nok"));
      assert.equal(house.lines[0]?.status ?? 200, 200);
    },
  );
});

describe("an upload that stalls behind the head of its answer", () => {
  it("is no failure of the backend", async () => {
    const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n";
    const { house, key } = await openHouse((socket) => socket.write(head), {
      idleTimeout: "300ms",
    });
    await using _ = house;
    const uploads = Array.from({ length: 6 }, async () => {
      await using client = await openClient(house.port);
      beginUpload(client, key, "Transfer-Encoding: chunked", "3\r\nabc\r\n");
      await client.ended;
    });
    await Promise.all(uploads);
    await eventually(() => assert.equal(house.lines.length, 6));
    assert.deepEqual([...new Set(house.lines.map(({ why }) => why))], ["the body stalled"]);
    assert.equal((await house.admin("/readyz")).status, 200);
  });

  it("is one where the whole request was sent and the backend stalls", async () => {
    const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n";
    const { house, key } = await openHouse((socket) => socket.write(head), {
      idleTimeout: "300ms",
    });
    await using _ = house;
    const requests = Array.from({ length: 6 }, async () => {
      await using client = await openClient(house.port);
      client.write(requestBytes({ key, method: "POST", body: "abc" }));
      await client.ended;
    });
    await Promise.all(requests);
    assert.equal((await house.admin("/readyz")).status, 503);
  });
});
