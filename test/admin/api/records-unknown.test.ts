import assert from "node:assert/strict";
import { it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";

const ASKED = [
  ["GET", "/api/keys", 200],
  ["GET", "/api/keys/export", 200],
  ["GET", "/api/keys/k_1", 404],
  ["GET", "/api/accounts", 200],
  ["GET", "/api/accounts/one", 404],
] as const;

it("a gateway that has no records yet does not say that there are none", async () => {
  const store = `redis://127.0.0.1:${await freePort()}`;
  await using house = await startTestGateway({ config: { store, keys: "redis" } });
  for (const [method, path] of ASKED) {
    const asked = await house.admin(path, { method });
    const { code } = (await asked.json()) as { code: string };
    assert.deepEqual([asked.status, code], [503, "store_unavailable"], path);
    assert.equal(asked.headers.get("retry-after"), "1");
  }
  const body = JSON.stringify({ records: [], dryRun: true });
  assert.equal((await house.admin("/api/keys/import", { method: "POST", body })).status, 503);
  for (const verb of ["list", "export"]) {
    const said = await runVerb(["keys", verb, "--admin", house.adminUrl]);
    assert.deepEqual([said.status, said.out], [1, ""], verb);
    assert.match(said.err, /records are not known yet/);
  }
});

it("a gateway that has read that there are none says so", async () => {
  const redis = await startRedis();
  try {
    await using house = await startTestGateway({ config: { store: redis.url, keys: "redis" } });
    for (const [method, path, status] of ASKED) {
      assert.equal((await house.admin(path, { method })).status, status, path);
    }
  } finally {
    await redis.close();
  }
});
