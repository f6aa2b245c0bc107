import assert from "node:assert/strict";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { describe, it } from "vitest";
import { startTestGateway, type TestGatewayOptions } from "../../support/gateway/house.ts";
import { openClient, requestBytes } from "../../support/wire/client.ts";
import { handshakeOf, startWebSocketUpstream } from "../../support/wire/websocket.ts";

const LIMIT_MS = 2_000;
/** Deadlines are looked at ten times a second. */
const LOOKED_AT_MS = 300;

/**
 * Does something, and nothing more for longer than the limit, as where the machine is suspended.
 * The timers of the event loop are next after that, and sockets are read later.
 */
async function stallAfter(act: () => void): Promise<void> {
  await turn();
  act();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LIMIT_MS + 500);
}

function open(limits: Readonly<Record<string, string>>, more: TestGatewayOptions = {}) {
  return startTestGateway({ ...more, environment: { api: null, limits } });
}

describe("while a gateway stands still for longer than a limit, what arrives in time is in time", () => {
  it("as a request on a connection that was idle", async () => {
    await using house = await open({ idleTimeout: `${LIMIT_MS}ms` });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    assert.equal((await client.ask({ key })).status, 200);
    await sleep(LOOKED_AT_MS);
    await stallAfter(() => client.write(requestBytes({ key })));
    const [response] = await client.responses(["GET"]);
    assert.equal(response?.status, 200);
    await house.law();
  });

  it("as the end of a head that had begun", async () => {
    await using house = await open({ headersTimeout: `${LIMIT_MS}ms` });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    const request = requestBytes({ key });
    client.write(request.subarray(0, -2));
    await sleep(LOOKED_AT_MS);
    await stallAfter(() => client.write(request.subarray(-2)));
    const [response] = await client.responses(["GET"]);
    assert.equal(response?.status, 200);
    await house.law();
  });

  it("as the answer of a backend", async () => {
    await using house = await open({ responseTimeout: `${LIMIT_MS}ms` });
    const { key } = await house.issue();
    house.backend.answer((_seen, response) => {
      void sleep(LOOKED_AT_MS).then(() => stallAfter(() => response.end("in time")));
    });
    const response = await house.ask(key);
    assert.deepEqual([response.status, await response.text()], [200, "in time"]);
    await house.law();
  });

  for (const { what, fields, status } of [
    { what: "a request", fields: [], status: 200 },
    { what: "a WebSocket", fields: handshakeOf(), status: 101 },
  ]) {
    it(`as a connection to a backend for ${what}`, async () => {
      const upstream = await startWebSocketUpstream();
      await using house = await open({ connectTimeout: `${LIMIT_MS}ms` }, { upstream });
      const { key } = await house.issue();
      await using client = await openClient(house.port);
      client.write(requestBytes({ key, fields }));
      // The request is read in this turn, and the connection is made in the next one.
      await turn();
      await stallAfter(() => {});
      const [response] = await client.responses(["GET"]);
      assert.equal(response?.status, status);
      client.socket.destroy();
      await house.law();
    });
  }
});
