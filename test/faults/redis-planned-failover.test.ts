import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, type TestContext } from "vitest";
import { jsonOf, runVerb } from "../cli/kit.ts";
import { each } from "../support/each.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { startSentinel, type TestSentinel } from "../support/redis/redis-engines.ts";
import {
  askTimed,
  changes,
  dayUsed,
  type Load,
  metric,
  readyWithin,
  startLoad,
  type Told,
} from "./redis-house.ts";

const LIMIT = 300;
const PER_SECOND = 60;
/** The Sentinels say whom they promote, and do it at their next step, a tenth of a second later. */
const STEP_MS = 100;
const SPLIT = "tollgate_store_split";

/** Three Sentinels with a healthy master and its replica, and gateways of one account behind them. */
async function openGroup(t: TestContext, { gateways = 3, allLive = false } = {}) {
  const group = await startSentinel(undefined, undefined, { count: 3, allLive });
  t.onTestFinished(() => group.close());
  const houses: TestGateway[] = [];
  for (let i = 0; i < gateways; i++) {
    const house = await startTestGateway({
      config: {
        store: group.address.url,
        keys: "redis",
        // A Redis that stands still for 50 ms must not look like one that was replaced.
        storeTimeout: "1s",
        plans: { free: { day: LIMIT }, enterprise: "custom" },
      },
    });
    t.onTestFinished(() => house[Symbol.asyncDispose]());
    houses.push(house);
  }
  return { group, houses, first: houses[0] as TestGateway };
}

/** Whether the replica has become the master; the old one is one too until it is told otherwise. */
async function isPromoted({ replica }: TestSentinel): Promise<boolean> {
  return String(await (await replica.client()).info("replication")).includes("role:master");
}

/** When the replica was seen to be the master, as `performance.now()` gives it. */
async function promotedAt(group: TestSentinel): Promise<number> {
  await eventually(() => isPromoted(group), { everyMs: 20 });
  return performance.now();
}

async function knownEverywhere(houses: readonly TestGateway[], key: string): Promise<void> {
  await eventually(async () => {
    for (const house of houses) assert.notEqual((await askTimed(house, key)).status, 401);
  });
}

/** Resolves once the Sentinels have made the old master a replica: about ten seconds later. */
async function isDemoted({ master }: TestSentinel): Promise<boolean> {
  return String(await (await master.client()).info("replication")).includes("role:slave");
}

/**
 * When a Sentinel said whom it promotes, and when it then answered a question of this process: how
 * late the news can be on this machine.
 */
async function hearChoice({ sentinels }: TestSentinel): Promise<{ choice: Promise<Choice> }> {
  const told = sentinels.map(async (sentinel) => {
    const [heard, asked] = [await sentinel.client(), await sentinel.client()];
    const message = once(heard, "message");
    await heard.subscribe("+selected-slave");
    return { message, asked };
  });
  const watched = await Promise.all(told);
  const heard = watched.map(async ({ message, asked }) => {
    await message;
    const chosenMs = performance.now();
    await asked.call("SENTINEL", "REPLICAS", "main");
    return { chosenMs, answeredMs: performance.now() };
  });
  return { choice: Promise.race(heard) };
}
type Choice = { readonly chosenMs: number; readonly answeredMs: number };

type FailedOver = {
  readonly admitted: number;
  /** Those that a master may have counted which was one no more, by what each gateway had noticed. */
  readonly unnoticed: number;
  /** How late a gateway noticed at most, after it could have. */
  readonly noticedMs: number;
};

/**
 * Loads every gateway, with a failover after a third of the limit, until the old master is one no
 * more and each gateway has refused often.
 */
