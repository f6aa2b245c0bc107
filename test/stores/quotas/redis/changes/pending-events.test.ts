import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, it } from "vitest";
import type { RedisAddress } from "../../../../../src/config/schema/addresses.ts";
import type { AdminEvent, ResetEvent } from "../../../../../src/stores/quotas/admin-changes.ts";
import type { MissingPart, QuotaStore } from "../../../../../src/stores/quotas/quota-store.ts";
import { REPLY_LATE_MS } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { eventually } from "../../../../support/poll.ts";
import { useRedis } from "../../../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend, type Told } from "../redis-kit.ts";

const opened: QuotaStore[] = [];
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});
const { server, redis } = await useRedis();

const RESETS = "tg:{0}:resets";

async function openHere(onReset?: (reset: ResetEvent) => void): Promise<QuotaStore> {
  return openTelling(onReset && ((event) => onReset(event as ResetEvent)));
}

async function openTelling(onAdminEvent?: (event: AdminEvent) => void): Promise<QuotaStore> {
  const { store } = await open(server.address, { onAdminEvent });
  opened.push(store);
  return store;
}

describe("a reset that a command made", () => {
  it("is told by one gateway of those that run, with when and how much", async () => {
    const told: ResetEvent[] = [];
    for (const _ of [1, 2]) await openHere((reset) => told.push(reset));
    const command = await openHere();
    await spend(command, account("a:b"), { ...perDay(9), cost: 3 });
    const beforeMs = await clockOfRedis();
    assert.deepEqual(await command.reset(account("a:b")), [{ counter: "day", units: 3 }]);
    await eventually(() => told.length > 0);
    const [reset] = told;
    assert.deepEqual(reset?.accountRef, account("a:b"));
    assert.deepEqual(reset?.windows, [{ counter: "day", units: 3 }]);
    assert.ok(reset.atMs >= beforeMs && reset.atMs <= (await clockOfRedis()));
    assert.equal(await redis.exists(RESETS), 0, "nothing waits for another gateway");
    // A second one comes after it: what came twice would have come by then.
    await spend(command, account("c"), perDay(9));
    await command.reset(account("c"));
    await eventually(() => told.some(({ accountRef }) => accountRef.account === "c"));
    assert.deepEqual(
      told.map(({ accountRef }) => accountRef.account),
      ["a:b", "c"],
    );
  });

  it("waits for the next gateway that starts; records that nobody can read are left out", async () => {
    const command = await openHere();
    await spend(command, account("a"), perDay(9));
    await command.reset(account("a"));
    const good = [{ counter: "day", units: 1 }];
    const records = {
      ...{ text: "{", none: "null", id: JSON.stringify([7, 1, good]) },
      ...{ at: JSON.stringify(["production:x", 1.5, good]) },
      ...{ list: JSON.stringify(["production:x", 1, {}]) },
      ...{ counter: JSON.stringify(["production:x", 1, [{ counter: 7, units: 1 }]]) },
      ...{ units: JSON.stringify(["production:x", 1, [...good, { counter: "day", units: "1" }]]) },
      ...{ member: JSON.stringify(["production:x", 1, [null]]) },
    };
    await redis.hset(RESETS, records);
    const told: string[] = [];
    await openHere(({ accountRef }) => told.push(accountRef.account));
    await eventually(() => told.length > 0);
    assert.deepEqual(told, ["a"]);
    assert.equal(await redis.exists(RESETS), 0);
  });

  it("leaves no record where its process logs what it changes, which takes none of others", async () => {
    const { store: own } = await open(server.address, { logsOwnChanges: true });
    opened.push(own);
    await spend(own, account("a"), perDay(9));
    await own.reset(account("a"));
    assert.equal(await redis.exists(RESETS), 0);
    const command = await openHere();
    await spend(command, account("b"), perDay(9));
    await command.reset(account("b"));
    const told: string[] = [];
    await openHere(({ accountRef }) => told.push(accountRef.account));
    await eventually(() => told.length > 0);
    assert.deepEqual(told, ["b"]);
  });

  it.each([
    ["hgetall", "HGETALL or to DEL tg:\\{0\\}:resets"],
    ["del", "HGETALL or to DEL tg:\\{0\\}:resets"],
    ["eval", "EVAL"],
  ])("cannot be taken without %s: the line names the rights for it", async (right, named) => {
    const rights = ["on", ">s3cret", "allkeys", "allchannels", "+@all", `-${right}`];
    await redis.call("ACL", "SETUSER", `no-${right}`, ...rights);
    const command = await openHere();
    await spend(command, account("a"), perDay(9));
    await command.reset(account("a"));
    // Redis runs a script that it knows without EVAL.
    await redis.script("FLUSH");
    const url = `redis://no-${right}:s3cret@127.0.0.1:${server.port}`;
    const address = { kind: "redis", url, shown: "redis://…" } as const;
    const { store, told } = await open(address, { onAdminEvent: () => {} });
    opened.push(store);
    const whys = () => told.map(({ details }) => String(details?.why));
    const takes = new RegExp(`no right to ${named},`);
    await eventually(() => whys().some((why) => takes.test(why)));
    assert.equal(
      whys().some((why) => /DEL/.test(why) && !takes.test(why)),
      false,
    );
  });

  it("is done where 10,000 changes wait for a gateway already, and is told by their number alone", async () => {
    const command = await openHere();
    const waiting = Array.from({ length: 9_999 }, (_, i) => [`event ${i}`, "null"] as const);
    await redis.hset(RESETS, Object.fromEntries(waiting));
    for (const name of ["a", "b", "c"]) {
      await spend(command, account(name), perDay(9));
      assert.deepEqual(await command.reset(account(name)), [{ counter: "day", units: 1 }]);
    }
    const logged: string[] = [];
    const onAdminEvent = ({ accountRef }: AdminEvent) => logged.push(accountRef.account);
    const { store, told } = await open(server.address, { onAdminEvent });
    opened.push(store);
    const isDropped = ({ message }: Told) => message === "changes_dropped";
    await eventually(() => assert.equal(told.filter(isDropped).length, 1));
    const { level, details } = told.find(isDropped) as Told;
    assert.deepEqual([level, details], ["error", { store: server.address.shown, changes: 2 }]);
    assert.deepEqual(logged, ["a"]);
  });

  it("of nothing leaves nothing to tell", async () => {
    const command = await openHere();
    assert.deepEqual(await command.reset(account("a")), []);
    assert.equal(await redis.exists(RESETS), 0);
  });
});

