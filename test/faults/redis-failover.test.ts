import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import { each } from "../support/each.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { openTcpProxy } from "../support/wire/tcp-proxy.ts";
import {
  askTimed,
  changes,
  isReady,
  openHouseBehind,
  readyWithin,
  startLoad,
} from "./redis-house.ts";

const LAG_MS = 500;
/** Twenty seconds of the load at its fastest. */
const LIMIT = 1_000;
const PER_SECOND = 50;
/** The rest of the limit is spent faster: nothing happens meanwhile. */
const PER_SECOND_AFTER = 500;
const BANS = { strikes: 1, within: "10s", grace: "0s", duration: "1h" };

/** A primary and its replica, which learns of every write half a second later; and who is asked. */
async function openPair() {
  const args = ["--repl-diskless-sync-delay", "0"];
  const primary = await startRedis({ args });
  const link = await openTcpProxy(primary);
  const replica = await startRedis({ args: [...args, "--replicaof", "127.0.0.1", `${link.port}`] });
  const admin = await replica.client();
  const inSync = async () => /master_link_status:up/.test(await admin.info("replication"));
  await eventually(inSync, { withinMs: 60_000 });
  // The primary holds writes back until the replica has acknowledged: one that arrives says it has.
  await (await primary.client()).set("first", "1");
  await eventually(async () => (await admin.get("first")) === "1", { withinMs: 60_000 });
  link.behave({ latencyMs: LAG_MS });
  const target = { port: primary.port };
  const front = await openTcpProxy(target);
  return {
    front,
    kill: async () => {
      await primary.kill();
      await link.close();
    },
    /** The count of an account in the replica when it was promoted. */
    promote: async (account: string) => {
      const [key = ""] = await admin.keys(`tg:*:production:${account}`);
      const used = Number((await admin.hget(key, "d"))?.split(" ")[1] ?? 0);
      await admin.replicaof("NO", "ONE");
      target.port = replica.port;
      return used;
    },
    [Symbol.asyncDispose]: async () => {
      await front.close();
      await link.close();
      await replica.close();
      await primary.close();
    },
  };
}

it("2.1 Failover (async): with a replica 500 ms behind, admitted <= limit + lag x rate; and bans hold", async (t) => {
  await using pair = await openPair();
  await using house = await openHouseBehind(pair.front, {
    // Redis refuses at once: a machine that stands still for 50 ms must not look like its absence.
    config: { storeTimeout: "1s", plans: { free: { day: LIMIT }, pro: { day: 1 } }, bans: BANS },
  });
  const [{ key, account }, banned] = [await house.issue(), await house.issue({ plan: "pro" })];
  const other = await house.issue();
  // One after the other: a slow machine is late with the end of the primary, and asks less until then.
  const load = startLoad(house, [key], PER_SECOND, 1);
  await eventually(() => load.told.length > PER_SECOND);
  // Earned within the lag: the replica will not have heard of it.
  await eventually(async () => (await askTimed(house, banned.key)).code === "key_banned");
  const killedMs = performance.now();
  // This key asks no more until the replica serves: a slow machine would spend its limit meanwhile.
  const [before] = await Promise.all([load.stop(), pair.kill()]);
  assert.ok(before.length < LIMIT, "it is not over yet");
  await eventually(async () => {
    await askTimed(house, other.key);
    assert.deepEqual(changes(house), ["store_away"]);
  });
  assert.equal((await isReady(house)).status, 503);
  const replicated = await pair.promote(account);
  await readyWithin(house, 5_000);
  const again = startLoad(house, [key], PER_SECOND_AFTER);
  await eventually(() => again.told.filter(({ status }) => status === 429).length > 50);
  await sleep(100);
  const all = [...before, ...(await again.stop())];

  const admitted = all.filter(({ status }) => status === 200);
  assert.ok(each(all).every(({ status }) => status === 200 || status === 429));
  const lagging = before.filter(({ status, atMs, tookMs }) => {
    return status === 200 && atMs + tookMs > killedMs - LAG_MS - 250;
  });
  t.annotate(
    `${admitted.length} admitted of ${LIMIT}, lag x rate ${(LAG_MS / 1_000) * PER_SECOND}: ` +
      `${lagging.length} while the replica was behind, which had heard of ${replicated}`,
  );
  assert.ok(admitted.length > LIMIT, "the lag was real");
  assert.ok(admitted.length <= LIMIT + lagging.length, `${admitted.length}, ${lagging.length}`);
  for (let i = 0; i < 5; i++) {
    assert.equal((await askTimed(house, banned.key)).code, "key_banned");
  }
  assert.deepEqual(changes(house), ["store_away", "store_back"]);
});
