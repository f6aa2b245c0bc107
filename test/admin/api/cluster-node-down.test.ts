import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { bucketOf } from "../../../src/stores/quotas/account-ref.ts";
import { crc16 } from "../../../src/stores/redis/hash-slots.ts";
import { runVerb } from "../../cli/kit.ts";
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
  const named = () => {
    const buckets = Array.from({ length: 16 }, (_, bucket) => bucket);
    const gone = buckets.filter((bucket) => ownerOf(bucket) === 1);
    return `buckets ${gone.join(" ")} at 127.0.0.1:${cluster.nodes[1]?.port}`;
  };

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
      assert.equal(response.headers.get("x-tollgate-missing"), named());
    },
  );

  it("a list with nothing on the others is empty and names what is missing, to a verb as well", async () => {
    for (const id of each(ids.filter((one) => !isGone(one)))) {
      assert.equal((await house.admin(`/api/bans/${id}`, { method: "DELETE" })).status, 200);
    }
    for (const path of ["/api/bans", "/api/usage?over=99", "/api/history?plan=none"]) {
      const response = await house.admin(path);
      assert.deepEqual([response.status, await response.json()], [200, []], path);
      assert.equal(response.headers.get("x-tollgate-missing"), named(), path);
    }
    const said = await runVerb(["bans", "list", "--admin", house.adminUrl]);
    assert.deepEqual([said.status, said.out], [1, "No ban is found\n"]);
    assert.equal(said.err, `Missing: ${named()}\n`);
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

  it("and with all of them down every list answers 503: an empty one would be taken for all", async () => {
    await Promise.all(cluster.nodes.map((node) => node.kill()));
    for (const path of ["/api/bans", "/api/usage", "/api/history", "/api/counts"]) {
      const response = await house.admin(path);
      assert.deepEqual([response.status, response.headers.get("retry-after")], [503, "1"], path);
    }
  });
});
