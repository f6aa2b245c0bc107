import assert from "node:assert/strict";
import { once } from "node:events";
import { afterEach, describe, it } from "vitest";
import { mergeLimits } from "../../../../src/core/quota/windows.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { DECIDE_SCRIPT } from "../../../../src/stores/quotas/redis/account-scripts.ts";
import { encodeDecide } from "../../../../src/stores/quotas/redis/decide-codec.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

let opened: QuotaStore[] = [];
afterEach(async () => {
  await Promise.all(opened.map((store) => store.close()));
  opened = [];
});
const { server, redis } = await useRedis();

async function openHere(more: Parameters<typeof open>[1] = {}) {
  const all = await open(server.address, more);
  opened.push(all.store);
  return all;
}

/** A clock that the test holds. */
function clockAt(startMs: number) {
  let nowMs = startMs;
  return {
    now: () => nowMs,
    to: (ms: number) => {
      nowMs = ms;
    },
    by: (ms: number) => {
      nowMs += ms;
    },
  };
}

const NOON = Date.UTC(2026, 6, 15, 12);

describe("an account in Redis", () => {
  it("takes at most 300 bytes with two windows, its key included", async () => {
    const { store } = await openHere();
    const accountRef = account("acct_0123456789abcdefghij");
    const limits = [
      { window: "minute", limit: 1000 },
      { window: "day", limit: 100_000 },
    ] as const;
    await spend(store, accountRef, { limits, bans: DEFAULT_BANS, requests: 1 });
    const key = accountKey("tg", accountRef);
    assert.deepEqual(await redis.keys("*"), [key]);
    const bytes = Number(await redis.memory("USAGE", key));
    assert.ok(bytes > 0 && bytes <= 300, `${bytes} bytes`);
  });

  it("takes at most 50 bytes more for each running window of an operation", async () => {
    const { store } = await openHere({ now: clockAt(NOON).now });
    const plan = [
      { window: "minute", limit: 1000 },
      { window: "day", limit: 100_000 },
    ] as const;
    const accountRef = account("acct_0123456789abcdefghij");
    const key = accountKey("tg", accountRef);
    const operations = Array.from({ length: 10 }, (_, i) => ({ id: `zzzz${i}`, name: `o${i}` }));
    await spend(store, accountRef, { limits: plan, bans: DEFAULT_BANS, requests: 1 });
    const plain = Number(await redis.memory("USAGE", key));
    let windows = 0;
    for (const operation of operations) {
      const own = (["minute", "day"] as const).map((window) => ({
        ...{ window, limit: 1e6, part: operation },
      }));
      const limits = mergeLimits(plan, { operation: own });
      await spend(store, accountRef, { limits, bans: DEFAULT_BANS, requests: 1, cost: 9 });
      windows += 2;
    }
    const bytes = Number(await redis.memory("USAGE", key)) - plain;
    assert.equal(await redis.hlen(key), 2 + windows);
    assert.ok(bytes <= 50 * windows, `${bytes} bytes for ${windows} windows`);
  });

  it("lives as long as its strikes count, where that is longer than its windows", async () => {
    const clock = clockAt(NOON);
    const { store } = await openHere({ now: clock.now });
    const limits = [{ window: "minute", limit: 1 }] as const;
    // So few that each could be the one that bans: the store has heard of it when it is answered.
    const bans = { ...DEFAULT_BANS, strikes: 2, withinMs: 10 * 86_400_000 };
    for (let i = 0; i < 3; i++) {
      await spend(store, account("struck"), { limits, bans, requests: 1 });
      clock.by(1_001);
    }
    assert.ok((await redis.pttl(accountKey("tg", account("struck")))) > 9 * 86_400_000);
  });

  it("lives until its ban is forgotten, where that is longer than its windows", async () => {
    const clock = clockAt(NOON);
    const { store } = await openHere({ now: clock.now });
    const limits = [{ window: "minute", limit: 1 }] as const;
    const bans = { ...DEFAULT_BANS, strikes: 1, forgetAfterMs: 10 * 86_400_000 };
    for (let i = 0; i < 3; i++) {
      await spend(store, account("banned"), { limits, bans, requests: 1 });
      clock.by(1_001);
    }
    const key = accountKey("tg", account("banned"));
    assert.equal((await store.peek(account("banned"), { limits, bans })).ban?.offences, 1);
    assert.ok((await redis.pttl(key)) > 10 * 86_400_000);
  });

  it("loses the windows of operations that are over with the next write", async () => {
    const clock = clockAt(NOON);
    const { store } = await openHere({ now: clock.now });
    const accountRef = account("leaving");
    const key = accountKey("tg", accountRef);
    const plan = [{ window: "day", limit: 100 }] as const;
    const operation = { id: "a", name: "createPet" };
    const own = [{ window: "minute", limit: 5, part: operation }] as const;
    const limits = mergeLimits(plan, { operation: own });
    await spend(store, accountRef, { limits, bans: undefined, requests: 1 });
    assert.deepEqual((await redis.hkeys(key)).sort(), ["am", "d"]);
    clock.by(60_000);
    await spend(store, accountRef, { limits: plan, bans: undefined, requests: 1 });
    assert.deepEqual(await redis.hkeys(key), ["d"]);
  });

  it("lives to the end of its longest window, and gets a lost TTL back with the next write", async () => {
    const clock = clockAt(Date.UTC(2026, 6, 1));
    const { store } = await openHere({ now: clock.now });
    const key = accountKey("tg", account("ttl"));
    const limits = [{ window: "month", limit: 5 }] as const;
    await spend(store, account("ttl"), { limits, bans: undefined, requests: 1 });
    await redis.persist(key);
    await spend(store, account("ttl"), { limits, bans: undefined, requests: 1 });
    const ttlMs = await redis.pttl(key);
    assert.ok(ttlMs > 31 * 86_400_000 && ttlMs < 31 * 86_400_000 + 600_000, `${ttlMs} ms`);
  });

  it("keeps the day's count when a plan drops the day for a while", async () => {
    const { store } = await openHere();
    const accountRef = account("plan");
    await spend(store, accountRef, perDay(10));
    await spend(store, accountRef, {
      limits: [{ window: "second", limit: 9 }],
      bans: DEFAULT_BANS,
      requests: 1,
    });
    const toMidnightMs = 86_400_000 - (Date.now() % 86_400_000);
    assert.ok((await redis.pttl(accountKey("tg", accountRef))) >= toMidnightMs);
    assert.equal((await spend(store, accountRef, perDay(10))).decision.windows[0]?.used, 2);
  });

  it("that has the wrong type is made anew, counted on and reported", async () => {
    const { store, told } = await openHere();
    await redis.lpush(accountKey("tg", account("list")), "not a hash");
    assert.equal((await spend(store, account("list"), perDay(5))).decision.repaired, true);
    const { decision } = await spend(store, account("list"), perDay(5));
    assert.deepEqual([decision.repaired, decision.windows[0]?.used], [false, 2]);
    assert.deepEqual(
      told.map(({ level, message }) => [level, message]),
      [["warn", "counter_repaired"]],
    );
  });

  it("that a user of Redis may not read is left as it is", async () => {
    const { store } = await openHere();
    const key = accountKey("tg", account("unread"));
    await spend(store, account("unread"), perDay(1));
    const stored = await redis.hgetall(key);
    await redis.call("ACL", "SETUSER", "blind", "on", ">secret", "allkeys", "+@all", "-hgetall");
    const blind = await server.client({ username: "blind", password: "secret" });
    const ask = encodeDecide([{ key, quotaRequest: perDay(1) }], -1, 7);
    await assert.rejects(
      blind.call("eval", DECIDE_SCRIPT.text, ...ask),
      /permission|can't run|NOPERM/,
    );
    assert.deepEqual(await redis.hgetall(key), stored);
  });

  it("is decided by the clock of Redis, to the millisecond", async () => {
    const { store } = await openHere();
    const timeMs = async () => {
      const [seconds, micros] = (await redis.time()).map(Number) as [number, number];
      return seconds * 1_000 + Math.floor(micros / 1_000);
    };
    const beforeMs = await timeMs();
    const { nowMs } = (await spend(store, account("now"), perDay(5))).decision;
    assert.ok(beforeMs <= nowMs && nowMs <= (await timeMs()), `${beforeMs}, decided at ${nowMs}`);
  });

  it("is not spent twice when the clock of the store goes back", async () => {
    const clock = clockAt(NOON + 60_000);
    const { store } = await openHere({ now: clock.now });
    const quotaRequest = {
      limits: [{ window: "minute", limit: 2 }],
      bans: undefined,
      requests: 1,
    } as const;
    const admitted = [];
    for (const atMs of [
      NOON + 60_000,
      NOON + 59_999,
      NOON + 59_000,
      NOON + 119_999,
      NOON + 120_000,
    ]) {
      clock.to(atMs);
      store.invalidate();
      admitted.push((await spend(store, account("back"), quotaRequest)).admitted);
    }
    assert.deepEqual(admitted, [true, true, false, false, true]);
  });

  it("counts to 10^12 exactly", async () => {
    const { store } = await openHere();
    const accountRef = account("huge");
    const startMs = Math.floor(Date.now() / 86_400_000) * 86_400_000;
    await redis.hset(accountKey("tg", accountRef), "d", `${startMs} 999999999998 0`);
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push(await spend(store, accountRef, perDay(1e12)));
    assert.deepEqual(
      answers.map(({ admitted }) => admitted),
      [true, true, false],
    );
    // The store hears of the refusal a moment after it was answered.
    await eventually(async () => {
      const kept = await redis.hget(accountKey("tg", accountRef), "d");
      assert.match(kept ?? "", new RegExp(`^${startMs} 1000000000000 [1-9]\\d{12}$`));
    });
  });

  it("is not created, and a damaged one not left, by a look", async () => {
    const { store } = await openHere();
    const { limits, bans } = perDay(5);
    assert.equal((await store.peek(account("look"), { limits, bans })).windows[0]?.used, 0);
    assert.deepEqual(await redis.keys("tg:*:look"), []);
    await redis.hset(accountKey("tg", account("look")), "d", "garbage");
    assert.equal((await store.peek(account("look"), { limits, bans })).repaired, true);
    assert.equal((await store.peek(account("look"), { limits, bans })).repaired, false);
  });
});

