import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, it, type TestContext, vi } from "vitest";
import type { Ban } from "../../../../../src/core/quota/bans.ts";
import { type AccountRef, accountId } from "../../../../../src/stores/quotas/account-ref.ts";
import type { BanEvent, ResetEvent } from "../../../../../src/stores/quotas/admin-changes.ts";
import { DecisionCache } from "../../../../../src/stores/quotas/batch/decision-cache.ts";
import type { MissingPart, QuotaStore } from "../../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../../src/stores/quotas/redis/account-key.ts";
import { AccountChanges } from "../../../../../src/stores/quotas/redis/changes/account-changes.ts";
import {
  formatToldBan,
  formatToldReset,
  parseNews,
} from "../../../../../src/stores/quotas/redis/changes/invalidation-message.ts";
import { loggedIds } from "../../../../../src/stores/quotas/redis/changes/message-log.ts";
import { createQuotaClient } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../../src/stores/redis/engines/single-link.ts";
import { DEFAULT_BANS } from "../../../../support/gateway/default-bans.ts";
import { eventually } from "../../../../support/poll.ts";
import { startRedis } from "../../../../support/redis/redis.ts";
import { account, openFor, perDay, spend, startServer } from "../redis-kit.ts";

const server = await startRedis();
const client = await server.client();
afterAll(() => server.close());

/**
 * A gateway that knows accounts, hears of their changes and tells them. One that cannot read is cut
 * off from the place of each account alone.
 */
function open(prefix: string, canRead = true) {
  const link = connectRedis({ address: server.address });
  const { send } = link;
  vi.spyOn(link, "send").mockImplementation((key, name, ...command) => {
    const fails = !canRead && name === "hget";
    return fails ? Promise.reject(new Error("gone")) : send(key, name, ...command);
  });
  const quotaClient = createQuotaClient(link, prefix, {});
  const decisionCache = new DecisionCache();
  const changes = new AccountChanges({
    ...{ quotaClient, decisionCache },
    probed: () => {},
    tellDenied: () => {},
    onDropped: () => {},
  });
  return {
    ...{ quotaClient, decisionCache, changes },
    [Symbol.asyncDispose]: async () => {
      changes.close();
      await link.close();
    },
  };
}

/** Waits until both gateways hear messages. */
function heard(prefix: string) {
  return eventually(async () => {
    assert.deepEqual(await client.pubsub("NUMSUB", `${prefix}:events`), [`${prefix}:events`, 2]);
  });
}

function dayBan(atMs: number): Ban {
  return { untilMs: atMs + 600_000, lengthMs: 600_000, window: "day", offences: 0 };
}

const accountRef = account("a");
const IMPOSED = { window: "day", plan: "free", reason: "" } as const;

/** The change of a ban by hand at an instant; undefined for a lift. */
function byHand(atMs: number, ban: Ban | undefined, of = accountRef): BanEvent {
  return { accountRef: of, atMs, imposed: ban && { ...ban, plan: "free", reason: "" } };
}

it("the bans that one message names are read as one call, as each change is noted at every call under way", async () => {
  const prefix = randomUUID();
  await using here = open(prefix);
  await using there = open(prefix);
  const accountRefs = Array.from({ length: 100 }, (_, i) => account(`${i}`));
  for (const accountRef of accountRefs) {
    await client.hset(here.quotaClient.keyOf(accountRef), "b", `${Date.now() + 60_000} 60000 d 1`);
  }
  await heard(prefix);
  const begun = vi.spyOn(there.decisionCache, "beginCall");
  for (const accountRef of accountRefs)
    here.changes.tellBanSoon(accountRef, Date.now(), dayBan(Date.now()));
  await eventually(() => {
    for (const accountRef of accountRefs) {
      assert.ok(there.decisionCache.lastKnown(accountRef)?.ban !== undefined);
    }
  });
  // The first account is told alone, and the others half a second later.
  expect(begun).toHaveBeenCalledTimes(2);
});

/** Tells changes, then a ban of another account, and returns the end of the ban that a gateway knows once it has heard all. */
async function untilAfter(prefix: string, canRead: boolean, tell: Teller): Promise<number> {
  await using here = open(prefix);
  await using there = open(prefix, canRead);
  await heard(prefix);
  await tell(here.changes);
  const last = account("last");
  const ban = dayBan(Date.now());
  await client.hset(here.quotaClient.keyOf(last), "b", `${ban.untilMs} ${ban.lengthMs} d 0`);
  await here.changes.tellEverywhere(byHand(Date.now(), ban, last));
  const untilOf = (ref: AccountRef) => there.decisionCache.lastKnown(ref)?.ban?.untilMs;
  await eventually(() => assert.equal(untilOf(last), ban.untilMs));
  return untilOf(accountRef) ?? 0;
}

