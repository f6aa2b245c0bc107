import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { StoreAvailability } from "../../../src/server/workers/store-availability.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { freePort, startRedis } from "../../support/redis/redis.ts";
import { startCluster } from "../../support/redis/redis-engines.ts";
import { get, issueKeys } from "./kit.ts";
import { openPoolOn } from "./pool.ts";

function house() {
  const told: unknown[] = [];
  const write = (line: string) => {
    const { kind, accountsCharged, why, buckets } = JSON.parse(line) as Record<string, unknown>;
    const said = kind === "store_back" ? `${kind} ${accountsCharged}` : `${kind} ${why}`;
    told.push(buckets === undefined ? said : `${said} ${buckets}`);
  };
  return { told, seen: new StoreAvailability(createLog({ write }, "info")) };
}
const away = (why: string) => ({ kind: "store_away", details: { why } }) as const;
const back = (accountsCharged: number) =>
  ({ kind: "store_back", details: { accountsCharged } }) as const;

it("the store is away with the first process that lost it, and back with the last one", () => {
  const { seen, told } = house();
  seen.note(1, away("late"));
  seen.note(2, away("unreachable"));
  assert.deepEqual(told, ["store_away late"]);
  seen.note(1, back(3));
  assert.deepEqual(told, ["store_away late"]);
  seen.note(2, back(4));
  assert.deepEqual(told, ["store_away late", "store_back 7"]);
  seen.note(2, away("late"));
  seen.note(2, back(1));
  assert.deepEqual(told.slice(2), ["store_away late", "store_back 1"]);
});

it("the end of the last process that saw the store away brings no store back, but one that starts later and reaches it does", () => {
  const { seen, told } = house();
  seen.note(1, away("late"));
  seen.note(3, away("late"));
  seen.ended(1);
  seen.ended(1);
  seen.ended(3);
  seen.reached(2);
  seen.reached(3);
  seen.note(4, away("unreachable"));
  seen.reached(4);
  assert.deepEqual(told, ["store_away late"]);
  seen.reached(5);
  assert.deepEqual(told, ["store_away late"], "another one does not reach it yet");
  seen.note(4, back(2));
  assert.deepEqual(told, ["store_away late", "store_back 2"]);
  seen.reached(6);
  seen.ended(6);
  seen.note(5, away("late"));
  seen.ended(5);
  seen.reached(6);
  const again = ["store_away late", "store_back 0"];
  assert.deepEqual(told, ["store_away late", "store_back 2", ...again]);
});

it("after the ends of several that saw it away, the store is back with one that started after all of them, in whatever order they ended", () => {
  const { seen, told } = house();
  for (const worker of [1, 3]) seen.note(worker, away("late"));
  for (const worker of [3, 1]) seen.ended(worker);
  seen.reached(2);
  assert.deepEqual(told, ["store_away late"]);
  seen.reached(4);
  assert.deepEqual(told, ["store_away late", "store_back 0"]);
});

it("each bucket of a Cluster is away with the first process that lost it, and back with the last one", () => {
  const { seen, told } = house();
  const lost = (buckets: string) => {
    return { kind: "store_away", details: { why: "late", buckets } } as const;
  };
  const found = (accountsCharged: number, buckets: string) => {
    return { kind: "store_back", details: { accountsCharged, buckets } } as const;
  };
  seen.note(1, lost("2,9,10"));
  seen.note(2, lost("2,9,10"));
  assert.deepEqual(told.splice(0), ["store_away late 2,9,10"]);
  seen.note(2, lost("0,9"));
  assert.deepEqual(told.splice(0), ["store_away late 0"], "only what no process had lost yet");
  seen.note(1, found(3, "2,9,10"));
  assert.deepEqual(told.splice(0), []);
  seen.note(2, found(4, "2,10"));
  assert.deepEqual(told.splice(0), ["store_back 7 2,10"]);
  seen.ended(2);
  seen.reached(1);
  assert.deepEqual(told.splice(0), []);
  seen.reached(3);
  assert.deepEqual(told.splice(0), ["store_back 0 0,9"]);
});

