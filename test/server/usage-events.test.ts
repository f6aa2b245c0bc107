import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DAY_MS, dayOf, formatDay } from "../../src/core/quota/days.ts";
import { meterPart } from "../../src/core/quota/meters.ts";
import type { AccountRef } from "../../src/stores/quotas/account-ref.ts";
import { accountId } from "../../src/stores/quotas/account-ref.ts";
import type { QuotaStore } from "../../src/stores/quotas/quota-store.ts";
import { open } from "../stores/quotas/redis/redis-kit.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { startUsageReceiver, type UsageReceiver } from "../support/usage-receiver.ts";
import { Billing, LIMITS, memory, memoryFor, START } from "./billing.ts";

const MINUTE_MS = 60_000;
const CLOSES_MS = 15 * MINUTE_MS;

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

const ENGINES = { memory: () => memory, redis: () => redisStores() } as const;

/** Stores that share one Redis and one prefix, as the gateways of one installation do. */
function redisStores(historyMs = 400 * DAY_MS) {
  const prefix = `usage${performance.now()}`;
  return async (now: () => number) => {
    return (await open(server.address, { now, prefix, historyMs })).store;
  };
}

/** Waits for the mark of this day. */
function isMarked(store: QuotaStore, accountRef: AccountRef, day: number): Promise<unknown> {
  return eventually(async () => (await store.usageMarks.read([accountRef]))[0]?.day === day);
}

/** The days that came, as `acme 2026-10-14 5`, in order of their ids. */
function told(receiver: UsageReceiver): string[] {
  return receiver
    .all()
    .map(({ data }) => `${data.account} ${data.day} ${data.units}`)
    .sort();
}

