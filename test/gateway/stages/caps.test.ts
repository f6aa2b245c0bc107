import assert from "node:assert/strict";
import { describe, it, type TestContext } from "vitest";
import { jsonOf, runVerb } from "../../cli/kit.ts";
import { each } from "../../support/each.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { useProxiedRedis } from "../../support/redis/redis-of-file.ts";
import { errorOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const { server, redis, proxy } = await useProxiedRedis();
const PLANS = { free: { day: 1_000 }, agreed: { day: 50_000 } };

let prefix = 0;
async function open(t: TestContext, count = 1, config = {}): Promise<TestGateway[]> {
  const shared = { store: server.url, keys: "redis", storePrefix: `caps${prefix++}`, plans: PLANS };
  const houses: TestGateway[] = [];
  for (let i = 0; i < count; i++) {
    const house = await startTestGateway({ config: { ...shared, ...config } });
    t.onTestFinished(() => house[Symbol.asyncDispose]());
    houses.push(house);
  }
  return houses;
}

type Windows = { readonly windows: readonly { window: string; used: number; limit: number }[] };
async function windowsOf(house: TestGateway, id: string) {
  const { windows } = (await (await house.admin(`/api/usage/${id}`)).json()) as Windows;
  return windows.map(({ window, used, limit }) => [window, used, limit] as const);
}
/** Until a key works in every gateway: each has read the records. */
async function knownTo(houses: readonly TestGateway[], keys: readonly string[]): Promise<void> {
  for (const house of houses) {
    for (const id of keys) {
      await eventually(async () => {
        assert.equal((await house.admin(`/api/usage/${id}`)).status, 200);
      });
    }
  }
}
async function admittedOf(house: TestGateway, key: string, count: number): Promise<number> {
  const asked = Array.from({ length: count }, () => sendRequest(house.port, { key }));
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assert.ok(each(statuses).every((status) => status === 200 || status === 429));
  return statuses.filter((status) => status === 200).length;
}

describe("limits of one key", () => {
  it("hold over four gateways: 300 and 300 of 1,000 exactly, and the account goes on", async (t) => {
    const houses = await open(t, 4);
    const [first] = houses as [TestGateway];
    const one = await first.issue({ caps: { day: 300 } });
    const more = { account: one.account, environment: undefined, plan: undefined };
    const other = await first.issue({ ...more, caps: { day: 300 } });
    const free = await first.issue(more);
    await knownTo(houses, [one.id, other.id, free.id]);
    const spend = async (key: string, each: number) => {
      const all = await Promise.all(houses.map((house) => admittedOf(house, key, each)));
      return all.reduce((sum, admitted) => sum + admitted, 0);
    };
    assert.deepEqual(await Promise.all([spend(one.key, 110), spend(other.key, 110)]), [300, 300]);
    assert.equal(await spend(free.key, 110), 400);
    assert.deepEqual(await windowsOf(first, one.id), [
      ["day", 1_000, 1_000],
      ["key.day", 300, 300],
    ]);
    assert.deepEqual(await windowsOf(first, free.id), [["day", 1_000, 1_000]]);
    const forwards = houses
      .flatMap(({ lines }) => lines)
      .reduce((n, entry) => n + entry.forwards, 0);
    assert.equal(
      houses.reduce((seen, { upstream }) => seen + upstream.seen.length, 0),
      forwards,
    );
  });

  it("tell themselves in fields, message and usage, and go on with a rotated key, through its grace", async (t) => {
    const [house] = (await open(t)) as [TestGateway];
    const old = await house.issue({ caps: { week: 2 } });
    const first = await sendRequest(house.port, { key: old.key });
    assert.equal(onlyValue(first, "X-RateLimit-Window"), "key.week");
    assert.equal(onlyValue(first, "X-RateLimit-Remaining"), "1");
    const rotated = await runVerb(["keys", "rotate", old.id, "--json", "--config", house.file]);
    const fresh = jsonOf<{ id: string; key: string; caps: unknown }>(rotated);
    assert.deepEqual(fresh.caps, { week: 2 });
    await knownTo([house], [fresh.id]);
    assert.equal((await sendRequest(house.port, { key: fresh.key })).status, 200);
    for (const key of [old.key, fresh.key]) {
      const refused = await sendRequest(house.port, { key });
      assert.equal(refused.status, 429);
      assert.equal(errorOf(refused).code, "rate_limited");
      assert.match(errorOf(refused).message, /^The week limit of this key, 2 units, is used up/);
      assert.equal(onlyValue(refused, "X-RateLimit-Window"), "key.week");
    }
    assert.deepEqual(await windowsOf(house, fresh.id), [
      ["day", 2, 1_000],
      ["key.week", 2, 2],
    ]);
    await house.law();
  });

  it("are changed in place within a second, and dropped", async (t) => {
    const [house] = (await open(t)) as [TestGateway];
    const { id, key } = await house.issue();
    const set = async (...args: string[]) => {
      const said = await runVerb(["keys", "set", id, ...args, "--json", "--config", house.file]);
      assert.equal(said.err, "");
      return jsonOf<{ caps: unknown }>(said).caps;
    };
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    assert.deepEqual(await set("--cap", "day=1", "--cap", "hour=5"), { hour: 5, day: 1 });
    await eventually(async () => {
      assert.deepEqual(
        (await windowsOf(house, id)).map(([window]) => window),
        ["key.hour", "day", "key.day"],
      );
    });
    assert.equal((await sendRequest(house.port, { key })).status, 200);
    assert.equal((await sendRequest(house.port, { key })).status, 429);
    assert.deepEqual(await set("--cap", "day=3"), { hour: 5, day: 3 });
    await eventually(async () => {
      assert.equal((await sendRequest(house.port, { key })).status, 200);
    });
    assert.deepEqual(await set("--no-caps", "--cap", "minute=100"), { minute: 100 });
    assert.deepEqual(await set("--no-caps"), {});
    await eventually(async () => {
      assert.deepEqual(
        (await windowsOf(house, id)).map(([window]) => window),
        ["day"],
      );
    });
    for (const wrong of ["fortnight=1", "day=0", "day", "concurrent=3"]) {
      const said = await runVerb(["keys", "set", id, "--cap", wrong, "--config", house.file]);
      assert.equal(said.status, 64, wrong);
    }
    await house.law();
  });

  it("of a new key begin at 0 where another key of the account had caps that were dropped", async (t) => {
    const [house] = (await open(t)) as [TestGateway];
    const { id, key, account } = await house.issue({ caps: { day: 3 } });
    assert.equal(await admittedOf(house, key, 3), 3);
    const said = await runVerb(["keys", "set", id, "--no-caps", "--config", house.file]);
    assert.equal(said.status, 0, said.err);
    const more = { account, environment: undefined, plan: undefined };
    const fresh = await house.issue({ ...more, caps: { day: 3 } });
    assert.equal(await admittedOf(house, fresh.key, 4), 3);
    assert.equal(await admittedOf(house, key, 1), 1);
    await house.law();
  });

  it("take at most 50 bytes of Redis each, for 1,000 keys of an account", async (t) => {
    const [house] = (await open(t)) as [TestGateway];
    const { account } = await house.issue({ plan: "agreed" });
    const body = JSON.stringify({ account, count: 1_000, caps: { day: 5 } });
    const answer = await house.admin("/api/keys", { method: "POST", body });
    const keys = (await answer.json()) as { key: string }[];
    assert.equal(keys.length, 1_000);
    const statuses: number[] = [];
    for (let i = 0; i < keys.length; i += 50) {
      const some = keys.slice(i, i + 50).map(({ key }) => sendRequest(house.port, { key }));
      statuses.push(...(await Promise.all(some)).map(({ status }) => status));
    }
    assert.ok(each(statuses).every((status) => status === 200));
    const hashes = (await redis.keys("*:c{*")).filter((name) => name.includes(account));
    let [bytes, counters] = [0, 0];
    for (const hash of each(hashes)) {
      bytes += Number(await redis.memory("USAGE", hash));
      counters += await redis.hlen(hash);
      assert.ok((await redis.pttl(hash)) > 0);
    }
    assert.equal(counters, 1_000);
    assert.ok(bytes <= 50 * counters, `${(bytes / counters).toFixed(1)} bytes each`);
  });

  it("hold while Redis is away, by what was counted, and its return charges them", async (t) => {
    const address = `redis://127.0.0.1:${proxy.port}`;
    const [house] = (await open(t, 1, { store: address, keys: "./keys.json" })) as [TestGateway];
    const { id, key } = await house.issue({ caps: { day: 5 } });
    assert.equal(await admittedOf(house, key, 2), 2);
    await proxy.close();
    await eventually(async () => {
      assert.equal((await house.admin("/readyz")).status, 503);
    });
    let admitted = 0;
    for (let i = 0; i < 8; i++) {
      const { status } = await sendRequest(house.port, { key });
      if (status === 200) admitted += 1;
    }
    assert.equal(admitted, 3);
    await proxy.listen();
    await eventually(async () => {
      assert.deepEqual(await windowsOf(house, id), [
        ["day", 5, 1_000],
        ["key.day", 5, 5],
      ]);
    });
    const refused = await sendRequest(house.port, { key });
    assert.equal(onlyValue(refused, "X-RateLimit-Window"), "key.day");
  });
});
