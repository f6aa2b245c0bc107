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

test("tunnels end when a reload puts the network of their client into deny, with a key and without, and no others", async () => {
  await using keyed = await openFrom("192.0.2.1", { key });
  await using keyless = await openFrom("192.0.2.2");
  await using other = await openFrom("198.51.100.1");
  const startMs = performance.now();
  await house.rewrite({
    ...config,
    environments: { production: { ...environment, deny: ["192.0.2.0/24"] } },
  });
  const reloaded = await house.admin("/api/reload", { method: "POST", body: "{}" });
  assert.equal(reloaded.status, 200, await reloaded.clone().text());
  const codes = await Promise.all([keyed.closed, keyless.closed]);
  assert.deepEqual(
    codes.map(({ code }) => code),
    [1008, 1008],
  );
  assert.ok(performance.now() - startMs < 5_000);
  assert.equal(other.socket.readyState, other.socket.OPEN);
  await assert.rejects(openFrom("192.0.2.2"), /403/);
});
