import assert from "node:assert/strict";
import { it } from "vitest";
import type { ApiRequest } from "../../../src/admin/api/api-request.ts";
import { liftBan } from "../../../src/admin/api/bans.ts";
import { refuseByContract } from "../../../src/admin/api/refuse-request.ts";
import { API_ROUTES, type ApiRoute } from "../../../src/admin/api/routes.ts";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";

const ASKED = [
  ["GET", "/api/keys", 200],
  ["GET", "/api/keys/export", 200],
  ["GET", "/api/keys/k_1", 404],
  ["GET", "/api/accounts", 200],
  ["GET", "/api/accounts/one", 404],
  ["POST", "/api/accounts/one/reset", 404],
  ["GET", "/api/plans", 200],
  ["GET", "/api/usage", 200],
  ["GET", "/api/usage/one", 404],
  ["GET", "/api/counts", 200],
  ["GET", "/api/counts/one", 404],
  ["GET", "/api/history", 200],
  ["GET", "/api/history?account=one", 404],
  ["POST", "/api/bans", 404],
  ["GET", "/api/bans/one", 404],
  ["DELETE", "/api/bans/one", 404],
] as const;

const CONFIG = { keys: "redis", history: "400d" } as const;
/** Only POST takes a body. */
const BODIES: Readonly<Record<string, string>> = { "/api/bans": '{"id":"one","for":"1h"}' };
const bodyOf = (method: string, path: string) => {
  return method === "POST" ? { method, body: BODIES[path] ?? "{}" } : { method };
};

it("a gateway that has no records yet does not say that there are none", async () => {
  const store = `redis://127.0.0.1:${await freePort()}`;
  await using house = await startTestGateway({ config: { ...CONFIG, store } });
  for (const [method, path] of ASKED) {
    const asked = await house.admin(path, bodyOf(method, path));
    const { code } = (await asked.json()) as { code: string };
    assert.deepEqual([asked.status, code], [503, "store_unavailable"], path);
    assert.equal(asked.headers.get("retry-after"), "1");
  }
  const body = JSON.stringify({ records: [], dryRun: true });
  assert.equal((await house.admin("/api/keys/import", { method: "POST", body })).status, 503);
  for (const [path, status] of [
    ["/api/keys/find", 503],
    ["/api/keys/import", 503],
    ["/api/accounts/one/reset", 503],
    ["/api/accounts/addr:192.0.2.1/reset", 400],
    ["/api/bans", 503],
    ["/api/keys", 400],
    ["/api/accounts/one/suspend", 400],
  ] as const) {
    const wrong = await house.admin(path, { method: "POST", body: '{"wrong":1}' });
    assert.equal(wrong.status, status, `${path} with a mistake in its body`);
  }
  for (const verb of [["keys", "list"], ["keys", "export"], ["usage"], ["usage", "--json"]]) {
    const said = await runVerb([...verb, "--admin", house.adminUrl]);
    assert.deepEqual([said.status, said.out], [1, ""], verb.join(" "));
    assert.match(said.err, /records are not known yet/);
  }
});

it("a change of records says why their store cannot be reached, without its password", async () => {
  const store = `redis://:canary-password@127.0.0.1:${await freePort()}`;
  await using house = await startTestGateway({ config: { ...CONFIG, store } });
  const body = JSON.stringify({ environment: "production", plan: "free" });
  const asked = await house.admin("/api/keys", { method: "POST", body });
  const { message } = (await asked.json()) as { message: string };
  assert.deepEqual([asked.status, asked.headers.get("retry-after")], [503, "1"]);
  assert.match(message, /^Cannot change the keys in .*: Redis cannot be reached: ECONNREFUSED/);
  assert.doesNotMatch(message, /canary/);
});

it("a gateway that has read that there are none says so", async () => {
  const redis = await startRedis();
  try {
    await using house = await startTestGateway({ config: { ...CONFIG, store: redis.url } });
    for (const [method, path, status] of ASKED) {
      const asked = await house.admin(path, bodyOf(method, path));
      assert.equal(asked.status, status, `${method} ${path}`);
    }
  } finally {
    await redis.close();
  }
});

it("a store that has no ban of an ID does not make it unknown without records, and an address needs none", async () => {
  const keys = { ready: false, records: () => ({ accounts: [], keys: [] }), health: () => ({}) };
  const deps = { keys, quotas: { bans: async () => [] } };
  const askedFor = (id: string) => ({ deps, id, body: {} }) as unknown as ApiRequest;
  assert.equal((await liftBan(askedFor("k_1"))).status, 503);
  keys.ready = true;
  assert.equal((await liftBan(askedFor("k_1"))).status, 404);
  keys.ready = false;
  const counts = API_ROUTES.find(({ template }) => template === "/api/counts/:id") as ApiRoute;
  assert.equal(refuseByContract(counts, askedFor("one"))?.status, 503);
  assert.equal(refuseByContract(counts, askedFor("addr:192.0.2.1")), undefined);
});