it("a master of a Cluster that is away, and back, is told once for all workers", async () => {
  const cluster = await startCluster(3, ["--cluster-require-full-coverage", "no"]);
  onTestFinished(() => cluster.close());
  await using house = await openPoolOn(cluster.address, { count: 2 });
  const toldOf = (name: string) => {
    return house.told
      .filter(({ kind }) => kind === name)
      .flatMap(({ buckets }) => String(buckets).split(",").map(Number))
      .toSorted((a, b) => a - b);
  };
  const GONE = [1, 2, 5, 6, 9, 12];
  await cluster.nodes[1]?.kill();
  const awayEverywhere = async () => {
    await house.pool.ask(1_000);
    const whys = each(house.pool.checks).map(({ store }) => store.why);
    assert.ok(each(whys).every((why) => why?.includes(`buckets ${GONE.join(", ")} of 16`)));
  };
  await eventually(awayEverywhere);
  assert.deepEqual([toldOf("store_away"), toldOf("store_back")], [GONE, []]);
  await cluster.nodes[1]?.restart();
  const back = async () => {
    await house.pool.ask(1_000);
    assert.ok(each(house.pool.checks).every(({ store }) => store.ok));
  };
  await eventually(back, { withinMs: 60_000 });
  assert.deepEqual([toldOf("store_away"), toldOf("store_back")], [GONE, GONE]);
});

it("a store that is away while all workers end is told as back only once it is", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  await using house = await openPoolOn(redis, {
    count: 2,
    listen: `127.0.0.1:${await freePort()}`,
  });
  const { pids } = house;
  const kinds = () => house.told.flatMap(({ kind }) => (kind === undefined ? [] : [kind]));
  await redis.kill();
  await eventually(() => assert.deepEqual(kinds(), ["store_away"]));
  for (const pid of [...pids]) process.kill(pid, "SIGKILL");
  await eventually(() => assert.equal(pids.length, 4));
  await house.pool.ask(1_000);
  assert.deepEqual(kinds(), ["store_away"]);
  await redis.restart();
  await eventually(() => assert.deepEqual(kinds(), ["store_away", "store_back"]));
});

it("a store that is back is told although a replaced worker lost it while it drained and ended before", async () => {
  const redis = await startRedis();
  const backend = await startTestUpstream(() => {});
  onTestFinished(async () => void (await Promise.all([redis.close(), backend.close()])));
  const [key = ""] = await issueKeys(redis, 1);
  const { origin: upstream } = backend;
  await using house = await openPoolOn(redis, { drain: "10m", upstream });
  const { pool, config, pids } = house;
  const asked = get(`${pool.urls.production}/v1/animals`, key).catch(() => undefined);
  await eventually(() => assert.equal(backend.seen.length, 1));
  const [replaced = 0] = pids;
  process.kill(replaced, "SIGSTOP");
  await pool.reload(config);
  process.kill(replaced, "SIGCONT");
  await eventually(() => assert.equal(pids.length, 2));
  const kinds = () => house.told.flatMap(({ kind }) => (kind === undefined ? [] : [kind]));
  await redis.kill();
  await eventually(() => assert.deepEqual(kinds(), ["store_away"]));
  const isAway = async (away: boolean) => {
    await pool.ask(1_000);
    assert.deepEqual(
      each(pool.checks).map(({ store }) => store.ok),
      [!away],
    );
  };
  await eventually(() => isAway(true));
  process.kill(replaced, "SIGKILL");
  await asked;
  await redis.restart();
  await eventually(() => isAway(false));
  // The other one may have lost it a moment later, and is then told on its own.
  await eventually(() => assert.equal(kinds().at(-1), "store_back"), { withinMs: 10_000 });
});

it("a store that is away at the end of the pool is not told as back by the ends of its workers", async () => {
  const redis = await startRedis();
  onTestFinished(() => redis.close());
  await using house = await openPoolOn(redis, { count: 2 });
  const kinds = () => house.told.flatMap(({ kind }) => (kind === undefined ? [] : [kind]));
  await redis.kill();
  await eventually(() => assert.deepEqual(kinds(), ["store_away"]));
  await house.pool.stop(60_000);
  assert.deepEqual(kinds(), ["store_away"]);
});