describe("a ban that a command made", () => {
  it("is told by one gateway of those that run, with its reason, and so is its end", async () => {
    const told: AdminEvent[] = [];
    for (const _ of [1, 2]) await openTelling((event) => told.push(event));
    const command = await openTelling();
    const wanted = { lengthMs: 60_000, window: "day", keptMs: 1, plan: "free" } as const;
    const { untilMs } = await command.ban(account("a:b"), { ...wanted, reason: "abuse" });
    await eventually(() => told.length > 0);
    const imposed = { untilMs, offences: 0, window: "day", plan: "free", reason: "abuse" };
    assert.deepEqual(told, [{ accountRef: account("a:b"), atMs: untilMs - 60_000, imposed }]);
    assert.equal(await command.liftBan(account("a:b")), true);
    assert.equal(await command.liftBan(account("a:b")), false);
    await eventually(() => told.length > 1);
    assert.deepEqual([told[1]?.accountRef, "imposed" in (told[1] ?? {})], [account("a:b"), true]);
    assert.equal(told.length, 2);
    assert.equal(await redis.exists(RESETS), 0);
  });

  it("that nobody can read is left out", async () => {
    const good = { untilMs: 1, offences: 0, window: "day", plan: "free", reason: "" };
    const records = [{ ...good, untilMs: "1" }, { ...good, reason: 7 }, {}, 7].map((what, i) => {
      return [`${i}`, JSON.stringify(["production:x", 1, what])] as const;
    });
    await redis.hset(RESETS, Object.fromEntries(records));
    await redis.hset(RESETS, "good", JSON.stringify(["production:y", 1, good]));
    const told: string[] = [];
    await openTelling(({ accountRef }) => told.push(accountRef.account));
    await eventually(() => told.length > 0);
    assert.deepEqual(told, ["y"]);
  });
});