describe("bans in Redis", () => {
  const strict = { ...DEFAULT_BANS, strikes: 1, graceMs: 0 };

  async function earn(store: QuotaStore, name: string): Promise<void> {
    const quotaRequest = perDay(1, strict);
    await eventually(
      async () => (await spend(store, account(name), quotaRequest)).decision.ban !== undefined,
    );
  }

  it("are in force at every gateway within 200 ms, and lifted at every one within a second", async () => {
    const [one, other] = [(await openHere()).store, (await openHere()).store];
    const accountRef = account("shared");
    const isBannedThere = async () => {
      return (await spend(other, accountRef, perDay(1, strict))).decision.ban !== undefined;
    };
    // Twice, so that the other one knows the window to be exhausted: it would answer from memory.
    assert.deepEqual([await isBannedThere(), await isBannedThere()], [false, false]);
    const hearing = await server.client();
    await hearing.subscribe("control");
    const heard = once(hearing, "message");
    await earn(one, accountRef.account);
    const bannedAtMs = performance.now();
    const since = () => performance.now() - bannedAtMs;
    // The news comes by Redis: a message of the test tells how late any news is on this machine.
    const {
      value: [tookMs, controlMs],
      stalledMs: standsMs,
    } = await watchStalls(() => {
      const told = redis.publish("control", "").then(() => heard);
      return Promise.all([eventually(isBannedThere).then(since), told.then(since)]);
    });
    const waits = `${tookMs} ms, ${controlMs} for a message, ${standsMs} stalled`;
    assert.ok(tookMs < 200 + controlMs + standsMs, waits);

    assert.equal(await one.liftBan(accountRef), true);
    const liftedAtMs = performance.now();
    const roomy = perDay(100, strict);
    const { stalledMs } = await watchStalls(() => {
      return eventually(async () => (await spend(other, accountRef, roomy)).admitted);
    });
    const liftMs = performance.now() - liftedAtMs;
    assert.ok(liftMs < 1_000 + stalledMs, `${liftMs} ms, ${stalledMs} stalled`);
    assert.equal(await one.liftBan(accountRef), false);
  });

  it("are listed while in force, and no others", async () => {
    const clock = clockAt(NOON);
    const { store } = await openHere({ now: clock.now });
    assert.deepEqual(await store.bans(), []);
    for (const name of ["a", "b"]) {
      await spend(store, account(name), perDay(1, strict));
      await spend(store, account(name), perDay(1, strict));
      clock.by(10);
      await spend(store, account(name), perDay(1, strict));
    }
    await spend(store, account("c"), perDay(1, strict));
    const listed = await store.bans();
    assert.deepEqual(
      listed.map(({ environment, account: id, ban }) => [environment, id, ban.offences]),
      [
        ["production", "a", 1],
        ["production", "b", 1],
      ],
    );
    assert.equal(await store.liftBan(account("a")), true);
    clock.to(listed[1]?.ban.untilMs ?? 0);
    assert.deepEqual(await store.bans(), []);
  });

  it("are those of its own prefix alone, whatever characters it has", async () => {
    const prefixes = ["t*g", "tg", "t?g", "t[a]g", "tag", "t\\\\g"];
    for (const prefix of prefixes) {
      const { store } = await openHere({ prefix });
      const untilMs = Date.now() + 600_000;
      const id = account(`of ${prefix}`);
      await redis.hset(accountKey(prefix, id), "b", `${untilMs} 60000 d 1`);
      assert.deepEqual(
        (await store.bans()).map((each) => each.account),
        [id.account],
      );
    }
  });

  it("are in force by the clock of Redis where the store has no other", async () => {
    const { store } = await openHere();
    const [seconds] = await redis.time();
    const ban = (untilMs: number) => `${untilMs} 60000 d 1`;
    await redis.hset(accountKey("tg", account("over")), "b", ban(Number(seconds) * 1_000 - 1));
    await redis.hset(accountKey("tg", account("on")), "b", ban(Number(seconds) * 1_000 + 600_000));
    assert.deepEqual(
      (await store.bans()).map(({ account: id }) => id),
      ["on"],
    );
  });
});

