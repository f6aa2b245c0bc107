import assert from "node:assert/strict";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it, type TestContext } from "vitest";
import { each } from "../support/each.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { openTcpProxy, type TcpProxy } from "../support/wire/tcp-proxy.ts";
import {
  askTimed,
  changes,
  metric,
  openHouseBehind,
  percentile,
  type Told,
} from "./redis-house.ts";

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

/** The way to Redis of one test: they run at the same time, and each has accounts of its own. */
async function openWay(t: TestContext): Promise<TcpProxy> {
  const proxy = await openTcpProxy(server);
  t.onTestFinished(() => proxy.close());
  return proxy;
}

/** Requests under way at each gateway. */
const AT_ONCE = 60;
const ACCOUNTS = 3;
const LIMIT = 200;
/** A month has no edge that a test is likely to meet; `deny` shows each call that counts as lost. */
const TERMS = {
  storeTimeout: "1s",
  onStoreFailure: "deny",
  plans: { free: { month: LIMIT } },
  bans: "off",
};
const agent = new Agent({ keepAlive: true, maxSockets: 512 });

/** Asks all houses in turn, `AT_ONCE` at each, until every account was asked for half as much again. */
async function askAll(houses: readonly TestGateway[], keys: readonly string[]): Promise<Told[]> {
  const total = ACCOUNTS * LIMIT * 1.5;
  const told: Told[] = [];
  const askers = houses.length * AT_ONCE;
  const asker = async (first: number) => {
    for (let i = first; i < total; i += askers) {
      const house = houses[i % houses.length] as TestGateway;
      told.push(await askTimed(house, keys[i % ACCOUNTS] as string, agent));
    }
  };
  await Promise.all(Array.from({ length: askers }, (_, first) => asker(first)));
  return told;
}

