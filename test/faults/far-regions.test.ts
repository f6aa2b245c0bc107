import assert from "node:assert/strict";
import { Agent } from "node:http";
import { afterAll, beforeAll, describe, it, type TestContext } from "vitest";
import { each } from "../support/each.ts";
import type { TestGateway } from "../support/gateway/house.ts";
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

const commandsOf = (house: TestGateway) => metric(house, "tollgate_store_commands_total");
const admitted = (told: readonly Told[]) => told.filter(({ status }) => status === 200);
const medianMs = (told: readonly Told[]) =>
  percentile(
    told.map(({ tookMs }) => tookMs),
    0.5,
  );

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

describe.concurrent("gateways far from their Redis", () => {
  for (const tripMs of [80, 200]) {
    it(`are exact at ${tripMs} ms, with 0.1 commands a request, and one trip of latency`, async (t: TestContext) => {
      const proxy = await openWay(t);
      await using one = await openHouseBehind(proxy, { config: TERMS, environment: { api: null } });
      const config = { ...TERMS, keys: `${one.directory}/keys.json` };
      await using other = await openHouseBehind(proxy, { config, environment: { api: null } });
      const both = [one, other];
      const near = await askAll(both, await keysOf(both));

      proxy.behave({ latencyMs: tripMs / 2 });
      const keys = await keysOf(both);
      const single: number[] = [];
      for (let i = 0; i < 5; i++) {
        single.push((await askTimed(one, keys[0] as string, agent)).tookMs);
      }
      const alone = Math.min(...single);
      // A timer may be early by a millisecond, either way.
      assert.ok(alone >= tripMs - 4 && alone < 2 * tripMs, `a request alone took ${alone} ms`);

      const before = (await commandsOf(one)) + (await commandsOf(other));
      const far = await askAll(both, keys);
      const commands = (await commandsOf(one)) + (await commandsOf(other)) - before;
      proxy.behave({});

      assert.deepEqual([...new Set(far.map(({ status }) => status))].sort(), [200, 429]);
      const tried = ACCOUNTS * both.length;
      assert.equal(admitted(near).length, ACCOUNTS * LIMIT - tried, "exactly the limit, over both");
      const left = ACCOUNTS * LIMIT - tried - single.length;
      assert.equal(admitted(far).length, left, "exactly the limit, from afar");
      const perRequest = commands / far.length;
      assert.ok(perRequest <= 0.1, `${perRequest} commands a request`);
      const [nearMs, farMs] = [medianMs(admitted(near)), medianMs(admitted(far))];
      const added = farMs - nearMs;
      // A trip of its own, and never as much again for the call ahead of it.
      assert.ok(added < 2 * tripMs, `${tripMs} ms have added ${added} ms`);
      assert.deepEqual([...changes(one), ...changes(other)], []);
      await t.annotate(
        `${tripMs} ms: ${perRequest.toFixed(3)} commands a request; alone ${alone.toFixed(0)} ms; ${2 * AT_ONCE} at once: half in ${farMs.toFixed(0)} ms, near ${nearMs.toFixed(0)} ms`,
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
    proxy.behave({ latencyMs: 100 });
    await eventually(
      async () => {
        await askTimed(house, key, agent);
        assert.deepEqual(changes(house), ["store_away"]);
      },
      { withinMs: 60_000 },
    );
    assert.match(JSON.stringify(house.said), /no answer in 100 ms/);
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    assert.deepEqual(changes(house), ["store_away"], "the probe is no more patient than a request");
    proxy.behave({});
    await eventually(() => assert.deepEqual(changes(house), ["store_away", "store_back"]), {
      withinMs: 60_000,
    });
  });
});
