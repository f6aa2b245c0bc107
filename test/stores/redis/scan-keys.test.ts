import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { removeStore } from "../../../src/stores/open-stores.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import { startCluster } from "../../support/redis/redis-engines.ts";

describe("the keys of a prefix", () => {
  it("are removed, of many pages, and no other, whatever its prefix looks like as a pattern", async (t) => {
    const redis = await startRedis();
    t.onTestFinished(() => redis.close());
    const client = await redis.client();
    const others = ["pro:{0}:a", "proof:{0}:a", "p*o2:{0}:a", "p*o", "x:p*o:{0}:a"];
    const own = Array.from(
      { length: 2_500 },
      (_, i) => `p*o:${i % 2 ? "h" : ""}{${i % 16}}:production:a${i}`,
    );
    await client.mset(...[...others, ...own].flatMap((key) => [key, "1"]));
    await removeStore(redis.address, "p*o");
    assert.deepEqual((await client.keys("*")).toSorted(), others.toSorted());
  });

  it("are removed on each master of a Cluster", async (t) => {
    const cluster = await startCluster(3);
    t.onTestFinished(() => cluster.close());
    const keys = Array.from({ length: 16 }, (_, i) => `prove:{${i}}:a`);
    const [entry] = cluster.clients;
    assert.ok(entry);
    await Promise.all(
      cluster.clients.map(async (client) => {
        for (const key of keys) await client.set(key, "1").catch(() => undefined);
      }),
    );
    const sizes = () => Promise.all(cluster.clients.map((client) => client.dbsize()));
    assert.equal(
      (await sizes()).reduce((sum, each) => sum + each, 0),
      keys.length,
    );
    await removeStore(cluster.address, "prove");
    assert.deepEqual(await sizes(), [0, 0, 0]);
  });

  it("are not waited for without end where the store is away", async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    await assert.rejects(removeStore({ kind: "redis", url, shown: url }, "prove"));
  });
});