type Teller = (changes: AccountChanges) => Promise<void>;

/** Publishes as another gateway does, with the next number or a later one. */
async function publish(prefix: string, what: string, by = 1): Promise<void> {
  const number = await client.incrby(`${prefix}:{0}:version`, by);
  await client.publish(`${prefix}:events`, `${number} another ${what}`);
}

const ID = accountId(accountRef);

describe("a gateway that hears of a ban and cannot read its account", () => {
  it("believes the ban that the message carries, and one that can read the store's", async () => {
    const ban = dayBan(Date.now() + 5);
    const tell: Teller = (changes) => changes.tellEverywhere(byHand(Date.now() + 5, ban));
    assert.equal(await untilAfter("carried", false, tell), ban.untilMs);
    assert.equal(await untilAfter("read", true, tell), 0);
  });

  it.each([
    ["a lift that was told after it", [0, 1], 0],
    ["a lift that was told before it", [1, 0], 0],
    ["a further ban after a lift", [1, 2], 2],
    ["the later one of two bans that were told the other way round", [2, 0], 2],
    ["a lift after a ban of a clock that was ahead, though that is told again", [2, 1, 2], 0],
  ])("believes %s", async (name, order, expected) => {
    let atMs = 0;
    const until = await untilAfter(name.replaceAll(" ", "-"), false, async (teller) => {
      atMs = Date.now() + 5;
      const changes = [
        byHand(atMs, dayBan(atMs)),
        byHand(atMs + 10, undefined),
        byHand(atMs + 20, dayBan(atMs + 20)),
      ];
      for (const i of order) await teller.tellEverywhere(changes[i] as BanEvent);
    });
    assert.equal(until, expected > 0 ? atMs + 600_020 : 0);
  });

  it.each([
    ["that an earlier version may have lifted since", `${ID} !lifted`, 1],
    ["that an earlier version may have lifted since, or replaced", `${ID} !banned`, 1],
    ["if any account may have changed since", "*", 1],
    ["if a message since was missed", "production:another", 2],
  ])("believes no ban %s", async (_what, message, by) => {
    const prefix = randomUUID();
    const until = await untilAfter(prefix, false, async (teller) => {
      const atMs = Date.now();
      await eventually(() => assert.ok(Date.now() > atMs + 10));
      await publish(prefix, "production:other");
      await publish(prefix, message, by);
      await teller.tellEverywhere(byHand(atMs + 5, dayBan(atMs)));
    });
    assert.equal(until, 0);
  });

  it("believes no ban from before it heard messages", async () => {
    const atMs = Date.now() - 5_000;
    const tell: Teller = (changes) => changes.tellEverywhere(byHand(atMs, dayBan(atMs)));
    assert.equal(await untilAfter("before", false, tell), 0);
  });

  it("believes one that an unrelated message follows", async () => {
    let atMs = 0;
    const until = await untilAfter("unrelated", false, async (teller) => {
      atMs = Date.now() + 5;
      await eventually(() => assert.ok(Date.now() > atMs + 10));
      await publish("unrelated", "production:another !lifted");
      await teller.tellEverywhere(byHand(atMs, dayBan(atMs)));
    });
    assert.equal(until, atMs + 600_000);
  });
});

it("the message of a ban or a reset names its account first, and else only markers that an earlier version ignores", async () => {
  const prefix = randomUUID();
  await using here = open(prefix);
  const messages: string[] = [];
  const listener = client.duplicate();
  listener.on("message", (_channel, text) => messages.push(text));
  await listener.subscribe(`${prefix}:events`);
  await here.changes.tellEverywhere(byHand(1_000, dayBan(1_000)));
  await here.changes.tellEverywhere(byHand(2_000, undefined));
  const [day, meter] = ["day", "#tokens.month"].map((counter) => ({ counter, units: 1 }));
  for (const windows of [[day, meter], [day]] as ResetEvent["windows"][]) {
    await here.changes.tellEverywhere({ accountRef, atMs: 3_000, windows });
  }
  await eventually(() => assert.equal(messages.length, 4));
  listener.disconnect();
  assert.deepEqual(
    messages.map((text) => text.split(" ").slice(2).join(" ")),
    [
      `${ID} !ban,1000,601000,600000,d,0 !banned !resets`,
      `${ID} !ban,2000 !lifted !resets`,
      `${ID} !reset,3000,#tokens.month !kept !resets`,
      `${ID} !kept !resets`,
    ],
  );
});

