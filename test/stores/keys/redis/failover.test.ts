import assert from "node:assert/strict";
import { it } from "vitest";
import { compareRecords } from "../../../../src/stores/keys/records/record-changes.ts";
import { createRedisRecords } from "../../../../src/stores/keys/redis/redis-records.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import type { Link } from "../../../../src/stores/redis/link.ts";
import { recordsFrom } from "../../../support/records.ts";
import { startRedis } from "../../../support/redis/redis.ts";

it("a change of the records that met a failover counts only where the new master has it", async (t) => {
  const servers = [await startRedis(), await startRedis()] as const;
  const links = servers.map(({ address }) => connectRedis({ address }));
  t.onTestFinished(async () => {
    for (const link of links) await link.close();
    for (const server of servers) await server.close();
  });
  const [old, fresh] = links as [Link, Link];
  await Promise.all(links.map(({ tried }) => tried));
  let current = old;
  // The failover is over between the write and the question whether the master is still the same.
  const link: Link = {
    ...old,
    send: async (...call) => {
      const from = current;
      const answer = await from.send(...call);
      if (call[1].startsWith("eval")) current = fresh;
      return answer;
    },
    master: async () => (current === old ? "old" : "new"),
  };
  const redisRecords = createRedisRecords(link, "tg", Date.now);
  const none = { keys: [], accounts: [] };
  const before = await redisRecords.all(none, "small");
  const records = recordsFrom([{ id: "one" }]);
  const write = { records, changes: await compareRecords(none, records), to: "1.abc" };

  const putVersion = async () => {
    const after = await redisRecords.put(before, write);
    return typeof after === "string" ? after : after.version;
  };
  assert.equal(await putVersion(), "failed over", "the new master has not heard of it");
  assert.equal(await putVersion(), "1.abc", "made again, it is there");
  current = old;
  assert.equal((await redisRecords.mark()).version, "1.abc");
  await (await servers[0].client()).del("tg:{0}:keys");
  assert.equal(await putVersion(), "1.abc", "replication had carried it over");
});