async function failOverUnderLoad(
  { group, houses }: { readonly group: TestSentinel; readonly houses: readonly TestGateway[] },
  key: string,
  { failOver, isOver }: { failOver(): Promise<void>; isOver(): Promise<boolean> },
): Promise<FailedOver> {
  const { choice } = await hearChoice(group);
  const loads = houses.map((house) => startLoad(house, [key], PER_SECOND / houses.length));
  const told = () => loads.flatMap((load) => load.told);
  await eventually(() => told().length > LIMIT / 3);
  await failOver();
  const { chosenMs, answeredMs } = await choice;
  await eventually(isOver, { withinMs: 60_000, everyMs: 100 });
  const refusals = ({ told: of }: Load) => of.filter(({ status }) => status === 429).length;
  const before = loads.map(refusals);
  await eventually(() =>
    each(loads).every((load, i) => refusals(load) > (before[i] as number) + 40),
  );
  const asked = await Promise.all(loads.map((load) => load.stop()));
  const noticed = houses.map((house) => leftMs(house, chosenMs - STEP_MS));
  const admitted = asked.map((of) => of.filter(({ status }) => status === 200));
  const unnoticed = admitted.map((of, i) => {
    return of.filter(({ atMs, tookMs }) => {
      return atMs + tookMs >= chosenMs - STEP_MS && atMs <= (noticed[i] as number);
    });
  });
  return {
    admitted: admitted.flat().length,
    unnoticed: unnoticed.flat().length,
    noticedMs: Math.max(
      ...noticed.map((ms, i) => ms - Math.max(answeredMs, fifthMs(asked[i] ?? [], chosenMs))),
    ),
  };
}

/** When five requests since then were answered: as many failures trip the breaker, which is told. */
function fifthMs(told: readonly Told[], sinceMs: number): number {
  const since = told.filter(({ atMs }) => atMs >= sinceMs);
  const ends = since.map(({ atMs, tookMs }) => atMs + tookMs).toSorted((a, b) => a - b);
  return ends[4] ?? Number.NaN;
}

/** When a gateway left the store, on performance.now(): a stall before `sinceMs` may have made it leave, too. */
function leftMs({ said }: TestGateway, sinceMs: number): number {
  const away = said.filter(({ kind }) => kind === "store_away");
  const left = away.map(({ time }) => Number(time) - performance.timeOrigin);
  return left.find((ms) => ms >= sinceMs) ?? Number.NaN;
}

/** The rest of the limit is shared while the store is away, and each share is rounded up. */
function admittedMax({ unnoticed }: FailedOver, houses: readonly TestGateway[]): number {
  return LIMIT + houses.length - 1 + unnoticed;
}

describe("2.1 Failover (planned): a healthy master is replaced by SENTINEL FAILOVER", () => {
  it("under load admits the limit, and no charge is written to the demoted master", async (t) => {
    const { group, houses, first } = await openGroup(t, { allLive: true });
    const { key, account } = await first.issue();
    await knownEverywhere(houses, key);
    const found = await failOverUnderLoad({ group, houses }, key, {
      failOver: () => group.failOver(),
      isOver: () => isDemoted(group),
    });
    const { admitted } = found;
    await t.annotate(`${JSON.stringify(found)}, ${await dayUsed(first, account)} counted`);
    assert.ok(await isPromoted(group));
    for (const house of houses) await readyWithin(house, 10_000);
    assert.ok(admitted + houses.length >= LIMIT - 20, `${admitted}`);
    assert.ok(admitted <= admittedMax(found, houses), JSON.stringify(found));
    assert.ok(found.noticedMs <= 500, `${found.noticedMs} ms`);
    for (const house of houses) assert.deepEqual(changes(house), ["store_away", "store_back"]);
  });

  it("loses no key of a command or the admin API but what replication had not carried over, which is told, and no revocation", async (t) => {
    const { group, houses, first } = await openGroup(t, { gateways: 2, allLive: true });
    const keys = (...args: string[]) =>
      runVerb(["keys", ...args, "--json", "--config", first.file]);
    const doomed = await Promise.all([first.issue(), first.issue(), first.issue(), first.issue()]);
    const made: { readonly key: string; readonly askedMs: number }[] = [];
    const revoked: string[] = [];
    await group.failOver();
    const promoted = promotedAt(group);
    const untilMs = performance.now() + 4_000;
    const isOver = () => {
      return performance.now() > untilMs && made.length > 10 && revoked.length > 1;
    };
    const byVerb = async () => {
      while (!isOver()) {
        const askedMs = performance.now();
        const said = await keys("create", "--env", "production", "--plan", "free");
        if (said.status === 0) made.push({ key: jsonOf<{ key: string }>(said).key, askedMs });
        const one = doomed.pop();
        if (one !== undefined && (await keys("revoke", one.id)).status === 0) revoked.push(one.key);
      }
    };
    const byApi = async () => {
      const body = JSON.stringify({ environment: "production", plan: "free" });
      while (!isOver()) {
        const askedMs = performance.now();
        const answer = await first.admin("/api/keys", { method: "POST", body });
        if (answer.status !== 201) await sleep(20);
        else made.push({ key: ((await answer.json()) as { key: string }).key, askedMs });
      }
    };
    const [promotedMs] = await Promise.all([promoted, byVerb(), byApi()]);
    await sleep(1_000);
    const file = await fileOfLost(first);
    if (file !== undefined) {
      // A replica that is behind when it is promoted never gets the rest, and nobody can tell before.
      const lost: number[] = [];
      for (const { key, askedMs } of made) {
        if ((await askTimed(first, key)).status === 401) lost.push(askedMs);
      }
      const late = lost.filter((askedMs) => askedMs >= promotedMs);
      assert.deepEqual(
        late,
        [],
        `asked for after ${promotedMs}: none is written to the old master`,
      );
      assert.equal((await keys("import", file)).status, 0);
    }
    t.annotate(`${made.length} keys made, ${revoked.length} revoked, brought back by ${file}`);
    for (const house of houses) {
      await readyWithin(house, 10_000);
      for (const { key } of made) assert.notEqual((await askTimed(house, key)).status, 401);
      for (const key of revoked) assert.equal((await askTimed(house, key)).status, 401);
    }
  });
});

