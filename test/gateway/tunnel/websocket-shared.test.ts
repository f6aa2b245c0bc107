import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import {
  openWebSocket,
  startWebSocketUpstream,
  type WebSocketClient,
} from "../../support/wire/websocket.ts";

const { server, redis } = await useRedis();

const BANS = { strikes: 1, within: "1m", grace: "1ms", duration: "10m" };

/** One of several gateways on the same Redis, for keys and for counters. */
async function openGateway(): Promise<TestGateway> {
  const upstream = await startWebSocketUpstream();
  const config = { store: server.url, keys: "redis", bans: BANS };
  return startTestGateway({ upstream, environment: { api: null }, config });
}

async function endsWithin5s(client: WebSocketClient): Promise<void> {
  const startedMs = performance.now();
  await eventually(() => client.socket.readyState === 3, { withinMs: 60_000 });
  assert.equal((await client.closed).code, 1008);
  const ms = performance.now() - startedMs;
  assert.ok(ms < 5_000, `${ms} ms`);
}

describe("a tunnel of one gateway", () => {
  it("is closed within 5 s of a ban that its account earned at another, and no other is", async () => {
    await using here = await openGateway();
    await using there = await openGateway();
    const { key } = await there.issue({ limits: { month: 3 } });
    const { key: stranger } = await there.issue();
    await eventually(async () => assert.equal((await here.ask(stranger)).status, 200));
    const client = await openWebSocket(`${here.url}/v1/feed`, { key });
    await using other = await openWebSocket(`${here.url}/v1/feed`, { key: stranger });
    await eventually(async () => {
      const answer = await there.ask(key);
      return (await answer.text()).includes("key_banned");
    });
    await endsWithin5s(client);
    assert.equal(other.socket.readyState, 1);
    await eventually(() => here.lines.some(({ why }) => why === "the account is banned"));
  });

  it("is closed within 5 s of a revocation at another, and that of a sister key is not", async () => {
    await using here = await openGateway();
    await using there = await openGateway();
    const { key, id, account } = await there.issue();
    const { key: sister } = await there.issue({ account });
    await eventually(async () => assert.equal((await here.ask(sister)).status, 200));
    const client = await openWebSocket(`${here.url}/v1/feed`, { key });
    await using other = await openWebSocket(`${here.url}/v1/feed`, { key: sister });
    const revoked = await there.admin(`/api/keys/${id}/revoke`, { method: "POST", body: "{}" });
    assert.equal(revoked.status, 200);
    await endsWithin5s(client);
    assert.equal(other.socket.readyState, 1);
    await eventually(() => here.lines.some(({ why }) => /revoked/.test(why ?? "")));
  });

  it("is closed within 5 s when its key may no longer come from there, and one from elsewhere is not", async () => {
    const upstream = await startWebSocketUpstream();
    const config = { trustedProxies: ["127.0.0.1"] };
    await using house = await startTestGateway({ upstream, environment: { api: null }, config });
    const { key, id } = await house.issue({ from: ["192.0.2.0/24"] });
    const from = (address: string) => {
      return openWebSocket(`${house.url}/v1/feed`, {
        key,
        headers: { "X-Forwarded-For": address },
      });
    };
    const client = await from("192.0.2.1");
    await using other = await from("192.0.2.200");
    const set = (networks: readonly string[]) => {
      const body = JSON.stringify({ from: networks });
      return house.admin(`/api/keys/${id}`, { method: "PATCH", body });
    };
    assert.equal((await set(["192.0.2.128/25"])).status, 200);
    await endsWithin5s(client);
    assert.equal(other.socket.readyState, 1);
    await eventually(() => house.lines.some(({ why }) => why === "not from 192.0.2.1"));
    assert.equal((await set([])).status, 200);
    await using third = await from("198.51.100.7");
    assert.equal(third.socket.readyState, 1);
  });

  it("stays open while the store is away, and is closed by the ban of which it was told before", async () => {
    await using here = await openGateway();
    const { key } = await here.issue({ limits: { month: 3 } });
    const { key: stranger } = await here.issue();
    const client = await openWebSocket(`${here.url}/v1/feed`, { key });
    await using other = await openWebSocket(`${here.url}/v1/feed`, { key: stranger });
    await eventually(async () => {
      const answer = await here.ask(key);
      return (await answer.text()).includes("key_banned");
    });
    server.stop();
    try {
      // A look that began before may take its 2 s to fail; the one after it is the one.
      await eventually(() => client.socket.readyState === 3, { withinMs: 60_000 });
      assert.equal(other.socket.readyState, 1);
    } finally {
      server.cont();
    }
    await eventually(async () => assert.equal(await redis.ping(), "PONG"));
  });
});