describe("SCRIPT FLUSH under load", () => {
  it("loses no request and charges none twice", async () => {
    const { store, failures } = await openHere();
    let [admitted, running] = [0, true];
    const load = Array.from({ length: 32 }, async (_, i) => {
      while (running)
        if ((await spend(store, account(`f${i % 8}`), perDay(1e9))).admitted) admitted++;
    });
    for (let i = 0; i < 50; i++) await redis.script("FLUSH");
    running = false;
    await Promise.all(load);
    if ((await spend(store, account("f0"), perDay(1e9))).admitted) admitted++;
    let counted = 0;
    for (let i = 0; i < 8; i++) {
      const text = (await redis.hget(accountKey("tg", account(`f${i}`)), "d")) ?? "";
      counted += Number(text.split(" ")[1]);
    }
    assert.equal(counted, admitted);
    assert.deepEqual(failures, []);
    assert.deepEqual(await redis.script("EXISTS", DECIDE_SCRIPT.sha), [1]);
  });
});

describe("what a gateway knows", () => {
  it("is the last verdict brought to now, until it is forgotten", async () => {
    const { store } = await openHere();
    assert.equal(store.lastKnown(account("known")), undefined);
    await spend(store, account("known"), perDay(7));
    assert.deepEqual(store.lastKnown(account("known"))?.windows[0]?.used, 1);
    store.invalidate(account("other"));
    assert.notEqual(store.lastKnown(account("known")), undefined);
    store.invalidate(account("known"));
    assert.equal(store.lastKnown(account("known")), undefined);
  });
});

describe("Redis that reads and does not write", () => {
  it("stays the reason though it answers what it is probed with, until it writes again", async () => {
    const { store } = await openHere();
    assert.equal((await spend(store, account("a"), perDay(9))).admitted, true);
    await redis.config("SET", "maxmemory", "1");
    assert.deepEqual(await store.charge(account("a"), perDay(9)), { unavailable: true });
    const reads = async () =>
      Number(/cmdstat_get:calls=(\d+)/.exec(await redis.info("commandstats"))?.[1] ?? 0);
    const before = await reads();
    await eventually(async () => assert.ok((await reads()) >= before + 2));
    assert.match(store.health().why ?? "", /out of memory/);
    await redis.config("SET", "maxmemory", "0");
    assert.equal((await spend(store, account("a"), perDay(9))).admitted, true);
    assert.deepEqual(store.health(), { ok: true });
  });
});
