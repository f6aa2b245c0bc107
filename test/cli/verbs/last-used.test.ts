import assert from "node:assert/strict";
import { describe, it, vi } from "vitest";
import type { KeyReport } from "../../../src/core/keys/record-reports.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openAdmin, send } from "../access/admin-server.ts";
import { openAudited } from "../audit-kit.ts";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const today = () => new Date().toISOString().slice(0, 10);

/** Every verb that tells when a key was used last, a moment after its first call. */
async function tellsAtOnce(store: string): Promise<void> {
  await using house = await openAudited({ config: { store } });
  const used = await house.issue();
  const idle = await house.issue();
  const run = async (where: readonly string[], verb: readonly string[]) => {
    const said = await runVerb(["keys", ...verb, ...where], { stdin: used.key });
    assert.equal(said.status, 0, said.err);
    return said;
  };
  const day = today();
  await (await house.ask(used.key)).text();
  await eventually(() => assert.equal(house.lines.length, 1));
  const ways = [
    ["--config", house.file],
    ["--admin", house.adminUrl],
  ];
  for (const where of ways) {
    const listed = jsonOf<KeyReport[]>(await run(where, ["list", "--json"]));
    const days = new Map(listed.map(({ id, lastUsed }) => [id, lastUsed]));
    assert.deepEqual([days.get(used.id), days.get(idle.id)], [day, null], where.join(" "));
    assert.match(
      (await run(where, ["list"])).out,
      new RegExp(`^${used.id} .* ${day} +works$`, "m"),
    );
    for (const verb of [
      ["show", used.id],
      ["find", "-"],
    ]) {
      const { lastUsed } = jsonOf<KeyReport>(await run(where, [...verb, "--json"]));
      assert.equal(lastUsed, day, verb.join(" "));
    }
    const none = jsonOf<KeyReport>(await run(where, ["show", idle.id, "--json"]));
    assert.equal(none.lastUsed, null);
  }
  await house.gateway.stop();
  const later = await run(["--config", house.file], ["show", used.id, "--json"]);
  assert.equal(jsonOf<KeyReport>(later).lastUsed, day, "and when no gateway runs");
}

describe("the day on which a key was used last", () => {
  it("is told right after its first call, by a gateway with a store of its own", () => {
    return tellsAtOnce("memory");
  });

  it("and by one that shares its store", async () => {
    const redis = await startRedis();
    try {
      await tellsAtOnce(redis.url);
    } finally {
      await redis.close();
    }
  });

  it("is left out, not null, of a key that was used, if the store of the gateway of --admin is away", async () => {
    const redis = await startRedis();
    await using house = await openAudited({ config: { store: redis.url } });
    const used = await house.issue();
    await house.issue();
    const run = async (...verb: string[]) => {
      const said = await runVerb(["keys", ...verb, "--admin", house.adminUrl]);
      assert.equal(said.status, 0, said.err);
      return said;
    };
    await (await house.ask(used.key)).text();
    await eventually(async () => {
      const { lastUsed } = jsonOf<KeyReport>(await run("show", used.id, "--json"));
      assert.equal(lastUsed, today());
    });
    await redis.close();
    for (const verb of [["list"], ["show", used.id]]) {
      const { out, err } = await run(...verb, "--json");
      const told = [jsonOf<KeyReport | KeyReport[]>({ out })].flat();
      assert.ok(told.some(({ id }) => id === used.id));
      assert.ok(!out.includes("lastUsed"), out);
      const why = "the gateway could not ask its store";
      assert.equal(err, `Cannot tell when keys were used last: ${why}\n`);
    }
    const { out } = await run("list");
    assert.match(out, new RegExp(`^${used.id} .* unknown +works$`, "m"));
  });

  it("is asked for of one key alone, and of several in one list, and waited for up to 5 s", async (t) => {
    await using folder = await openFolder();
    await using admin = await openAdmin((response, { asked }) => {
      const used = { id: asked.split("/").at(-1), lastUsed: "2026-07-15" };
      send(response, 200, asked.includes("?") ? [] : used);
    });
    const file = await writeConfig(folder, { admin: admin.port });
    const run = (...args: string[]) => runVerb(["keys", ...args, "--json", "--config", file]);
    const create = ["create", "--env", "production", "--plan", "free"];
    const { id } = jsonOf<KeyReport>(await run(...create));
    const lastUsedOf = async (...args: string[]) => {
      admin.questions.length = 0;
      const told = [jsonOf<KeyReport | KeyReport[]>(await run(...args))].flat();
      const asked = admin.questions.map((one) => one.asked).filter((one) => /keys/.test(one));
      return [told.map(({ lastUsed }) => lastUsed), asked];
    };
    assert.deepEqual(await lastUsedOf("show", id), [["2026-07-15"], [`GET /api/keys/${id}`]]);
    await run(...create);
    const timeout = vi.spyOn(AbortSignal, "timeout");
    t.onTestFinished(() => timeout.mockRestore());
    assert.deepEqual(await lastUsedOf("list"), [[null, null], ["GET /api/keys?limit=10000"]]);
    assert.deepEqual(timeout.mock.lastCall, [5_000]);
  });

  it("is left out where the store is away, which is told", async () => {
    await using folder = await openFolder();
    const store = "redis://127.0.0.1:1";
    const file = await writeConfig(folder, { store });
    const run = (...args: string[]) => runVerb(["keys", ...args, "--json", "--config", file]);
    const { id } = jsonOf<KeyReport>(await run("create", "--env", "production", "--plan", "free"));
    const { status, out, err } = await run("list");
    const [key, ...others] = jsonOf<KeyReport[]>({ out });
    assert.deepEqual([status, key?.id, key?.lastUsed, others], [0, id, undefined, []]);
    const why = "Redis cannot be reached: ECONNREFUSED";
    assert.ok(err.startsWith(`Cannot tell when keys were used last: ${why}`), err);
  });
});