for (const engine of Object.keys(ENGINES) as (keyof typeof ENGINES)[]) {
  describe(`usage events, ${engine}`, () => {
    const openEngine = () => ENGINES[engine]();

    it("are sent once for each account and day, 15 minutes after the day and not before", async () => {
      await using receiver = await startUsageReceiver();
      await using billing = new Billing({ receiver, open: openEngine() });
      const store = await billing.openStore();
      await billing.charge(store, "acme", 5);
      await billing.charge(store, "acme", 2);
      await billing.charge(store, "beta", 0);
      const accountRef = { environment: "production", account: "acme" };
      await store.activity.addRefused([{ accountRef, day: dayOf(START), requests: 3 }]);
      const midnight = (dayOf(START) + 1) * DAY_MS;
      billing.nowMs = midnight + CLOSES_MS - 1;
      await billing.charge(store, "acme", 9);
      const sender = billing.send(store);
      // A message that is in the way of another is not sent: the sender has looked more than once.
      await isMarked(store, accountRef, dayOf(START) - 1);
      assert.equal(receiver.tries, 0);
      billing.nowMs = midnight + CLOSES_MS;
      await eventually(() => assert.equal(receiver.all().length, 2));
      assert.deepEqual(told(receiver), ["acme 2026-10-14 7", "beta 2026-10-14 0"]);
      assert.equal(receiver.messages[0]?.signedS, billing.nowMs / 1_000);
      const [first] = receiver.all();
      assert.deepEqual(first, {
        ...{ specversion: "1.0", type: "tollgate.usage", source: "/tollgate/tollgate" },
        ...{ id: "production:acme:2026-10-14", time: "2026-10-14T23:59:59Z", subject: "acme" },
        datacontenttype: "application/json",
        data: {
          ...{ environment: "production", account: "acme", plan: "pro", day: "2026-10-14" },
          ...{ admitted: 2, units: 7, refused: 3 },
        },
      });
      billing.nowMs = midnight + DAY_MS + CLOSES_MS;
      await eventually(() => assert.equal(receiver.all().length, 3));
      assert.equal(told(receiver)[1], "acme 2026-10-15 9");
      // A sender that ends between the answer and its mark leaves the day to be sent again.
      await isMarked(store, accountRef, dayOf(billing.nowMs) - 1);
      await sender.close();
      // Another gateway, or this one after a restart, finds nothing to send.
      billing.send(store);
      billing.nowMs += DAY_MS;
      await isMarked(store, accountRef, dayOf(billing.nowMs) - 1);
      assert.equal(receiver.all().length, 3);
      assert.deepEqual(receiver.units(), billing.charged);
      assert.equal(billing.lines("usage").length, 3);
    });

    it("are sent when their day closes by the clock of the store, while the gateway's is behind", async () => {
      await using receiver = await startUsageReceiver();
      const machineNow = () => START;
      await using billing = new Billing({ receiver, open: openEngine(), machineNow });
      const store = await billing.openStore();
      billing.send(store);
      for (let day = 0; day < 3; day++) {
        await billing.charge(store, "acme", day + 1);
        billing.nowMs += DAY_MS;
        await eventually(() => assert.equal(receiver.all().length, day + 1));
      }
      assert.deepEqual(receiver.units(), billing.charged);
      assert.equal(receiver.messages[2]?.signedS, START / 1_000, "the signature has its own time");
    });

    it("are marked with the days without usage that follow, so that those are not read again", async () => {
      await using receiver = await startUsageReceiver();
      await using billing = new Billing({ receiver, open: openEngine() });
      const store = await billing.openStore();
      await billing.charge(store, "acme", 5);
      const accountRef = { environment: "production", account: "acme" };
      billing.send(store);
      await isMarked(store, accountRef, dayOf(START) - 1);
      billing.nowMs = (dayOf(START) + 3) * DAY_MS + CLOSES_MS;
      await isMarked(store, accountRef, dayOf(START) + 2);
      assert.deepEqual(told(receiver), ["acme 2026-10-14 5"]);
    });

    it("come again until the receiver has acknowledged them, after 500s and an outage of days", async () => {
      await using receiver = await startUsageReceiver();
      receiver.verdict = 500;
      await using billing = new Billing({ receiver, open: openEngine() });
      const store = await billing.openStore();
      billing.send(store);
      for (let day = 0; day < 4; day++) {
        await billing.charge(store, "acme", day + 1);
        if (day !== 2) await billing.charge(store, "beta", 10);
        billing.nowMs += DAY_MS;
        const tries = receiver.tries;
        await eventually(() => receiver.tries > tries, { withinMs: 60_000 });
      }
      assert.deepEqual(receiver.all(), []);
      receiver.verdict = 200;
      await eventually(() => assert.equal(receiver.counted().size, 7), { withinMs: 60_000 });
      assert.deepEqual(receiver.units(), billing.charged);
      assert.equal(
        receiver.all().length,
        7,
        "what was refused was not stored, so nothing is double",
      );
      await eventually(() => assert.equal(billing.lines("usage_sent").length, 1));
      assert.match(String(billing.lines("usage_unsent")[0]?.why), /the receiver answered 500/);
    });

    it("are doubles with the same id where the receiver stores and dies, and count once", async () => {
      await using receiver = await startUsageReceiver();
      const dead = new Set<string>();
      receiver.verdict = (events) => {
        // Each message is stored and lost once.
        const key = events.map(({ id }) => id).join();
        if (dead.has(key)) return 200;
        dead.add(key);
        return "dies";
      };
      await using billing = new Billing({ receiver, open: openEngine() });
      const store = await billing.openStore();
      for (let day = 0; day < 3; day++) {
        for (const account of billing.accounts) await billing.charge(store, account, 7 + day);
        billing.nowMs += DAY_MS;
      }
      billing.send(store);
      await eventually(() => assert.equal(billing.lines("usage").length, 6), { withinMs: 60_000 });
      assert.ok(receiver.all().length > 6, "there were doubles");
      assert.equal(receiver.counted().size, 6);
      assert.deepEqual(receiver.units(), billing.charged);
    });

    it("go out in messages of up to 100, and one that is never acknowledged delays no other account", async () => {
      await using receiver = await startUsageReceiver();
      const accounts = Array.from({ length: 250 }, (_, i) => `a_${i}`);
      const poison = "a_137";
      let isCured = false;
      const sizes: number[] = [];
      receiver.verdict = (events) => {
        sizes.push(events.length);
        return !isCured && events.some(({ subject }) => subject === poison) ? 422 : 200;
      };
      await using billing = new Billing({ receiver, accounts, open: openEngine() });
      const store = await billing.openStore();
      for (const [i, account] of accounts.entries()) await billing.charge(store, account, i);
      billing.nowMs += DAY_MS;
      billing.send(store);
      await eventually(() => assert.equal(receiver.all().length, 249), { withinMs: 60_000 });
      // The second one has the event that is never acknowledged, and the third a half of it.
      assert.deepEqual(sizes.slice(0, 3), [100, 100, 50]);
      const [alone] = billing.lines("usage_unsent").filter(({ account }) => account !== undefined);
      assert.deepEqual([alone?.account, alone?.day], [poison, "2026-10-14"]);
      const since = billing.said.slice(billing.said.indexOf(alone as Record<string, unknown>));
      assert.ok(!since.some(({ msg }) => msg === "usage_sent"), "the receiver lacks one still");
      isCured = true;
      await eventually(() => assert.equal(receiver.all().length, 250), { withinMs: 60_000 });
      assert.deepEqual(receiver.units(), billing.charged);
    });

    it.each([
      ["of the calendar", undefined, [0, 0, 3, 3, 2]],
      ["of an account with an anchor", 30, [0, 0, 0, 0, 9]],
    ])(
      "tell the units of a day above those in the price of the month, %s, by the days before it",
      async (_, anchor, overages) => {
        await using receiver = await startUsageReceiver();
        const anchored = anchor === undefined ? {} : { anchor };
        const options = { receiver, accounts: ["acme"], includedOfMonth: 10, ...anchored };
        await using billing = new Billing({ ...options, open: openEngine() });
        const store = await billing.openStore();
        billing.nowMs = Date.UTC(2026, 9, 28, 12);
        for (const cost of [8, 1, 4, 3, 12]) {
          await billing.charge(store, "acme", cost);
          billing.nowMs += DAY_MS;
          // One by one, so that a day is told by what is read again of the days before it.
          if (cost === 8) billing.send(store);
          await eventually(() => receiver.all().some(({ data }) => data.units === cost));
        }
        assert.deepEqual(
          receiver.all().map(({ data }) => [data.day, data.units, data.overage]),
          [
            ["2026-10-28", 8, overages[0]],
            ["2026-10-29", 1, overages[1]],
            ["2026-10-30", 4, overages[2]],
            ["2026-10-31", 3, overages[3]],
            ["2026-11-01", 12, overages[4]],
          ],
        );
        const lines = await eventually(() => {
          assert.equal(billing.lines("usage").length, overages.length);
          return billing.lines("usage");
        });
        assert.deepEqual(
          lines.map(({ overage }) => overage),
          overages,
        );
      },
    );

    it("tell no overage where days of the month are no longer kept, but the reason", async () => {
      await using receiver = await startUsageReceiver();
      const historyMs = 7 * DAY_MS;
      const options = { receiver, accounts: ["acme"], includedOfMonth: 10, anchor: 5, historyMs };
      const openShort = { memory: () => memoryFor(historyMs), redis: () => redisStores(historyMs) };
      await using billing = new Billing({ ...options, open: openShort[engine]() });
      const store = await billing.openStore();
      billing.nowMs = Date.UTC(2026, 9, 6, 12);
      await billing.charge(store, "acme", 8);
      billing.nowMs = Date.UTC(2026, 10, 4, 12);
      await billing.charge(store, "acme", 9);
      billing.nowMs = Date.UTC(2026, 10, 8, 12);
      await billing.charge(store, "acme", 11);
      billing.nowMs = Date.UTC(2026, 10, 9, 12);
      billing.send(store);
      await eventually(() => assert.equal(receiver.all().length, 2));
      const [cut, whole] = receiver.all().map(({ data }) => data);
      assert.deepEqual([cut?.day, cut?.units, cut?.overage], ["2026-11-04", 9, undefined]);
      assert.match(
        String(cut?.overageUnknown),
        engine === "redis" ? /before 2026-11-01 are no/ : /before 2026-11-02 are no/,
      );
      assert.deepEqual([whole?.day, whole?.overage], ["2026-11-08", 1]);
      await eventually(() => assert.equal(billing.lines("usage").length, 2));
      const unknown = billing.lines("usage").map(({ overageUnknown }) => overageUnknown);
      assert.deepEqual(unknown, [cut?.overageUnknown, undefined]);
    });

    it("tell the units of each meter that the account used", async () => {
      await using receiver = await startUsageReceiver();
      await using billing = new Billing({ receiver, open: openEngine() });
      const store = await billing.openStore();
      await billing.charge(store, "beta", 3);
      const part = meterPart("tokens");
      const limits = [...LIMITS, { window: "month", limit: 10 ** 6, part, hold: 20 }] as const;
      const accountRef = { environment: "production", account: "acme" };
      for (let i = 0; i < 2; i++) {
        await store.charge(accountRef, { limits, bans: undefined, requests: 1, plan: "pro" });
      }
      billing.nowMs += DAY_MS;
      billing.send(store);
      await eventually(() => assert.equal(receiver.all().length, 2));
      const told = receiver.all().map(({ data }) => [data.account, data.units, data.meters]);
      assert.deepEqual(told, [
        ["acme", 2, { tokens: 40 }],
        ["beta", 3, undefined],
      ]);
      await eventually(() => assert.equal(billing.lines("usage").length, 2));
      const lines = billing.lines("usage").map(({ account, meters, overage }) => {
        return [account, meters, overage];
      });
      assert.deepEqual(lines, [
        ["acme", { tokens: 40 }, undefined],
        ["beta", undefined, undefined],
      ]);
    });

    it("reach back as far as history is kept, and not further", async () => {
      await using receiver = await startUsageReceiver();
      const options = { receiver, accounts: ["acme"], historyMs: 40 * DAY_MS };
      await using billing = new Billing({ ...options, open: openEngine() });
      const store = await billing.openStore();
      const days: string[] = [];
      for (let day = 0; day < 60; day++) {
        await billing.charge(store, "acme", 1);
        days.push(formatDay(dayOf(billing.nowMs)));
        billing.nowMs += DAY_MS;
      }
      billing.send(store);
      await eventually(() => assert.equal(receiver.all().length, 40), { withinMs: 60_000 });
      assert.deepEqual(
        receiver.all().map(({ data }) => data.day),
        days.slice(-40),
      );
    });
  });
}

