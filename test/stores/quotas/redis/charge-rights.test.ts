import assert from "node:assert/strict";
import { afterEach, describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { chargeLate } from "../../../../src/stores/quotas/outage/late-charge.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { createQuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import { each } from "../../../support/each.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { account, open, perDay, spend } from "./redis-kit.ts";

const { server, redis } = await useRedis();
const NOON = Date.UTC(2026, 6, 15, 12);
const DAY_MS = 86_400_000;
const MINUTE: QuotaRequest = {
  limits: [{ window: "minute", limit: 1 }],
  bans: undefined,
  requests: 1,
};
const METERED: QuotaRequest = {
  limits: [
    { window: "day", limit: 9 },
    { window: "day", limit: 90, part: { id: "#tokens", name: "tokens" }, hold: 7 },
    { window: "day", limit: 9, part: { id: "@17", name: "key" } },
  ],
  bans: undefined,
  requests: 1,
};

afterEach(async () => {
  await redis.call("ACL", "SETUSER", "default", "allcommands", "allkeys");
  await redis.config("SET", "maxmemory", "0");
  await redis.flushall();
});

/** The fields of every hash of accounts, by its key. */
async function hashes(): Promise<Record<string, Record<string, string>>> {
  const all: Record<string, Record<string, string>> = {};
  for (const key of (await redis.keys("tg:*")).sort()) {
    const isOfAccounts = !key.endsWith(":messages") && (await redis.type(key)) === "hash";
    if (isOfAccounts) all[key] = await redis.hgetall(key);
  }
  return all;
}

/** Charges units of a day that were admitted without the store. */
async function owe(name: string, counter = "day"): Promise<void> {
  const link = connectRedis({ address: server.address });
  await link.tried;
  const quotaClient = createQuotaClient(link, "tg", { clock: () => NOON });
  const windows = [{ counter, startMs: NOON - (NOON % 86_400_000), units: 3 }];
  const owed = { accountRef: account(name), plan: undefined, windows, days: [], meters: [] };
  await chargeLate(quotaClient, [owed], performance.now() + 2_000).finally(() => link.close());
}

type Charge = (store: QuotaStore) => Promise<unknown>;
const charge = (name: string, quotaRequest: QuotaRequest): Charge => {
  return (store) => spend(store, account(name), quotaRequest);
};
const CHARGES: Readonly<Record<string, Charge>> = {
  "a new account": charge("new", perDay(9)),
  "an account whose minute begins": charge("runs", MINUTE),
  "a running account and a new one in one call": (store) =>
    Promise.all([charge("runs", perDay(9))(store), charge("new", perDay(9))(store)]),
  "a late charge of a new account": () => owe("new"),
  "a ban by hand": (store) =>
    store.ban(account("new"), {
      ...{ lengthMs: 1_000, keptMs: 1_000, window: "day", plan: "free", reason: "" },
    }),
};

/** A slot that moves is noticed by a DEL, after which Redis asks for no memory. */
const APART: Readonly<Record<string, Charge>> = {
  "a meter and a cap of a new account": charge("new", METERED),
  "a meter and a cap of a running account": charge("runs", METERED),
};

const NEEDED_LATER = ["pexpire", "hdel"].flatMap((right) => {
  const charges = Object.entries({ ...CHARGES, ...APART });
  return charges.map(([name, run]) => [name, right, run] as const);
});

describe.each(NEEDED_LATER)("a call that charges %s", (_name, right, run) => {
  it(`writes nothing if it fails because the right to ${right} is missing, and all of it with the right`, async () => {
    const { store } = await open(server.address, { now: () => NOON, historyMs: 86_400_000 });
    await spend(store, account("runs"), perDay(9));
    const before = await hashes();
    await redis.call("ACL", "SETUSER", "default", `-${right}`);
    await assert.rejects(run(store));
    assert.deepEqual(await hashes(), before);
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    await run(store);
    const after = await hashes();
    assert.notDeepEqual(after, before);
    for (const key of each(Object.keys(after))) assert.ok((await redis.pttl(key)) > 0, key);
    await store.close();
  });
});

it("a reset that lacks the right to HDEL sets no window to 0", async () => {
  const { store } = await open(server.address, { now: () => NOON });
  await spend(store, account("runs"), perDay(9));
  const before = await hashes();
  await redis.call("ACL", "SETUSER", "default", "-hdel");
  await assert.rejects(store.reset(account("runs")));
  assert.deepEqual(await hashes(), before);
  await redis.call("ACL", "SETUSER", "default", "allcommands");
  assert.deepEqual(
    (await store.reset(account("runs"))).map(({ units }) => units),
    [1],
  );
  await store.close();
});

const NEEDED = [
  "time",
  "type",
  "pttl",
  "hset",
  "hdel",
  "pexpire",
  "hlen",
  "hget",
  "hgetall",
  "hmget",
];

describe.each(NEEDED)("without the right to %s", (command) => {
  it.each(Object.entries({ ...CHARGES, ...APART }))(
    "a call that charges %s has not run, and leaves no uncertain charge",
    async (_name, run) => {
      // TIME tells the clock of Redis, and is not asked for with another one.
      const clock = command === "time" ? {} : { now: () => NOON };
      const { store, told, failures } = await open(server.address, { ...clock, historyMs: DAY_MS });
      await spend(store, account("runs"), perDay(9));
      await redis.call("ACL", "SETUSER", "default", `-${command}`);
      await run(store).catch(() => undefined);
      const known = failures.map(({ code, executed }) => `${code} ${executed}`);
      assert.deepEqual(
        known.filter((each) => each !== "NOPERM no"),
        [],
      );
      const uncertain = told.filter(({ message }) => message === "charges_uncertain");
      assert.deepEqual([store.charges().uncertainUnits, uncertain], [0, []]);
      await store.close();
    },
  );
});

it("a charge that lacks the right to HSET fails as one that was not executed", async () => {
  const { store, failures } = await open(server.address);
  await redis.call("ACL", "SETUSER", "default", "-hset");
  await assert.rejects(spend(store, account("new"), perDay(9)));
  assert.deepEqual(
    failures.map(({ code, executed }) => [code, executed]),
    [["NOPERM", "no"]],
  );
  await store.close();
});

it.each([
  ["hgetall", {}],
  ["hget", { historyMs: DAY_MS }],
])(
  "a call that charged one account, and then lacks the right to %s for another, leaves uncertain charges",
  async (command, history) => {
    const { store } = await open(server.address, { now: () => NOON, ...history });
    await redis.call("ACL", "SETUSER", "default", `-${command}`);
    const charges = [charge("new", { ...perDay(9), bans: undefined }), charge("metered", METERED)];
    const ended = await Promise.allSettled(charges.map((each) => each(store)));
    assert.deepEqual(
      ended.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.equal(store.charges().uncertainUnits, 2);
    const [key = ""] = await redis.keys("tg:{*new");
    assert.deepEqual(await redis.hvals(key), [`${NOON - (NOON % DAY_MS)} 1 0`]);
    await store.close();
  },
);

it("a charge of an account whose hash is damaged has not run without the right to DEL", async () => {
  const { store } = await open(server.address, { now: () => NOON });
  await spend(store, account("runs"), METERED);
  await store.close();
  const whole = Object.keys(await hashes());
  assert.equal(whole.length, 3, "of its plan, of its meters and of its caps");
  for (const damaged of whole) {
    const { store: other, failures } = await open(server.address, { now: () => NOON });
    await redis.set(damaged, "no hash");
    await redis.call("ACL", "SETUSER", "default", "-del");
    await assert.rejects(spend(other, account("runs"), METERED));
    assert.deepEqual([failures.map(({ executed }) => executed), damaged], [["no"], damaged]);
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    await spend(other, account("runs"), METERED);
    await other.close();
  }
});

describe.each(Object.entries(CHARGES))("a call that charges %s", (_name, run) => {
  it("writes nothing if it fails because Redis is out of memory", async () => {
    const { store } = await open(server.address, { now: () => NOON, historyMs: 86_400_000 });
    await spend(store, account("runs"), perDay(9));
    const before = await hashes();
    await redis.config("SET", "maxmemory", "1");
    await assert.rejects(run(store));
    assert.deepEqual(await hashes(), before);
    await store.close();
  });
});

it("an account with a running hash is charged by a user without the right to PEXPIRE", async () => {
  const { store } = await open(server.address, { now: () => NOON });
  await spend(store, account("runs"), perDay(9));
  await redis.call("ACL", "SETUSER", "default", "-pexpire");
  const { decision } = await spend(store, account("runs"), perDay(9));
  assert.equal(decision.windows[0]?.used, 2);
  await store.close();
});

it("a late charge of a meter keeps the windows of a hash without a life", async () => {
  const { store } = await open(server.address, { now: () => NOON });
  await spend(store, account("runs"), METERED);
  const [key = ""] = await redis.keys("tg:{*runs");
  await redis.persist(key);
  await owe("runs", "#tokens.day");
  assert.ok((await redis.pttl(key)) > 86_400_000);
  await store.close();
});

type Further = readonly [before: QuotaRequest, run: Charge];
/** Charges of an account that has such windows already. */
const FURTHER: Readonly<Record<string, Further>> = {
  "its day": [perDay(9), charge("runs", perDay(9))],
  "a minute that begins": [perDay(9), CHARGES["an account whose minute begins"] as Charge],
  "a meter": [METERED, charge("runs", METERED)],
  "a meter, and a new account in the same call": [
    METERED,
    (store) => Promise.all([charge("runs", METERED)(store), charge("new", METERED)(store)]),
  ],
  "a late charge": [perDay(9), () => owe("runs")],
  "a ban by hand": [
    perDay(9),
    (store) =>
      store.ban(account("runs"), {
        ...{ lengthMs: 1_000, keptMs: 1_000, window: "day", plan: "free", reason: "" },
      }),
  ],
};

/** An account with such windows, and a store that knows nothing of it. */
async function openRunning(quotaRequest: QuotaRequest) {
  const first = await open(server.address, { now: () => NOON });
  await spend(first.store, account("runs"), quotaRequest);
  await first.store.close();
  const { store } = await open(server.address, { now: () => NOON });
  const [key = ""] = await redis.keys("tg:{*runs");
  return { store, key };
}

describe.each(Object.entries(FURTHER))("%s of a running account", (_name, [before, run]) => {
  it("leaves its hash a life that is longer", async () => {
    const { store, key } = await openRunning(before);
    await redis.pexpire(key, 30 * DAY_MS);
    await run(store);
    assert.ok((await redis.pttl(key)) > 29 * DAY_MS);
    await store.close();
  });

  it("gives its hash a life again, and without the right to PEXPIRE writes nothing", async () => {
    const { store, key } = await openRunning(before);
    await redis.persist(key);
    const held = await hashes();
    await redis.call("ACL", "SETUSER", "default", "-pexpire");
    await assert.rejects(run(store));
    assert.deepEqual(await hashes(), held);
    await redis.call("ACL", "SETUSER", "default", "allcommands");
    await run(store);
    assert.ok((await redis.pttl(key)) > 0);
    await store.close();
  });
});

it("a meter of a running account and of a new one in one call are charged only with the right to PEXPIRE", async () => {
  const [before, run] = FURTHER["a meter, and a new account in the same call"] as Further;
  const { store } = await openRunning(before);
  const held = await hashes();
  await redis.call("ACL", "SETUSER", "default", "-pexpire");
  await assert.rejects(run(store));
  assert.deepEqual(await hashes(), held);
  await store.close();
});

it("a minute after the last one of its account is charged only with the right to PEXPIRE", async () => {
  const first = await open(server.address, { now: () => NOON });
  await spend(first.store, account("runs"), MINUTE);
  await first.store.close();
  const { store } = await open(server.address, { now: () => NOON + 60_000 });
  const held = await hashes();
  await redis.call("ACL", "SETUSER", "default", "-pexpire");
  await assert.rejects(spend(store, account("runs"), MINUTE));
  assert.deepEqual(await hashes(), held);
  await store.close();
});

it("the first day that is remembered of a running account is charged without the right to PEXPIRE", async () => {
  const running = await openRunning(perDay(9));
  await running.store.close();
  const { store } = await open(server.address, { now: () => NOON, historyMs: DAY_MS });
  await redis.call("ACL", "SETUSER", "default", "-pexpire");
  const { decision } = await spend(store, account("runs"), perDay(9));
  assert.equal(decision.windows[0]?.used, 2);
  await store.close();
});

it("a strike that outlives the windows of its account is noted only with the right to PEXPIRE", async () => {
  const bans = { ...DEFAULT_BANS, withinMs: 3_600_000, graceMs: 0 };
  const first = await open(server.address, { now: () => NOON });
  // The second is refused, which is noted.
  for (let i = 0; i < 2; i++) await spend(first.store, account("runs"), { ...MINUTE, bans });
  await first.store.close();
  const { store } = await open(server.address, { now: () => NOON + 1 });
  const held = await hashes();
  await redis.call("ACL", "SETUSER", "default", "-pexpire");
  await assert.rejects(spend(store, account("runs"), { ...MINUTE, bans }));
  assert.deepEqual(await hashes(), held);
  await redis.call("ACL", "SETUSER", "default", "allcommands");
  assert.equal((await spend(store, account("runs"), { ...MINUTE, bans })).decision.strikes, 1);
  await store.close();
});

it("a day that cannot be noted waits without the right to PEXPIRE too, and is noted later", async () => {
  const { store } = await open(server.address, { now: () => NOON, historyMs: 400 * DAY_MS });
  const runs = account("runs");
  await spend(store, runs, perDay(9));
  // The days have hashes of their own, which another node may have.
  await redis.call("ACL", "SETUSER", "default", "-pexpire", "resetkeys", "~tg:{*");
  assert.equal((await spend(store, runs, perDay(9))).decision.windows[0]?.used, 2);
  await redis.call("ACL", "SETUSER", "default", "allcommands", "allkeys");
  await spend(store, runs, perDay(9));
  const [days] = await store.history([runs], {
    from: NOON / DAY_MS - 0.5,
    to: NOON / DAY_MS - 0.5,
  });
  assert.deepEqual(
    days?.map(({ admitted }) => admitted),
    [3],
  );
  await store.close();
});

it("a charge of a day runs without the right to HDEL beside a minute that is over, which stays", async () => {
  const limits = [...MINUTE.limits, ...perDay(9).limits];
  const running = await openRunning({ ...MINUTE, limits });
  await running.store.close();
  const { store } = await open(server.address, { now: () => NOON + 60_000 });
  await redis.call("ACL", "SETUSER", "default", "-hdel");
  const { decision } = await spend(store, account("runs"), perDay(9));
  assert.equal(decision.windows[0]?.used, 2);
  assert.equal(await redis.hlen(running.key), 2);
  await store.close();
});

it("units that wait for their day wait on without the right to HDEL, and are noted once with it", async () => {
  const { store } = await open(server.address, { now: () => NOON, historyMs: 400 * DAY_MS });
  await spend(store, account("runs"), METERED);
  const [meters = ""] = await redis.keys("tg:c{*}:production:runs:m");
  const today = Math.floor(NOON / DAY_MS);
  const [key = ""] = await redis.keys("tg:{*}:production:runs");
  await redis.hset(meters, "y", `#tokens ${today} 5`);
  await redis.hset(key, "y", `${today} 3 0`);
  await redis.call("ACL", "SETUSER", "default", "-hdel");
  await spend(store, account("runs"), METERED);
  const waiting = () => Promise.all([redis.hget(meters, "y"), redis.hget(key, "y")]);
  assert.deepEqual(await waiting(), [`#tokens ${today} 5`, `${today} 3 0`]);
  await redis.call("ACL", "SETUSER", "default", "allcommands");
  for (const _ of [1, 2]) await spend(store, account("runs"), METERED);
  assert.deepEqual(await waiting(), [null, null]);
  const [days] = await store.history([account("runs")], { from: today, to: today });
  assert.deepEqual([days?.[0]?.admitted, days?.[0]?.meters], [3 + 4, { tokens: 5 + 4 * 7 }]);
  await store.close();
});
