import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { freshMetrics } from "../admin/scrape.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { useProxiedRedis } from "../support/redis/redis-of-file.ts";
import { askTimed, changes, isReady, openHouseBehind, readyWithin } from "./redis-house.ts";

const { redis, proxy } = await useProxiedRedis();

const ofKind = ({ said }: TestGateway, wanted: string) => {
  return said.filter(({ msg, kind }) => msg === "event" && kind === wanted);
};

/** Gives an account its first strike. Two requests for one strike may make two. */
async function strike(account: string): Promise<void> {
  const [key = ""] = await redis.keys(`tg:{*}:production:${account}`);
  await redis.hset(key, "k", String(Date.now() - 1_000));
}

describe("an event of an answer that nobody waited for", () => {
  const plans = { free: { day: 1 }, enterprise: "custom" };

  it("is told where it is a ban, once, and the account is banned at once in this gateway", async () => {
    const bans = { strikes: 2, within: "1h", grace: "0s", duration: "1h" };
    await using house = await openHouseBehind(proxy, { config: { plans, bans } });
    const bansOf = (account: string) => {
      return ofKind(house, "ban").filter((event) => event.account === account);
    };
    /** Asks once, while the answer of Redis comes late, for an account whose next strike bans it. */
    async function askForBan() {
      const issued = await house.issue();
      assert.equal((await askTimed(house, issued.key)).status, 200);
      assert.equal((await askTimed(house, issued.key)).code, "rate_limited");
      await strike(issued.account);
      proxy.behave({ answerLatencyMs: 400 });
      await askTimed(house, issued.key);
      return issued;
    }
    // A call that reaches Redis later than its deadline strikes nothing: where the machine stalls, the
    // one request of another account does. A second one of the same could ban it without Redis.
    const { key, account } = await eventually(async () => {
      proxy.behave({});
      await readyWithin(house, 5_000);
      const issued = await askForBan();
      await eventually(() => bansOf(issued.account).length === 1, { withinMs: 1_000 });
      return issued;
    });
    const [{ plan, window, strikes = [] } = {}] = bansOf(account);
    assert.deepEqual([plan, window], ["free", "day"]);
    assert.equal(Object.keys(strikes as object).length, 2);
    assert.equal((await askTimed(house, key)).code, "key_banned");
    proxy.behave({});
    await readyWithin(house, 5_000);
    assert.equal((await askTimed(house, key)).code, "key_banned");
    assert.equal(bansOf(account).length, 1, "it is told once");
    const counted = (await freshMetrics(house.adminUrl)).get(
      'tollgate_bans_total{env="production"}',
    );
    assert.equal(counted, ofKind(house, "ban").length);
  });

  it("is told where late charges use up the cap of a key that was not the last to ask", async () => {
    await using house = await openHouseBehind(proxy, { config: { plans, bans: "off" } });
    const wanted = { plan: "enterprise", limits: { day: 1_000 }, caps: { day: 10 } };
    const capped = await house.issue(wanted);
    const other = await house.issue({
      account: capped.account,
      environment: undefined,
      plan: undefined,
    });
    assert.equal((await askTimed(house, capped.key)).status, 200);
    await proxy.refuse();
    await eventually(async () => (await isReady(house)).status === 503);
    for (let i = 0; i < 8; i++) assert.equal((await askTimed(house, capped.key)).status, 200);
    assert.equal((await askTimed(house, other.key)).status, 200);
    await proxy.listen();
    await eventually(() => changes(house).includes("store_back"));
    await eventually(() => assert.equal(ofKind(house, "quota").length, 1));
    const [{ key, window, percent, used, limit } = {}] = ofKind(house, "quota");
    assert.deepEqual([key, window, percent, used, limit], [capped.id, "key.day", 80, 9, 10]);
  });

  it("measures a meter that was settled without the store against its limit, not against a share", async () => {
    const tokens = { hold: 5, max: 100, used: ["header x-used"] };
    await using house = await openHouseBehind(proxy, {
      config: {
        plans: { free: { day: 1_000, meters: { tokens: { day: 100 } } } },
        expectedGateways: 2,
        bans: "off",
      },
      environment: { api: null, costs: [{ match: "GET /v1/pets", meters: { tokens } }] },
    });
    const { key, account } = await house.issue();
    const use = async (units: number) => {
      house.backend.answer((_seen, response) => {
        response.writeHead(200, { "X-Used": units }).end();
      });
      assert.equal((await askTimed(house, key)).status, 200);
    };
    const isCounted = async (units: number) => {
      const usage = await (await house.admin(`/api/usage/${account}`)).json();
      const { windows } = usage as { windows: { window: string; used: number }[] };
      assert.equal(windows.find(({ window }) => window === "tokens.day")?.used, units);
    };
    await use(0);
    await eventually(() => isCounted(0));
    await proxy.refuse();
    await eventually(async () => (await isReady(house)).status === 503);
    await use(45);
    await proxy.listen();
    await eventually(() => isCounted(45));
    await use(40);
    await eventually(() => assert.notEqual(ofKind(house, "quota").length, 0));
    const told = ofKind(house, "quota").map(({ percent, used, limit }) => [percent, used, limit]);
    assert.deepEqual(told, [[80, 85, 100]]);
  });
});