describe("usage events of several gateways on one Redis", () => {
  it("are sent by one of them at a time, so none is double", async () => {
    await using receiver = await startUsageReceiver();
    const accounts = Array.from({ length: 450 }, (_, i) => `a_${i}`);
    await using billing = new Billing({ receiver, accounts, open: redisStores() });
    const stores = await Promise.all([1, 2, 3, 4].map(() => billing.openStore()));
    for (const [i, account] of accounts.entries()) {
      await billing.charge(stores[i % 4] as QuotaStore, account, 3);
    }
    billing.nowMs += DAY_MS;
    for (const store of stores) billing.send(store);
    await eventually(() => assert.equal(receiver.counted().size, 450), { withinMs: 60_000 });
    await eventually(() => assert.equal(billing.lines("usage").length, 450));
    assert.equal(receiver.all().length, 450);
    assert.deepEqual(receiver.units(), billing.charged);
  });

  it("go on with another one when the one that sent is gone, and lose none", async () => {
    await using receiver = await startUsageReceiver();
    const accounts = Array.from({ length: 250 }, (_, i) => `a_${i}`);
    await using billing = new Billing({ receiver, accounts, open: redisStores() });
    const [one, two] = [await billing.openStore(), await billing.openStore()];
    for (const account of accounts) await billing.charge(one, account, 2);
    billing.nowMs += DAY_MS;
    const first = billing.send(one);
    let messages = 0;
    receiver.verdict = () => {
      messages += 1;
      if (messages === 2) void first.close();
      return 200;
    };
    await eventually(() => messages >= 2);
    await first.close();
    billing.send(two);
    await eventually(() => assert.equal(receiver.counted().size, 250), { withinMs: 60_000 });
    assert.deepEqual(receiver.units(), billing.charged);
  });

  it("are sent again, as doubles, where Redis was away when they were acknowledged", async () => {
    const own = await startRedis();
    try {
      await using receiver = await startUsageReceiver();
      const openOwn = async (now: () => number) => {
        return (await open(own.address, { now, historyMs: 400 * DAY_MS })).store;
      };
      await using billing = new Billing({ receiver, open: openOwn });
      const store = await billing.openStore();
      for (const account of billing.accounts) await billing.charge(store, account, 4);
      billing.nowMs += DAY_MS;
      receiver.verdict = () => {
        if (receiver.tries === 1) own.stop();
        return 200;
      };
      billing.send(store);
      await eventually(() => receiver.tries === 1);
      await eventually(
        () => billing.lines("usage").length === 0 && store.health().ok !== undefined,
      );
      own.cont();
      await eventually(() => assert.equal(billing.lines("usage").length, 2), { withinMs: 60_000 });
      assert.equal(receiver.counted().size, 2);
      assert.deepEqual(receiver.units(), billing.charged);
      const accountRefs = billing.accounts.map((account) => ({
        environment: "production",
        account,
      }));
      const marks = await store.usageMarks.read(accountRefs);
      assert.deepEqual(
        marks.map((mark) => mark?.day),
        accountRefs.map(() => dayOf(START)),
        accountRefs.map(accountId).join(),
      );
    } finally {
      await own.close();
    }
  });
});