async function commandsOf(houses: readonly TestGateway[]): Promise<number> {
  const counts = houses.map((house) => metric(house, "tollgate_store_commands_total"));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

async function countCommands<T>(houses: readonly TestGateway[], work: () => Promise<T>) {
  const [startMs, before] = [performance.now(), await commandsOf(houses)];
  const value = await work();
  const commands = (await commandsOf(houses)) - before;
  return { value, commands, tookMs: performance.now() - startMs };
}

const changesOf = (houses: readonly TestGateway[]) => houses.flatMap((house) => changes(house));
const admitted = (told: readonly Told[]) => told.filter(({ status }) => status === 200);

/** A key for each account, once every house accepts it: one unit of each is used for that. */
async function keysOf(houses: readonly TestGateway[]): Promise<readonly string[]> {
  const keys: string[] = [];
  for (let i = 0; i < ACCOUNTS; i++) keys.push((await (houses[0] as TestGateway).issue()).key);
  for (const house of houses) {
    for (const key of keys) {
      await eventually(async () => assert.equal((await askTimed(house, key, agent)).status, 200));
    }
  }
  return keys;
}

const ROUNDS_MAX = 5;
/** Long enough for what gateways send by themselves, which is each second. */
const IDLE_MS = 2_000;
/** A machine that is quiet stands still for less than this in a round. */
const STALLED_MS = 500;

type Round = {
  /** Asked one after the other, before the others. */
  readonly single: readonly Told[];
  readonly told: readonly Told[];
  /** Commands for these requests. */
  readonly commands: number;
  /** The changes of the store that the houses told meanwhile. */
  readonly said: readonly string[];
};

function medianOf({ told }: Round): number {
  const tookMs = admitted(told).map((each) => each.tookMs);
  return percentile(tookMs, 0.5);
}

/**
 * Asks all houses for accounts of their own, a few times alone and then all at once. Where this
 * process stood still meanwhile a call may be late from a Redis that is near: such a round is asked
 * again.
 */
async function askRound(houses: readonly TestGateway[]): Promise<Round> {
  for (let round = 1; ; round++) {
    const { value, stalledMs } = await watchStalls(() => askOnce(houses));
    const { single, told, said } = value;
    const isLate = said.length > 0 || [...single, ...told].some(({ status }) => status === 503);
    if (!isLate || stalledMs < STALLED_MS || round === ROUNDS_MAX) return value;
  }
}

async function askOnce(houses: readonly TestGateway[]): Promise<Round> {
  const saidBefore = changesOf(houses).length;
  const keys = await keysOf(houses);
  const [one] = houses as readonly [TestGateway];
  const single: Told[] = [];
  for (let i = 0; i < 5; i++) single.push(await askTimed(one, keys[0] as string, agent));
  const idle = await countCommands(houses, () => sleep(IDLE_MS));
  const asked = await countCommands(houses, () => askAll(houses, keys));
  const { value: told, tookMs } = asked;
  // Heartbeats and the like go on meanwhile, and a busy machine takes longer.
  const commands = asked.commands - (idle.commands * tookMs) / idle.tookMs;
  return { single, told, commands, said: changesOf(houses).slice(saidBefore) };
}

describe("gateways far from their Redis", () => {
  for (const tripMs of [80, 200]) {
    it(`are exact at ${tripMs} ms, with 0.1 commands a request, and one trip of latency`, async (t: TestContext) => {
      const proxy = await openWay(t);
      await using one = await openHouseBehind(proxy, { config: TERMS, environment: { api: null } });
      const config = { ...TERMS, keys: `${one.directory}/keys.json` };
      await using other = await openHouseBehind(proxy, { config, environment: { api: null } });
      const both = [one, other];
      const askNearAndFar = async () => {
        proxy.behave({});
        const near = await askRound(both);
        proxy.behave({ latencyMs: tripMs / 2 });
        const far = await askRound(both);
        return { near, far, addedMs: medianOf(far) - medianOf(near) };
      };
      let pair = await askNearAndFar();
      // Other work of the machine is not in each pair; a trip that calls wait for is.
      for (let i = 1; pair.addedMs >= 2 * tripMs && i < ROUNDS_MAX; i++) {
        pair = await askNearAndFar();
      }
      const { near, far, addedMs } = pair;

      const alone = Math.min(...far.single.map(({ tookMs }) => tookMs));
      // A timer may be early by a millisecond, either way.
      assert.ok(alone >= tripMs - 4 && alone < 2 * tripMs, `a request alone took ${alone} ms`);
      for (const { told, single, said } of [near, far]) {
        assert.deepEqual(said, []);
        assert.deepEqual([...new Set(told.map(({ status }) => status))].sort(), [200, 429]);
        const left = ACCOUNTS * (LIMIT - both.length) - single.length;
        assert.equal(admitted(told).length, left, "exactly the limit, over both");
      }
      const perRequest = far.commands / far.told.length;
      assert.ok(perRequest <= 0.1, `${perRequest} commands a request`);
      // A trip of its own, and never as much again for the call ahead of it.
      assert.ok(addedMs < 2 * tripMs, `${tripMs} ms have added ${addedMs} ms`);
      await t.annotate(
        `${tripMs} ms: ${perRequest.toFixed(3)} commands a request; alone ${alone.toFixed(0)} ms; ${2 * AT_ONCE} at once: half in ${medianOf(far).toFixed(0)} ms, near ${medianOf(near).toFixed(0)} ms`,
      );
    });
  }

  it("wait a storeTimeout for a Redis that is silent, then for nothing, and come back to it exact", async (t: TestContext) => {
    const proxy = await openWay(t);
    const config = { ...TERMS, bans: "off" };
    await using house = await openHouseBehind(proxy, { config, environment: { api: null } });
    const { key, account } = await house.issue();
    proxy.behave({ latencyMs: 100 });
    const admitted = [await askTimed(house, key, agent), await askTimed(house, key, agent)];
    assert.deepEqual(
      admitted.map(({ status }) => status),
      [200, 200],
    );

    proxy.behave({ blackHole: true });
    const waited = await Promise.all(Array.from({ length: 8 }, () => askTimed(house, key, agent)));
    assert.ok(each(waited).every(({ status, tookMs }) => status === 503 && tookMs >= 950));
    await eventually(
      async () => {
        await askTimed(house, key, agent);
        assert.deepEqual(changes(house), ["store_away"]);
      },
      { withinMs: 60_000 },
    );
    const quick: number[] = [];
    for (let i = 0; i < 10; i++) {
      const { status, tookMs } = await askTimed(house, key, agent);
      assert.equal(status, 503);
      quick.push(tookMs);
    }
    assert.ok(Math.min(...quick) < 200, `nobody waits any more: ${quick}`);

    // The calls of before arrive now, too late: they charge nothing.
    proxy.behave({ latencyMs: 100 });
    await eventually(() => assert.deepEqual(changes(house), ["store_away", "store_back"]), {
      withinMs: 60_000,
    });
    const { tookMs } = await eventually(async () => {
      const told = await askTimed(house, key, agent);
      assert.equal(told.status, 200);
      return told;
    });
    // A timer may be early by a millisecond, either way.
    assert.ok(tookMs >= 196, `a trip of 200 ms took ${tookMs} ms`);
    const usage = await (await house.admin(`/api/usage/${account}`)).json();
    assert.equal((usage as { windows: { used: number }[] }).windows[0]?.used, 3);
  });

  it("count a Redis as away that is farther than storeTimeout, and say why", async (t: TestContext) => {
    const proxy = await openWay(t);
    const config = { ...TERMS, storeTimeout: "100ms" };
    await using house = await openHouseBehind(proxy, { config, environment: { api: null } });
    const { key } = await house.issue();
    // A busy machine has a turn of the event loop of more than the 100 ms, and none so long as a trip.
    proxy.behave({ latencyMs: 400 });
    await eventually(
      async () => {
        await askTimed(house, key, agent);
        assert.deepEqual(changes(house), ["store_away"]);
      },
      { withinMs: 60_000 },
    );
    assert.match(JSON.stringify(house.said), /no answer in 100 ms/);
    await sleep(2_500);
    assert.deepEqual(changes(house), ["store_away"], "the probe is no more patient than a request");
    proxy.behave({});
    await eventually(() => assert.deepEqual(changes(house), ["store_away", "store_back"]), {
      withinMs: 60_000,
    });
  });
});
