import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "vitest";
import { openFolder, runVerb } from "../cli/kit.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import { metric, openRedisHouse, readyWithin } from "./redis-house.ts";

const HASH = "tg:{0}:keys";
const LOST = "tollgate_keys_lost";
const DAMAGED = "tollgate_keys_damaged";

const { server, redis } = await useRedis();

const openHouse = () =>
  openRedisHouse(server, { config: { keys: "redis", stateFile: "./state.json" } });

async function keysCheck(house: TestGateway): Promise<{ ok: boolean; why?: string }> {
  const response = await house.admin("/readyz");
  const { checks } = (await response.json()) as { checks: { keys: { ok: boolean; why?: string } } };
  assert.equal(response.status === 200, checks.keys.ok);
  return checks.keys;
}

const events = ({ said }: TestGateway) => said.filter(({ kind }) => kind === "keys_lost");

/** Does what the readiness check says, word for word. */
async function doAsTold(house: TestGateway): Promise<void> {
  const { why = "" } = await keysCheck(house);
  const [, file = ""] = /tollgate keys import (\S+)/.exec(why) ?? [];
  // The file is written beside the path of requests, a moment after the loss.
  await eventually(async () => {
    const said = await runVerb(["keys", "import", file, "--config", house.file]);
    assert.equal(said.status, 0, said.err);
  });
}

