import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openWebSocket, startWebSocketUpstream } from "../../support/wire/websocket.ts";

const upstream = await startWebSocketUpstream();
const environment = {
  ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live", upstreams: [upstream.origin] },
  ...{ public: "anyone", publicRoutes: ["GET /v1/feed"] },
};
const config = {
  trustedProxies: ["127.0.0.1"],
  plans: { free: { minute: 60 }, anyone: { minute: 60 } },
};
const house = await startTestGateway({
  upstream,
  config: { ...config, environments: { production: environment } },
});
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue();

const openFrom = (address: string, more: { key?: string } = {}) => {
  const headers = { "X-Forwarded-For": address };
  return openWebSocket(`${house.url}/v1/feed`, { ...more, headers });
};

async function reload(more: Readonly<Record<string, unknown>>): Promise<void> {
  await house.rewrite({ ...config, ...more });
  const reloaded = await house.admin("/api/reload", { method: "POST", body: "{}" });
  assert.equal(reloaded.status, 200, await reloaded.clone().text());
}

test("tunnels end when a reload puts the network of their client into deny, with a key and without, and no others", async () => {
  await using keyed = await openFrom("192.0.2.1", { key });
  await using keyless = await openFrom("192.0.2.2");
  await using other = await openFrom("198.51.100.1");
  const startMs = performance.now();
  await reload({ environments: { production: { ...environment, deny: ["192.0.2.0/24"] } } });
  const codes = await Promise.all([keyed.closed, keyless.closed]);
  assert.deepEqual(
    codes.map(({ code }) => code),
    [1008, 1008],
  );
  assert.ok(performance.now() - startMs < 5_000);
  assert.equal(other.socket.readyState, other.socket.OPEN);
  await assert.rejects(openFrom("192.0.2.2"), /403/);
});

test("a tunnel that was opened while bans were off is closed within 5 s of a ban once a reload has turned them on", async () => {
  const environments = { production: environment };
  await reload({ bans: "off", environments });
  const { key: banned, account } = await house.issue();
  await using client = await openFrom("198.51.100.2", { key: banned });
  await using other = await openFrom("198.51.100.2", { key });
  await reload({ environments });
  const body = JSON.stringify({ id: account, for: "1h" });
  assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
  const startMs = performance.now();
  const timer = setTimeout(() => client.socket.terminate(), 8_000);
  assert.equal((await client.closed).code, 1008);
  clearTimeout(timer);
  assert.ok(performance.now() - startMs < 5_000);
  assert.equal(other.socket.readyState, other.socket.OPEN);
});
