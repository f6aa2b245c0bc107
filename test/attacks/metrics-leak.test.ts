import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { assertConventions, samplesOf } from "../admin/scrape.ts";
import { KEY } from "../support/gateway/served.ts";
import { openClient } from "../support/wire/client.ts";
import { lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

test("1,500 different paths, methods, hosts and keys make no series of their own, and leak nothing", async (t) => {
  await using client = await openClient(house.port);
  await client.ask({ key: KEY });
  const count = async () => samplesOf(await (await house.admin("/metrics")).text()).length;
  await client.ask({ key: KEY, path: "/v1/pets/1" });
  await client.ask({ key: KEY, path: "/v1/x" });
  await client.ask({ key: `${KEY.slice(0, -1)}x` });
  const before = await count();
  for (let i = 0; i < 500; i++) {
    await client.ask({ key: KEY, path: `/v1/pets/${i}canary` });
    await client.ask({ key: KEY, path: `/v1/canary${i}?token=canary` });
    await client.ask({
      key: `canary_${i}_canarycanary`,
      host: `canary${i}.test`,
      path: `/canary/${i}`,
    });
  }
  const text = await (await house.admin("/metrics")).text();
  assertConventions(text);
  const after = samplesOf(text).length;
  t.annotate(`${before} series before, ${after} after`);
  assert.ok(after - before < 40, `${after - before} more`);
  assert.ok(after <= 1_000, `${after} series`);
  for (const secret of ["canary", KEY.slice(10), "gw.test", "/v1/pets/1"]) {
    assert.ok(!text.includes(secret), secret);
  }
  assert.ok(text.includes("/v1/pets/{petId}"), "routes are told by their templates");
});

test("the law holds after all of it", () => lawHolds(house));
