import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { bucketOf } from "../../../src/stores/quotas/redis/account-key.ts";
import { crc16 } from "../../../src/stores/redis/hash-slots.ts";
import { account } from "../../stores/quotas/redis/redis-kit.ts";
import { each } from "../../support/each.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { startCluster, type TestCluster } from "../../support/redis/redis-engines.ts";

type Told = { readonly account: string };
const SLOTS = 16_384;

describe("with one master of a Cluster down", () => {
  let cluster: TestCluster;
  let house: TestGateway;
  const ids: string[] = [];
  const ownerOf = (bucket: number) => cluster.ownerOf(crc16(String(bucket)) % SLOTS);
  const isGone = (id: string) => ownerOf(bucketOf(account(id))) === 1;

  beforeAll(async () => {
    cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
    const config = { store: cluster.address.url, history: "400d", plans: { free: { day: 100 } } };
    house = await startTestGateway({ config });
    for (let i = 0; i < 24; i++) {
      const issued = await house.issue();
      ids.push(issued.account);
      assert.equal((await house.ask(issued.key)).status, 200);
      const body = JSON.stringify({ id: issued.account, for: "1h" });
      assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    }
    assert.ok(ids.some(isGone) && ids.some((id) => !isGone(id)));
    await cluster.nodes[1]?.kill();
  });
  afterAll(async () => {
    await house[Symbol.asyncDispose]();
    await cluster.close();
  });

  it.each(["/api/usage", "/api/bans", "/api/history?days=2", "/api/counts"])(
    "%s tells what is on the others, and names the buckets and the node that are missing",
    async (path) => {
      const response = await house.admin(path);
      assert.equal(response.status, 200);
      const told = (await response.json()) as Told[];
      const there = ids.filter((id) => !isGone(id)).sort();
      assert.deepEqual([...new Set(told.map((one) => one.account))].sort(), there);
      const gone = Array.from({ length: 16 }, (_, bucket) => bucket).filter((bucket) => {
        return ownerOf(bucket) === 1;
      });
      const named = `buckets ${gone.join(" ")} at 127.0.0.1:${cluster.nodes[1]?.port}`;
      assert.equal(response.headers.get("x-tollgate-missing"), named);
    },
  );

  it("a list with nothing on the others answers 503: an empty one would be taken for all", async () => {
    for (const id of each(ids.filter((one) => !isGone(one)))) {
      assert.equal((await house.admin(`/api/bans/${id}`, { method: "DELETE" })).status, 200);
    }
    const response = await house.admin("/api/bans");
    assert.deepEqual([response.status, response.headers.get("retry-after")], [503, "1"]);
  });

  it("a route of one account answers 503 where it is on that one, and for itself elsewhere", async () => {
    const [gone = "", there = ""] = [ids.find(isGone), ids.find((id) => !isGone(id))];
    for (const path of [`/api/usage/`, `/api/history?days=2&account=`]) {
      const refused = await house.admin(path + gone);
      assert.equal(refused.status, 503);
      const { message } = (await refused.json()) as { message: string };
      assert.doesNotMatch(message, /parts that can be reached/, "the store's own words tell why");
      const response = await house.admin(path + there);
      assert.equal(response.status, 200);
      assert.equal(response.headers.get("x-tollgate-missing"), null);
    }
  });
});