/** The file that brings back records that are told as gone; undefined where none are. */
function fileOfLost(house: TestGateway): Promise<string | undefined> {
  return eventually(async () => {
    const response = await house.admin("/readyz");
    const text = await response.text();
    const [, file] = /tollgate keys import ([^"\s]+)/.exec(text) ?? [];
    assert.ok(file !== undefined || response.status === 200, text);
    return file;
  });
}

it("2.1 Failover (blind Sentinels): a master that lives on unseen is left within a second", async (t) => {
  const { group, houses, first } = await openGroup(t);
  const { key } = await first.issue();
  await knownEverywhere(houses, key);
  const old = await group.master.client();
  const found = await failOverUnderLoad({ group, houses }, key, {
    failOver: () => group.blind(),
    isOver: () => isPromoted(group),
  });
  t.annotate(JSON.stringify(found));
  assert.match(await old.info("replication"), /role:master/, "the old one still thinks so");
  assert.ok(found.admitted <= admittedMax(found, houses), JSON.stringify(found));
  assert.ok(found.noticedMs <= 1_000, `${found.noticedMs} ms`);
  const later = await first.issue();
  await knownEverywhere(houses, later.key);
  assert.equal(await old.hexists("tg:{0}:keys", later.id), 0, "nothing is written to the old one");
});

it("2.1 Failover (split): Sentinels that do not agree are told, and most of them are followed", async (t) => {
  const { group, first } = await openGroup(t, { gateways: 1, allLive: true });
  await eventually(async () => assert.equal(await metric(first, SPLIT), 0));
  const { key } = await first.issue();
  await knownEverywhere([first], key);
  // The first of three names a master that is none of the others'.
  const other = await startRedis();
  t.onTestFinished(() => other.close());
  const stale = await group.sentinel.client();
  const monitor = async (port: number) => {
    await stale.call("SENTINEL", "REMOVE", "main");
    await stale.call("SENTINEL", "MONITOR", "main", "127.0.0.1", port, 2);
    await stale.call("SENTINEL", "SET", "main", "auth-user", "watcher", "auth-pass", "sees-all");
  };
  const told = () =>
    first.said.map(({ msg }) => String(msg)).filter((one) => /split|united/.test(one));
  await monitor(other.port);
  await eventually(async () => assert.equal(await metric(first, SPLIT), 1));
  await eventually(() => assert.deepEqual(told(), ["store_split"]));
  const { id } = await first.issue();
  assert.equal((await askTimed(first, key)).status, 200);
  assert.deepEqual(changes(first), []);
  // One that starts now asks the others too.
  const config = { store: group.address.url, keys: "redis" };
  await using second = await startTestGateway({ config });
  await readyWithin(second, 5_000);
  assert.equal(await (await group.master.client()).hexists("tg:{0}:keys", id), 1);
  assert.equal(await (await other.client()).dbsize(), 0);
  await monitor(group.master.port);
  await eventually(async () => assert.equal(await metric(first, SPLIT), 0));
  await eventually(() => assert.deepEqual(told(), ["store_split", "store_united"]));
});