it.for([
  ["bans", (id: string) => formatToldBan({ id, atMs: 1_000, ban: dayBan(1_000) })],
  ["resets", (id: string) => formatToldReset({ id, atMs: 1_000, counters: ["#tokens.month"] })],
] as const)("the log of messages leaves %s out before it leaves accounts out", ([, format]) => {
  const idsOf = (count: number) => Array.from({ length: count }, (_, i) => `production:a${i}`);
  const told = (ids: readonly string[]) => ids.map(format).join(" ");
  const [few, some, many] = [idsOf(2), idsOf(40), idsOf(500)];
  assert.equal(loggedIds(told(few)), told(few));
  assert.equal(loggedIds(told(some)), some.join(" "));
  assert.equal(loggedIds(told(many)), "*");
});

it("a reset in a message is read with its account, and one without an instant or an account is left out", () => {
  const whole = { id: "production:a", atMs: 3_000, counters: ["#tokens.month", "#rows.day"] };
  const words = `!reset,1,#x.day ${formatToldReset(whole)} production:b !reset,soon,#x.day`;
  const { changed, toldResets } = parseNews(words.split(" "));
  assert.deepEqual([changed, toldResets], [["production:a", "production:b"], [whole]]);
});

it("a reset of counts that the store has lost is heard by the other processes of its gateway without a message", async (t) => {
  const redis = await startServer(t);
  const client = await redis.client();
  const rights = ["~*", "&*", "+@all", "-incr", "-publish"];
  await client.call("ACL", "SETUSER", "mute", "on", ">secret", ...rights);
  const worker = await openFor(t, redis.url);
  const supervisor = await openFor(t, redis.url.replace("//", "//mute:secret@"), {
    onOwnChange: (event) => worker.store.hearChange(event),
  });
  const accountRef = account("lost");
  const take = () => spend(worker.store, accountRef, perDay(1));
  assert.ok((await take()).admitted);
  await take();
  await client.del(...(await client.keys("tg:*:lost")));
  assert.ok(!(await take()).admitted, "the refusal is known");
  const unheard: MissingPart[] = [];
  assert.deepEqual(await supervisor.store.reset(accountRef, {}, (part) => unheard.push(part)), []);
  assert.equal(unheard.length, 1);
  assert.ok((await take()).admitted);
});

describe("a ban that the store does not have and every gateway knows", () => {
  const BANNING = perDay(1, { ...DEFAULT_BANS, strikes: 1, graceMs: 0, durationMs: 600_000 });
  const banned = account("banned");
  const KEY = accountKey("tg", banned);
  const openPair = async (t: TestContext) => {
    const redis = await startServer(t);
    const [here, there] = [await openFor(t, redis.url), await openFor(t, redis.url)];
    const stores = [here.store, there.store];
    const ask = async (store: QuotaStore) => {
      const { admitted, decision } = await spend(store, banned, BANNING);
      return [admitted, decision.ban?.untilMs];
    };
    for (const store of stores) await ask(store);
    const [, untilMs] = await ask(here.store);
    assert.ok(untilMs !== undefined);
    const client = await redis.client();
    await eventually(async () => assert.deepEqual(await ask(there.store), [false, untilMs]));
    return { stores, ask, untilMs, client };
  };

  it("stays when the counts of its account are reset, whether a window runs or none", async (t) => {
    const { stores, ask, untilMs, client } = await openPair(t);
    const [here, there] = stores as [QuotaStore, QuotaStore];
    await client.hdel(KEY, "b");
    assert.equal((await here.reset(banned)).length, 1, "the day runs");
    await client.del(KEY);
    assert.deepEqual(await there.reset(banned), []);
    // A message of another account is read after those of the resets.
    const last = await here.ban(account("last"), {
      ...IMPOSED,
      lengthMs: 600_000,
      keptMs: 600_000,
    });
    const heardOf = () => stores.map((store) => store.lastKnown(account("last"))?.ban?.untilMs);
    await eventually(() => assert.deepEqual(heardOf(), [last.untilMs, last.untilMs]));
    for (const store of stores) {
      assert.equal(store.knownBan(banned)?.untilMs, untilMs);
      assert.deepEqual(await ask(store), [false, untilMs]);
    }
    await here.liftBan(banned, undefined, true);
    await eventually(async () => assert.deepEqual(await ask(there), [true, undefined]));
  });

  it("ends where an earlier version names its account, which may have lifted it", async (t) => {
    const { stores, untilMs, client } = await openPair(t);
    await client.hdel(KEY, "b");
    const untilKnown = () => stores.map((store) => store.knownBan(banned)?.untilMs);
    assert.deepEqual(untilKnown(), [untilMs, untilMs]);
    const number = await client.incr("tg:{0}:version");
    await client.publish("tg:events", `${number} another ${accountId(banned)}`);
    await eventually(() => assert.deepEqual(untilKnown(), [undefined, undefined]));
  });
});