async function clockOfRedis(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

describe("changes that a command makes while Redis is out of memory", () => {
  it("are done and told if they take none; a ban by hand is refused and not kept", async (t) => {
    t.onTestFinished(async () => void (await redis.config("SET", "maxmemory", "0")));
    const told: AdminEvent[] = [];
    await openTelling((event) => told.push(event));
    const command = await openHere();
    const accountRef = account("full");
    await spend(command, accountRef, { ...perDay(9), cost: 3 });
    const length = { lengthMs: 60_000, keptMs: 60_000 };
    const imposed = { ...length, window: "day", plan: "free", reason: "" } as const;
    await command.ban(accountRef, imposed);
    await eventually(() => told.length === 1);
    await redis.config("SET", "maxmemory", "1");
    assert.deepEqual(await command.reset(accountRef), [{ counter: "day", units: 3 }]);
    assert.equal(await command.liftBan(accountRef), true);
    await eventually(() => told.length === 3);
    await assert.rejects(command.ban(accountRef, imposed), /out of memory/);
    assert.deepEqual(await command.bans(), []);
  });
});

describe("changes by hand that a store ran only after it was given up", () => {
  it("are not made: no account is banned, and no ban is lifted, without an event of it", async () => {
    const told: AdminEvent[] = [];
    await openTelling((event) => told.push(event));
    // The second one has not asked Redis for anything when it stops.
    const [command, first] = [await openHere(), await openHere()];
    const [free, banned, other] = [account("free"), account("banned"), account("other")];
    const length = { lengthMs: 60_000, keptMs: 60_000 };
    const imposed = { ...length, window: "day", plan: "free", reason: "" } as const;
    await command.ban(banned, imposed);
    await eventually(() => told.length === 1);
    server.stop();
    try {
      const bans = [command.ban(free, imposed), first.ban(other, imposed)];
      const changes = [...bans, command.liftBan(banned)];
      const ends = await Promise.allSettled(changes);
      assert.deepEqual(
        ends.map(({ status }) => status),
        ["rejected", "rejected", "rejected"],
      );
      await sleep(REPLY_LATE_MS);
    } finally {
      server.cont();
    }
    // Redis reads calls that came before in the turn of the first ping, at the latest.
    for (const _ of [1, 2]) await redis.ping();
    const ofOther = await openHere();
    const listed = (await ofOther.bans()).map(({ account: name }) => name);
    assert.deepEqual([listed, told.length], [["banned"], 1]);
    await ofOther.ban(free, imposed);
    await eventually(() => assert.equal(told.length, 2));
  });
});

describe("a reset of which the store cannot carry the message", () => {
  const LIMIT = 3;

  /** A user without some rights; two gateways that know an account as spent, and a command. */
  async function openDenied(user: string, ...denied: readonly string[]) {
    const rights = (...more: readonly string[]) => redis.call("ACL", "SETUSER", user, ...more);
    await rights("on", ">s3cret", "allkeys", "allchannels", "+@all", ...denied);
    const url = `redis://${user}:s3cret@127.0.0.1:${server.port}`;
    const address: RedisAddress = { kind: "redis", url, shown: "redis://…" };
    const events: AdminEvent[] = [];
    const houses: Awaited<ReturnType<typeof open>>[] = [];
    for (const _ of [1, 2]) {
      houses.push(await open(address, { onAdminEvent: (event) => events.push(event) }));
    }
    const command = await open(address);
    opened.push(...[...houses, command].map(({ store }) => store));
    const accountRef = account(user);
    for (let i = 0; i < LIMIT; i++) await spend(command.store, accountRef, perDay(LIMIT));
    const admits = async ({ store }: (typeof houses)[number]) => {
      return (await spend(store, accountRef, perDay(LIMIT))).admitted;
    };
    for (const house of houses) {
      // The second refusal comes from memory.
      for (const _ of [1, 2]) assert.equal(await admits(house), false);
    }
    const missing: MissingPart[] = [];
    const reset = () => command.store.reset(accountRef, {}, (part) => missing.push(part));
    const lines = (message: string) => {
      return houses.flatMap(({ told }) => told.filter((line) => line.message === message));
    };
    return { rights, events, houses, admits, reset, missing, lines };
  }

  it("for want of the right to INCR is done, told without a number, logged, and the right is named", async () => {
    const denied = await openDenied("uncounted", "-incr");
    assert.deepEqual(await denied.reset(), [{ counter: "day", units: LIMIT }]);
    assert.deepEqual(
      denied.missing.map(({ node, buckets }) => ({ node, buckets })),
      [{ node: "redis://…", buckets: [] }],
    );
    assert.match(denied.missing[0]?.why ?? "", /lacks a permission.* \(INCR tg:/);
    for (const house of denied.houses) await eventually(() => denied.admits(house));
    await eventually(() => denied.events.length > 0, { withinMs: 30_000 });
    await eventually(() => denied.lines("store_right_missing").length > 0);
    assert.match(String(denied.lines("store_right_missing")[0]?.details?.why), / INCR /);
    assert.equal(denied.events.length, 1);
    assert.deepEqual(denied.lines("counter_regression"), []);
  });

  it("nor publish it is taken up by one gateway, and by the others once it can be told", async () => {
    const denied = await openDenied("unheard", "-incr", "-publish");
    assert.deepEqual(await denied.reset(), [{ counter: "day", units: LIMIT }]);
    await eventually(() => denied.events.length > 0, { withinMs: 30_000 });
    await denied.rights("+incr", "+publish");
    for (const house of denied.houses) await eventually(() => denied.admits(house));
    assert.equal(denied.events.length, 1);
    assert.deepEqual(denied.lines("counter_regression"), []);
  });

  it("because of damage of its number is done and told: the numbers begin again", async () => {
    const whole = await openDenied("damaged");
    await redis.set("tg:{0}:version", "garbage");
    assert.deepEqual(await whole.reset(), [{ counter: "day", units: LIMIT }]);
    assert.deepEqual(whole.missing, []);
    for (const house of whole.houses) await eventually(() => whole.admits(house));
    assert.equal(await redis.get("tg:{0}:version"), "1");
    await eventually(() => whole.events.length > 0);
  });

  it("is done and told where what waits for a gateway is damaged", async () => {
    const whole = await openDenied("kept");
    await redis.set(RESETS, "garbage");
    assert.deepEqual(await whole.reset(), [{ counter: "day", units: LIMIT }]);
    await eventually(() => whole.events.length > 0);
    assert.deepEqual(whole.missing, []);
  });
});