describe("2.1 Records lost", () => {
  it("by a Redis that comes back empty fail `keys`, are told once, and one line brings them back", async () => {
    await using house = await openHouse();
    const issued = [await house.issue(), await house.issue(), await house.issue()];
    assert.deepEqual([await metric(house, LOST), (await keysCheck(house)).ok], [0, true]);
    await server.restart();
    await eventually(async () => assert.equal(await metric(house, LOST), 6));
    const file = join(house.directory, "state.json.lost");
    const { ok, why = "" } = await keysCheck(house);
    assert.equal(ok, false);
    assert.match(why, /3 keys and 3 accounts are gone/);
    assert.ok(why.includes(`tollgate keys import ${file}`), why);
    const [told, ...more] = events(house);
    assert.deepEqual(more, []);
    assert.deepEqual([told?.level, told?.keys, told?.accounts, told?.file], ["error", 3, 3, file]);
    for (const { id } of issued) assert.ok(String(told?.ids).split(",").includes(id));
    for (const { key } of issued) assert.doesNotMatch(`${why}${JSON.stringify(told)}`, RegExp(key));
    // One more key and one more loss: the file has both.
    const later = await house.issue();
    await redis.flushall();
    await eventually(async () => assert.equal(await metric(house, LOST), 8));
    assert.equal(events(house).length, 2);

    await eventually(async () => {
      if ((await metric(house, LOST)) > 0) await doAsTold(house);
      assert.equal(await metric(house, LOST), 0);
    });
    await readyWithin(house, 5_000);
    for (const { key } of [...issued, later]) assert.equal((await house.ask(key)).status, 200);
  });

  it("and brought back end no ban that a gateway knows of", async () => {
    const bans = { strikes: 1, within: "10s", grace: "0s", duration: "1h" };
    const config = { keys: "redis", stateFile: "./state.json", plans: { free: { day: 1 } }, bans };
    await using house = await openRedisHouse(server, { config });
    const { key } = await house.issue();
    const codeOf = async () => {
      const { code } = (await (await house.ask(key)).json()) as { readonly code?: string };
      return code;
    };
    await eventually(async () => (await codeOf()) === "key_banned");
    await redis.flushall();
    await eventually(async () => assert.equal(await metric(house, LOST), 2));
    await doAsTold(house);
    await readyWithin(house, 5_000);
    assert.equal(await codeOf(), "key_banned");
  });

  it("by somebody who deletes one of them by hand are told, and not those that a command ends", async () => {
    await using house = await openHouse();
    const [one, other] = [await house.issue(), await house.issue()];
    await house.admin(`/api/keys/${other.id}/revoke`, { method: "POST", body: "{}" });
    await house.issue();
    assert.equal((await keysCheck(house)).ok, true);
    await redis.hdel(HASH, one.id);
    await eventually(async () => assert.equal(await metric(house, LOST), 1));
    assert.match((await keysCheck(house)).why ?? "", /1 key is gone/);
    await doAsTold(house);
    await readyWithin(house, 5_000);
    assert.equal((await house.ask(one.key)).status, 200);
    assert.equal((await house.ask(other.key)).status, 401);
  });

  it("by somebody who deletes an account by hand are that account alone, and the one line brings its keys back", async () => {
    await using house = await openHouse();
    const [one, other] = [await house.issue({ account: "acme" }), await house.issue()];
    const revoked = await house.issue({ account: "acme" });
    const text = JSON.parse((await redis.hget(HASH, revoked.id)) ?? "") as object;
    const ended = JSON.stringify({ ...text, revoked: "2026-01-02T00:00:00.000Z" });
    await redis.multi().hset(HASH, revoked.id, ended).hdel(HASH, "@acme").exec();
    await eventually(async () => assert.equal(await metric(house, LOST), 1));
    assert.match((await keysCheck(house)).why ?? "", /^1 account is gone/);
    const [{ keys, accounts, ids } = assert.fail()] = events(house);
    assert.deepEqual([keys, accounts, String(ids)], [0, 1, "acme"]);
    assert.equal((await house.ask(one.key)).status, 401);
    assert.equal((await house.ask(other.key)).status, 200);
    await doAsTold(house);
    await readyWithin(house, 5_000);
    assert.deepEqual([await metric(house, LOST), await metric(house, DAMAGED)], [0, 0]);
    assert.equal((await house.ask(one.key)).status, 200);
    assert.equal((await house.ask(revoked.key)).status, 401, "no import revives a key");
  });

  it("by somebody who deletes an account and then its key by hand are both told, and both come back", async () => {
    await using house = await openHouse();
    const { id, key } = await house.issue({ account: "acme" });
    await redis.hdel(HASH, "@acme");
    await eventually(async () => assert.equal(await metric(house, LOST), 1));
    await redis.hdel(HASH, id);
    await eventually(async () => assert.equal(await metric(house, LOST), 2));
    assert.match((await keysCheck(house)).why ?? "", /^1 key and 1 account are gone/);
    assert.equal(await metric(house, DAMAGED), 0);
    await doAsTold(house);
    await readyWithin(house, 5_000);
    assert.equal((await house.ask(key)).status, 200);
    // Nor is it counted, or set aside, twice when it is lost again.
    await redis.hdel(HASH, "@acme", id);
    await eventually(async () => assert.equal(await metric(house, LOST), 2));
    await doAsTold(house);
    await readyWithin(house, 5_000);
  });

  it("before and after a restart of the gateway all come back by the one line", async () => {
    await using folder = await openFolder();
    const config = { keys: "redis", stateFile: join(folder.path, "state.json") };
    const first = await openRedisHouse(server, { config });
    const one = await first.issue();
    await redis.flushall();
    await eventually(async () => assert.equal(await metric(first, LOST), 2));
    await first[Symbol.asyncDispose]();
    await using house = await openRedisHouse(server, { config });
    const other = await house.issue();
    await redis.flushall();
    await eventually(async () => assert.equal(await metric(house, LOST), 2));
    await eventually(async () => {
      await doAsTold(house);
      assert.equal(await metric(house, LOST), 0);
    });
    for (const { key } of [one, other]) assert.equal((await house.ask(key)).status, 200);
  });

  it("while no gateway ran stay in use, fail `keys`, and one line brings them back", async () => {
    const first = await openHouse();
    const { key } = await first.issue();
    await using folder = await openFolder();
    const config = { keys: "redis", stateFile: join(folder.path, "state.json") };
    await first[Symbol.asyncDispose]();
    await redis.flushall();
    const before = await openRedisHouse(server, { config });
    const again = await before.issue();
    await eventually(async () => assert.equal((await before.ask(again.key)).status, 200));
    await before[Symbol.asyncDispose]();
    await redis.flushall();
    await using house = await openRedisHouse(server, { config });
    assert.equal((await house.ask(again.key)).status, 200, "the copy stays in use");
    assert.equal(await metric(house, LOST), 2);
    assert.equal(events(house).length, 1);
    await doAsTold(house);
    await eventually(async () => assert.equal(await metric(house, LOST), 0));
    await readyWithin(house, 5_000);
    assert.equal((await house.ask(again.key)).status, 200);
    assert.equal((await house.ask(key)).status, 401);
  });
});
