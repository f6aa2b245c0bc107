import assert from "node:assert/strict";
import { it } from "vitest";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

it("a verb that asked the store leaves no connection to it, which would hold up its end", async (t) => {
  const redis = await startRedis();
  t.onTestFinished(() => redis.close());
  await using folder = await openFolder();
  const file = await writeConfig(folder, { store: redis.url, keys: "redis" });
  const admin = await redis.client();
  const clients = async () =>
    String(await admin.call("CLIENT", "LIST"))
      .trim()
      .split("\n");
  const before = (await clients()).length;
  const create = "keys create --env production --plan free --account acme";
  for (const verb of [
    ...[create, "keys list", "accounts list", "accounts show acme", "bans list", "usage acme"],
    ...["usage --plan free", "bans lift acme", "accounts reset acme", "plans list", "deprecations"],
    "check --keys",
  ]) {
    const { status, err } = await runVerb([...verb.split(" "), "--config", file]);
    assert.equal(status, verb === "bans lift acme" ? 1 : 0, `${verb}: ${err}`);
    await eventually(async () => assert.equal((await clients()).length, before, verb));
  }
});
