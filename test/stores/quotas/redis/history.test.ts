import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import type { DeprecatedCall } from "../../../../src/telemetry/history/deprecated-calls.ts";
import { eventually } from "../../../support/poll.ts";
import { monitorRedis } from "../../../support/redis/monitor.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

const { server, redis } = await useRedis();
const DAY_MS = 86_400_000;
const OCTOBER_30 = Date.UTC(2026, 9, 30);
const TODAY = OCTOBER_30 / DAY_MS;
const accountRef = account("kept");
const LONGEST_PLAN = "p".repeat(64);
const october = `${accountKey("tg", accountRef).replace(":{", ":h{")}:${Date.UTC(2026, 9) / DAY_MS}`;

async function openAt(nowMs: () => number, historyMs: number | "off" = 400 * DAY_MS) {
  const kept = historyMs === "off" ? {} : { historyMs };
  return (await open(server.address, { ...kept, now: nowMs })).store;
}

/** The user of the store, with further rights or without some. */
function rights(...rules: readonly string[]) {
  return redis.call("ACL", "SETUSER", "default", ...rules);
}

function maxmemory(bytes: number) {
  return redis.config("SET", "maxmemory", bytes);
}

async function calls(): Promise<number> {
  const stats = await redis.info("commandstats");
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

describe("usage by day in Redis", () => {
  it("writes nothing where it is off", async () => {
    const store = await openAt(() => OCTOBER_30, "off");
    await spend(store, accountRef, perDay(10));
    await store.close();
    assert.deepEqual(await redis.keys("*"), [accountKey("tg", accountRef)]);
  });

  it("costs no command of its own", async () => {
    const store = await openAt(() => OCTOBER_30);
    await spend(store, accountRef, perDay(1_000));
    const before = await calls();
    for (let i = 0; i < 50; i++) await spend(store, accountRef, perDay(1_000));
    assert.equal((await calls()) - before, 50);
    await store.close();
    assert.deepEqual(await redis.hgetall(october), { 87: "51" });
  });

  it.each([
    ["scripts are not allowed", () => rights("-eval"), "EVAL"],
    ["numbers cannot be added to", () => rights("-hincrby"), "HINCRBY"],
    ["it is out of memory", () => maxmemory(1), undefined],
  ])("gives back refused requests, for another time, if %s", async (_, take, right) => {
    const { store, told } = await open(server.address, {
      historyMs: 400 * DAY_MS,
      now: () => OCTOBER_30,
    });
    const refused = ["kept", "beside"].map((name) => {
      return { accountRef: account(name), day: TODAY, requests: 3 };
    });
    await redis.script("FLUSH");
    await take();
    const left = await store.activity.addRefused(refused);
    await rights("allcommands");
    await maxmemory(0);
    assert.deepEqual(left, refused);
    const missing = told.find(({ message }) => message === "store_right_missing");
    assert.equal(/right to (\w+)/.exec(String(missing?.details?.why))?.[1], right);
    assert.deepEqual(await store.activity.addRefused(left), []);
    const days = await store.history(
      refused.map((one) => one.accountRef),
      { from: TODAY, to: TODAY },
    );
    const once = [{ day: TODAY, admitted: 0, units: 0, refused: 3 }];
    assert.deepEqual(days, [once, once]);
    await store.close();
  });

  it("has all deprecated operations of an account in one command, however many accounts ask", async () => {
    const store = await openAt(() => OCTOBER_30);
    const sent: string[][] = [];
    using _monitor = await monitorRedis(server.port, ({ args, source }) => {
      if (source !== "lua") sent.push(["a", "b", "c"].filter((account) => args.includes(account)));
    });
    const asked = ["a", "b", "c"].flatMap((account) => {
      return Array.from({ length: 600 }, (_, i) => {
        return {
          ...{ environment: "production", method: "GET", route: `/v1/old${i}`, account },
          ...{ requests: 0, last: 0 },
        };
      });
    });
    await store.activity.addCalls(asked.slice(0, 1));
    assert.deepEqual(await store.activity.addCalls(asked), { sums: asked, left: [] });
    await eventually(() => {
      const pages = sent.filter(({ length }) => length > 0);
      assert.deepEqual(pages.slice(-2), [["a", "b"], ["c"]]);
    });
    await store.close();
  });

  it("adds a call of a deprecated operation once, whether it answers late or would not take it", async () => {
    const store = await openAt(() => OCTOBER_30);
    const { activity } = store;
    const [old, older] = ["/v1/old", "/v1/older"].map((route) => {
      return {
        environment: "production",
        method: "GET",
        route,
        account: `of ${route}`,
        requests: 3,
        last: 70,
      };
    }) as [DeprecatedCall, DeprecatedCall];
    await redis.script("FLUSH");
    await redis.call("ACL", "SETUSER", "default", "-eval");
    const refused = await activity.addCalls([old, older]);
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    assert.deepEqual(refused, { sums: [], left: [old, older] });
    assert.deepEqual(await activity.addCalls([old]), { sums: [old], left: [] });
    const page = Array.from({ length: 1_000 }, () => ({ ...old, requests: 1 }));
    server.stop();
    const late = await activity.addCalls([...page, older]).finally(() => server.cont());
    assert.deepEqual(late, { sums: [], left: [older] }, "the first command may have run");
    await eventually(async () => {
      assert.deepEqual(await activity.calls([old]), [{ ...old, requests: 1_003 }]);
    });
    assert.deepEqual(await activity.addCalls(late.left), { sums: [older], left: [] });
    assert.deepEqual(await activity.calls([old, older]), [{ ...old, requests: 1_003 }, older]);
    await store.close();
  });

  it("keeps the plan once a month, and where it changes the one before", async () => {
    let nowMs = OCTOBER_30;
    const store = await openAt(() => nowMs);
    for (const plan of ["free", "free", "max", "pro"]) {
      await spend(store, accountRef, { ...perDay(1_000), plan });
    }
    assert.deepEqual(await redis.hgetall(october), { 87: "4", p: "pro", p29: "free" });
    nowMs += DAY_MS;
    await spend(store, accountRef, { ...perDay(1_000), plan: "pro" });
    await spend(store, accountRef, { ...perDay(1_000), plan: "1.max" });
    const kept = { 87: "4", 90: "2", p: "1.max", p29: "free", p30: "pro" };
    assert.deepEqual(await redis.hgetall(october), kept);
    await store.close();
  });

  it("charges and counts the day of an account whose plan is damaged", async () => {
    const store = await openAt(() => OCTOBER_30);
    await spend(store, accountRef, { ...perDay(1_000), plan: "free" });
    await redis.hset(october, "p", "\u0007 {}", "p99", "x", "pz", "y", "px3", "z");
    const days = await store.history([accountRef], { from: TODAY, to: TODAY });
    assert.deepEqual(days, [[{ day: TODAY, admitted: 1, units: 1, refused: 0 }]]);
    const result = await spend(store, accountRef, { ...perDay(1_000), plan: "free" });
    assert.equal(result.decision.windows[0]?.used, 2);
    assert.equal(await redis.hget(october, "p"), "free");
    await store.close();
  });

  it("leaves with the time of the history after the end of its month", async () => {
    const store = await openAt(() => OCTOBER_30);
    await spend(store, accountRef, perDay(10));
    const life = 400 * DAY_MS + Date.UTC(2026, 10) - OCTOBER_30;
    const left = await redis.pttl(october);
    assert.ok(left <= life && left > life - 60_000, `${left} of ${life}`);
    await store.close();

    const shorter = await openAt(() => OCTOBER_30 + DAY_MS, DAY_MS);
    await spend(shorter, accountRef, perDay(10));
    assert.ok((await redis.pttl(october)) > life - 120_000, "a new time shortens nothing");
    await shorter.close();
  });

  it("takes at most 24 bytes a day, and nothing of the 300 of the account", async () => {
    let nowMs = Date.UTC(2026, 9, 1);
    const store = await openAt(() => nowMs);
    await spend(store, accountRef, { ...perDay(1_000_000), plan: LONGEST_PLAN });
    const first = Number(await redis.memory("USAGE", october));
    for (let day = 1; day < 31; day++) {
      nowMs += DAY_MS;
      for (let i = 0; i < 3; i++)
        await spend(store, accountRef, { ...perDay(1_000_000), plan: LONGEST_PLAN, cost: 9_000 });
      const field = 3 * day;
      await redis.hincrby(october, `${field}`, 29_000);
      await redis.hincrby(october, `${field + 2}`, 30_000);
    }
    await store.close();
    const grown = Number(await redis.memory("USAGE", october)) - first;
    assert.ok(grown / 30 <= 24, `${grown / 30} bytes a day`);
    assert.deepEqual(Object.keys(await redis.hgetall(accountKey("tg", accountRef))), ["d"]);
  });

  it("waits in the account where it is damaged and the right to DEL it is missing", async () => {
    const store = await openAt(() => OCTOBER_30);
    const key = accountKey("tg", accountRef);
    await redis.set(october, "damage");
    await rights("-del");
    assert.ok((await spend(store, accountRef, perDay(100))).admitted);
    assert.equal(await redis.hget(key, "y"), `${TODAY} 1 0`);
    await rights("allcommands");
    await spend(store, accountRef, perDay(100));
    assert.deepEqual([await redis.hget(key, "y"), await redis.hget(october, "87")], [null, "2"]);
    await store.close();
  });

  it("waits in the account where it cannot be added, is told all the same, and added later once", async () => {
    let nowMs = OCTOBER_30;
    const store = await openAt(() => nowMs);
    const key = accountKey("tg", accountRef);
    const month = { ...perDay(100), limits: [{ window: "month", limit: 100 } as const] };
    const days = async () => {
      const [all = []] = await store.history([accountRef], { from: TODAY, to: TODAY + 1 });
      return all.map(({ day, admitted, units }) => [day - TODAY, admitted, units]);
    };
    await spend(store, accountRef, month);
    await redis.call("ACL", "SETUSER", "default", "-hincrby");
    await spend(store, accountRef, month);
    await spend(store, accountRef, { ...month, cost: 5 });
    nowMs += DAY_MS;
    await spend(store, accountRef, { ...month, cost: 0 });
    assert.equal(await redis.hget(key, "y"), `${TODAY} 2 4 ${TODAY + 1} 1 -1`);
    assert.ok((await redis.pttl(key)) > 399 * DAY_MS, "as long as the days are kept");
    const told = [
      [0, 3, 7],
      [1, 1, 0],
    ];
    assert.deepEqual(await days(), told);
    assert.equal((await store.peek(accountRef, month)).windows[0]?.used, 7);
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    await spend(store, accountRef, { ...month, cost: 0 });
    assert.deepEqual(await redis.hget(key, "y"), null);
    assert.deepEqual(await days(), [
      [0, 3, 7],
      [1, 2, 0],
    ]);
    await store.close();
  });

  const CAP = { window: "day", limit: 10, part: { id: "@1", name: "key" } } as const;
  it.each([
    ["an account", perDay(10)],
    ["a key with a limit of its own", { ...perDay(10), limits: [...perDay(10).limits, CAP] }],
  ])("of %s begins anew where it is damaged, charges as ever, and is logged", async (_, ask) => {
    const historyMs = 400 * DAY_MS;
    const { store, told } = await open(server.address, { historyMs, now: () => OCTOBER_30 });
    for (const harm of [
      () => redis.set(october, "no hash"),
      () => redis.hset(october, 87, "no number"),
      () => redis.hset(october, 87, "9223372036854775807"),
    ]) {
      await redis.flushall();
      store.invalidate(accountRef);
      const whole = (await spend(store, accountRef, ask)).decision;
      await harm();
      const { decision } = await spend(store, accountRef, ask);
      assert.deepEqual([whole.repaired, decision.repaired], [false, true]);
      assert.deepEqual(
        decision.windows.map(({ used, resetMs }) => [used, resetMs]),
        whole.windows.map(({ used, resetMs }) => [used + 1, resetMs]),
      );
      assert.deepEqual(await redis.hgetall(october), { 87: "1" });
      assert.deepEqual(
        [...told.splice(0)].map(({ message }) => message),
        ["counter_repaired"],
      );
    }
    await store.close();
  });

  it("does so with each request of a day after the first, and never tells less than nothing", async () => {
    const store = await openAt(() => OCTOBER_30);
    const first = () => spend(store, accountRef, perDay(10));
    for (const [harm, told] of [
      [() => redis.set(october, "no hash"), "1"],
      [() => redis.hset(october, 87, "no number"), "1"],
      [() => redis.hset(october, 87, "9223372036854775807"), "1"],
      [() => redis.hset(october, 87, "-7"), "0"],
    ] as const) {
      await redis.flushall();
      await first();
      await harm();
      const result = await spend(store, accountRef, perDay(10));
      assert.equal(result.decision.windows[0]?.used, 2);
      assert.deepEqual(await redis.hgetall(october), { 87: told });
    }
    await store.close();
  });

  it("adds the cost beyond one of each request, the first of a day and all later ones", async () => {
    const store = await openAt(() => OCTOBER_30);
    await redis.flushall();
    for (const cost of [3, 5, 1, 0, 2]) {
      await spend(store, accountRef, { ...perDay(100), cost, plan: "pro" });
    }
    assert.deepEqual(await redis.hgetall(october), { 87: "5", 88: "6", p: "pro" });
    await store.close();
  });
});
