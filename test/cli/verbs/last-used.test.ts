import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { KeyReport } from "../../../src/core/keys/record-reports.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openAudited } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

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
  await house.started.stop();
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
});
