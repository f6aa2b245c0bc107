import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { useProxiedRedis } from "../../support/redis/redis-of-file.ts";
import { openClient } from "../../support/wire/client.ts";

const { proxy } = await useProxiedRedis();

/** A house whose store takes a while to answer, within its deadline. */
function openSlowHouse() {
  // Long enough that a busy machine, too, reads what clients do before the answer comes.
  proxy.behave({ latencyMs: 150 });
  const store = `redis://127.0.0.1:${proxy.port}`;
  return startTestGateway({ config: { store, storeTimeout: "1s" } });
}

async function openConnections(house: TestGateway): Promise<number> {
  const text = await (await house.admin("/metrics")).text();
  return Number(/^tollgate_connections_open (\d+)$/m.exec(text)?.[1]);
}

describe("while the store decides", () => {
  it("a body that turns out to be broken is refused, charged and never forwarded", async () => {
    await using house = await openSlowHouse();
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    const fields = `Host: gw.test\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
    client.write(
      `POST /v1/pets HTTP/1.1\r\n${fields}Transfer-Encoding: chunked\r\n\r\nno number\r\n`,
    );
    const [answer] = await client.responses(["POST"]);
    assert.equal(answer?.status, 400);
    assert.equal(await client.ended, "closed");
    await eventually(() => {
      const [entry] = house.lines;
      assert.deepEqual([entry?.status, entry?.charged, entry?.forwards], [400, 1, 0]);
    });
    await house.law();
  });

  it("a client may leave: that is logged once, as charged, and nothing is forwarded", async () => {
    await using house = await openSlowHouse();
    const { key, account } = await house.issue();
    // A connection to the store that is used, and one of a client that stays open.
    assert.equal((await house.ask(key)).status, 200);
    await eventually(() => assert.equal(house.lines.length, 1));
    const others = await openConnections(house);
    for (const path of ["/v1/pets", "/v1/nowhere"]) {
      // The store answers when the gateway has seen the client leave, not after a time.
      proxy.behave({ blackHole: true });
      const client = await openClient(house.port);
      const fields = `Host: gw.test\r\nAuthorization: Bearer ${key}\r\n`;
      client.write(`GET ${path} HTTP/1.1\r\n${fields}\r\n`);
      // A reset takes along what was not read yet: the gateway has read what it asks the store about.
      await eventually(() => proxy.holds(account), { everyMs: 1 });
      client.socket.resetAndDestroy();
      const left = async () => assert.equal(await openConnections(house), others);
      await eventually(left, { everyMs: 1 });
      proxy.behave({});
    }
    await eventually(() => assert.equal(house.lines.length, 3));
    for (const { status, charged, forwards, decision } of each(house.lines.slice(1))) {
      assert.deepEqual([status, charged, forwards, decision], [499, 1, 0, "admitted"]);
    }
    await house.law();
    assert.equal(house.backend.seen.length, 1);
  });
});

describe("without a copy of the key records", () => {
  it("a well-formed key gets 503 and Retry-After, never 401, and anything else its 401", async () => {
    const store = `redis://127.0.0.1:${await freePort()}`;
    await using house = await startTestGateway({ config: { store, keys: "redis" } });
    const unknown = await house.ask(KEY);
    assert.equal(unknown.status, 503);
    assert.equal(((await unknown.json()) as { code: string }).code, "store_unavailable");
    assert.equal(unknown.headers.get("retry-after"), "1");
    const malformed = await house.ask(`${KEY}x`);
    assert.equal(malformed.status, 401);
    assert.equal(((await malformed.json()) as { code: string }).code, "key_invalid");
    assert.deepEqual(
      house.lines.map(({ charged, forwards }) => charged + forwards),
      [0, 0],
    );
  });
});
