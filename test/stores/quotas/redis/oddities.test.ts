import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, type TestContext } from "vitest";
import { countReport } from "../../../../src/core/keys/usage-reports.ts";
import { type Limit, WINDOW_ROWS } from "../../../../src/core/quota/windows.ts";
import { createHeartbeat } from "../../../../src/stores/quotas/outage/heartbeat.ts";
import { accountKey, banCauseKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { decodeDecisions } from "../../../../src/stores/quotas/redis/decide-codec.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { createRedisQuotaStore } from "../../../../src/stores/quotas/redis/store/redis-quota-store.ts";
import { watchEviction } from "../../../../src/stores/quotas/redis/store/store-warnings.ts";
import { parseBan } from "../../../../src/stores/quotas/redis/stored-bans.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { eventually } from "../../../support/poll.ts";
import { freePort } from "../../../support/redis/redis.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend, type Told } from "./redis-kit.ts";

const { server, redis } = await useRedis();

const IMPOSED = { window: "day", keptMs: 60_000, plan: "free" } as const;

describe("keys in Redis that are not ours", () => {
  it("though they look like accounts, leave the list of bans as it is", async (t) => {
    const { store } = await open(server.address);
    t.onTestFinished(() => store.close());
    await spend(store, account("fine"), perDay(9));
    await redis.set("tg:{3}:production:text", "9");
    await redis.sadd("tg:{3}:production:set", "9");
    await redis.hset("tg:{3}:production:hash", "b", "damaged");
    await redis.hset("tg:{3}:", "b", "9999999999999 60000 m 1");
    assert.deepEqual(await store.bans(), []);
  });
});

describe("a ban that is moved to the present, because the clock of Redis went back,", () => {
  const START = Date.UTC(2026, 6, 15, 12, 30, 10);
  const quotaRequest = { ...perDay(9), bans: DEFAULT_BANS };

  for (const [how, cause] of [
    ["has not the cause of an earlier one", `${START + 60_000} ${START} h earlier`],
    ["has none where the version that made it kept none", undefined],
    ["holds where its cause is damaged", "damaged"],
  ] as const) {
    it(how, async (t) => {
      let nowMs = START + 30_000;
      const { store } = await open(server.address, { now: () => nowMs });
      t.onTestFinished(() => store.close());
      const accountRef = account(`moved-${how.length}`);
      await store.ban(accountRef, { ...IMPOSED, lengthMs: 60_000, reason: "later" });
      const key = banCauseKey(accountKey("tg", accountRef));
      assert.ok((await redis.hexists(key, "c")) === 1);
      if (cause === undefined) await redis.del(key);
      else await redis.hset(key, "c", cause);
      nowMs = START - 3_600_000;
      const { ban } = await store.peek(accountRef, quotaRequest);
      assert.equal(ban?.untilMs, nowMs + 60_000);
      assert.equal(await redis.hget(key, "c"), cause ?? null);
    });
  }
});

describe("a window that is moved to the present, because the clock of Redis went back,", () => {
  for (const [what, isBanned] of [
    ["", false],
    [", also of one whose ban is moved by the first reading", true],
  ] as const) {
    it(`is told as moved by each reading, and in the log by the request that moves it${what}`, async (t) => {
      let nowMs = Date.UTC(2026, 6, 15, 12, 30, 10);
      const { store, told } = await open(server.address, { now: () => nowMs });
      t.onTestFinished(() => store.close());
      const { limits, bans } = perDay(9);
      const accountRef = account(`read-${isBanned}`);
      const key = accountKey("tg", accountRef);
      await spend(store, accountRef, { ...perDay(9), cost: 3 });
      if (isBanned) await store.ban(accountRef, { ...IMPOSED, lengthMs: 60_000, reason: "" });
      const ahead = await redis.hget(key, "d");
      nowMs -= 3 * 86_400_000;
      const read = async () => {
        const decision = await store.peek(accountRef, { limits, bans });
        return countReport({ ...accountRef, plan: "free" }, decision, undefined);
      };
      for (let i = 0; i < 2; i++) {
        const { moved, windows } = await read();
        assert.deepEqual([moved, windows[0]?.used], [true, 3]);
        assert.equal(await redis.hget(key, "d"), ahead);
      }
      store.invalidate();
      await spend(store, accountRef, perDay(9));
      const { moved, windows } = await read();
      assert.deepEqual([moved, windows[0]?.used], [undefined, isBanned ? 3 : 4]);
      const lines = told.filter(({ message }) => message === "counter_repaired");
      assert.equal(lines.length, 1);
      assert.match(
        JSON.stringify(lines[0]?.details?.moved),
        /^\[{"window":"day","used":\d,[^{}]*}\]$/,
      );
    });
  }
});

describe("a Redis whose clock begins in 1970", () => {
  it("counts a week that began before the year, to its end", async (t) => {
    let nowMs = 2 * 86_400_000;
    const { store } = await open(server.address, { now: () => nowMs });
    t.onTestFinished(() => store.close());
    const quotaRequest = { ...perDay(9), limits: [{ window: "week", limit: 9 }] as const };
    const used = async () =>
      (await spend(store, account("week"), quotaRequest)).decision.windows[0]?.used;
    assert.deepEqual([await used(), await used()], [1, 2]);
    nowMs = 4 * 86_400_000;
    assert.equal(await used(), 1, "the next week");
  });
});

describe("an answer whose numbers add up to more than a number holds exactly", () => {
  async function clientFor(t: TestContext) {
    const link = connectRedis({ address: server.address });
    t.onTestFinished(() => link.close());
    await link.tried;
    return createQuotaClient(link, "tg");
  }

  it("is believed where one account has the largest count that is read, and a larger one is damage", async (t) => {
    const quotaClient = await clientFor(t);
    const dayMs = Math.floor(Date.now() / 86_400_000) * 86_400_000;
    const most = 2 ** 52;
    for (const counts of [
      [most],
      [most - 1, 0, 0],
      [most, 3, most - 2],
      [2 ** 53 - 1],
      [most + 1],
    ]) {
      for (const observed of [undefined, true] as const) {
        const accountRefs = counts.map((count, i) => account(`${observed}-${count}-${i}`));
        for (const [i, accountRef] of accountRefs.entries()) {
          await redis.hset(accountKey("tg", accountRef), "d", `${dayMs} ${counts[i]} 0`);
        }
        const limits = observed
          ? [{ window: "day", limit: Number.MAX_SAFE_INTEGER, observed } as const]
          : perDay(1e12).limits;
        const asks = accountRefs.map((accountRef) => ({
          accountRef,
          quotaRequest: { limits, bans: undefined, requests: 3 },
        }));
        const outcomes = await quotaClient.decide(asks);
        const used = outcomes.map((one) => ("failure" in one ? one.failure : one.windows[0]?.used));
        const room = (count: number) => Math.max(0, (observed ? most : 1e12) - count);
        const expected = counts.map((count) => {
          return count > most ? 3 : count + Math.min(3, room(count));
        });
        assert.deepEqual(used, expected, String(counts));
      }
    }
  });

  it("is believed of as many accounts, limits and strikes as go in a call", async (t) => {
    const quotaClient = await clientFor(t);
    const lengths = WINDOW_ROWS.map(({ name }) => name);
    const ofOperations = Array.from({ length: 70 }, (_, i): Limit => {
      const part = { id: String(1 + Math.floor(i / 7)), name: "one" };
      return { window: lengths[i % 7] ?? "day", limit: 1e12, part };
    });
    const limits: Limit[] = [{ window: "hour", limit: 1 }, ...ofOperations];
    const bans = { ...DEFAULT_BANS, graceMs: 1, strikes: 1_000 };
    for (const each of [42, 48, 49, 50, 63, 70]) {
      const quotaRequest = { limits: limits.slice(0, each), bans, requests: 3 };
      const asks = Array.from({ length: 256 }, (_, i) => ({
        accountRef: account(`${each}-${i}`),
        quotaRequest,
      }));
      for (let calls = 0; calls < 3; calls++) {
        // A connection that a busy machine loses says nothing of an answer: it is asked again.
        const failed = await eventually(async () => {
          const outcomes = await quotaClient.decide(asks);
          const failures = outcomes.flatMap((one) => ("failure" in one ? [one.failure] : []));
          return !failures.some(({ code }) => code === "unreachable") && failures;
        });
        assert.deepEqual(failed, [], `${each} limits`);
        await sleep(3);
      }
    }
  });
});

describe("an answer that is none of the script's", () => {
  const quotaRequest = perDay(1);

  it("is a failure of which it is not known whether it was executed", async (t) => {
    const link = connectRedis({ address: server.address });
    t.onTestFinished(() => link.close());
    for (const reply of ["OK", [], [1, "x"], null]) {
      const send: typeof link.send = async (_key, _name, _args, read) => read?.(reply);
      const quotaClient = createQuotaClient({ ...link, send }, "tg");
      const [outcome] = await quotaClient.decide([{ accountRef: account("a"), quotaRequest }]);
      assert.ok(outcome !== undefined && "failure" in outcome);
      assert.deepEqual([outcome.failure.code, outcome.failure.executed], ["unreadable", "unknown"]);
      assert.match(outcome.failure.message, /^Cannot read the store's answer: /);
    }
  });

  it("is no time of a clock either", async (t) => {
    const link = connectRedis({ address: server.address });
    t.onTestFinished(() => link.close());
    for (const reply of ["OK", [], ["1", "x"], null]) {
      const quotaClient = createQuotaClient({ ...link, send: async () => reply }, "tg");
      await assert.rejects(async () => quotaClient.ensureClock(0, 1_000), { code: "unreadable" });
      const { beat } = createHeartbeat(quotaClient, "tg");
      await assert.rejects(beat(1_000), reply === null ? TypeError : { code: "unreadable" });
      assert.equal(quotaClient.knowsClock(0), false);
    }
  });

  it("is named by the place where it stops making sense", () => {
    const asks = [{ key: "k", quotaRequest }];
    assert.throws(() => decodeDecisions(asks, "OK", 7), /it is no list/);
    assert.throws(() => decodeDecisions(asks, [1, 8, 1], 7), /no number at position 4/);
  });

  it("is no ban where the field of a ban is damaged", () => {
    assert.equal(parseBan("1 2 x 3"), undefined);
    assert.equal(parseBan(""), undefined);
    assert.deepEqual(parseBan("5 2 M 3"), {
      untilMs: 5,
      lengthMs: 2,
      window: "month",
      offences: 3,
    });
  });
});

describe("a store without anything that stands in for it", () => {
  it("decides, and gives no answer while it is away", async () => {
    const port = await freePort();
    const url = `redis://127.0.0.1:${port}`;
    const away = await createRedisQuotaStore({
      address: { kind: "redis", url, shown: url },
      prefix: "tg",
      report: () => undefined,
    });
    assert.deepEqual(await away.charge(account("a"), perDay(1)), { unavailable: true });
    assert.match(`${away.health().why}`, /cannot be reached/);
    await away.close();
    const there = await createRedisQuotaStore({
      address: server.address,
      prefix: "tg",
      report: () => undefined,
      timeoutMs: 5_000,
    });
    assert.equal((await spend(there, account("a"), perDay(1))).admitted, true);
    assert.deepEqual(there.health(), { ok: true });
    await there.close();
  });
});

describe("an eviction policy", () => {
  it("is told when it becomes unsafe, and when it is safe again, once each", async (t) => {
    t.onTestFinished(
      async () => void (await redis.config("SET", "maxmemory-policy", "noeviction")),
    );
    const link = connectRedis({ address: server.address });
    const told: Told[] = [];
    const report = (level: string, message: string, details?: Record<string, unknown>) => {
      told.push({ level, message, details });
    };
    const eviction = watchEviction(link, "shown", report, 20);
    t.onTestFinished(async () => {
      eviction.stop();
      await link.close();
    });
    await redis.config("SET", "maxmemory-policy", "allkeys-lru");
    await eventually(() => eviction.unsafe());
    await redis.config("SET", "maxmemory-policy", "noeviction");
    await eventually(() => !eviction.unsafe());
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual(
      told.map(({ level, message }) => [level, message]),
      [
        ["warn", "store_evicts"],
        ["info", "store_evicts_no_more"],
      ],
    );
  });

  it("that a user may not see is told to be unknown, once", async (t) => {
    await redis.call("ACL", "SETUSER", "blind", "on", ">secret", "allkeys", "+@all", "-info");
    const url = server.url.replace("//", "//blind:secret@");
    const link = connectRedis({ address: { kind: "redis", url, shown: "shown" } });
    const told: string[] = [];
    const eviction = watchEviction(link, "shown", (_level, message) => told.push(message), 20);
    t.onTestFinished(async () => {
      eviction.stop();
      await link.close();
    });
    await eventually(() => assert.deepEqual(told, ["store_eviction_unknown"]));
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.deepEqual(told, ["store_eviction_unknown"]);
    assert.equal(eviction.unsafe(), false);
  });
});
