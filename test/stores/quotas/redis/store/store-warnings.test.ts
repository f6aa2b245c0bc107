import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { describe, it, vi } from "vitest";
import { meterPart } from "../../../../../src/core/quota/meters.ts";
import { windowLabel } from "../../../../../src/core/quota/rate-limit-info.ts";
import { counterName } from "../../../../../src/core/quota/windows.ts";
import {
  reportLostCharges,
  reportUncertain,
} from "../../../../../src/stores/quotas/charge-reports.ts";
import type { MissingPart } from "../../../../../src/stores/quotas/quota-store.ts";
import {
  lostCountReporter,
  watchClock,
} from "../../../../../src/stores/quotas/redis/store/store-warnings.ts";
import { eventually } from "../../../../support/poll.ts";
import { account, open, openFor, perDay, spend, startServer, type Told } from "../redis-kit.ts";

const LOST = { counter: "minute", window: "minute", used: 3, was: 387, countedMs: 1_000 } as const;

function openReporter() {
  const told: Told[] = [];
  const report = (level: string, message: string, details?: Record<string, unknown>) => {
    told.push({ level, message, details });
  };
  return { told, report };
}

/** The store of another gateway, which cannot tell of its changes. */
async function openMute(
  t: Parameters<typeof openFor>[0],
  url: string,
  client: Awaited<ReturnType<Awaited<ReturnType<typeof startServer>>["client"]>>,
) {
  const rights = ["~*", "&*", "+@all", "-incr", "-publish"];
  await client.call("ACL", "SETUSER", "mute", "on", ">secret", ...rights);
  const { store } = await openFor(t, url.replace("//", "//mute:secret@"));
  return store;
}

describe("a count that is lower than it was", () => {
  const year = { window: "year", limit: 10 ** 9 } as const;
  it.for([
    ["a window", year, "tg:{*}:production:reset", "Y"],
    [
      "a window of a meter",
      { ...year, part: meterPart("tokens") },
      "tg:c{*}:production:reset:m",
      "tokensY",
    ],
    [
      "the cap of a key",
      { ...year, part: { id: "@1", name: "key" } },
      "tg:c{*}:production:reset:0",
      "1Y",
    ],
  ] as const)(
    "is no lost charge where no message told of the reset of %s, and hides none that follows",
    async ([_what, limit, pattern, field], t) => {
      const redis = await startServer(t);
      const client = await redis.client();
      const { store, told } = await openFor(t, redis.url);
      const mute = await openMute(t, redis.url, client);
      const accountRef = account("reset");
      const take = (cost: number) => {
        const limits = [{ ...limit, hold: cost }, { window: "day", limit: 10 ** 9 } as const];
        return spend(store, accountRef, { ...perDay(1), limits, cost });
      };
      await take(50);
      const unheard: MissingPart[] = [];
      await mute.reset(accountRef, { counters: [counterName(limit)] }, (part) =>
        unheard.push(part),
      );
      assert.equal(unheard.length, 1);
      for (const key of await client.keys("tg:*:reset*")) {
        assert.ok((await client.pttl(key)) > 0, `${key} has a life`);
      }
      await take(1);
      const [hash = ""] = await client.keys(pattern);
      const [start] = String(await client.hget(hash, field)).split(" ");
      assert.match(String(start), /^\d+$/);
      await eventually(async () => {
        await take(2);
        await mute.reset(accountRef, { counters: ["day"] }, () => {});
        await client.hset(hash, field, `${start} 1 0`);
        await take(1);
        assert.ok(told.length > 0);
      });
      const { message, details } = told[0] ?? {};
      assert.deepEqual([message, details?.window], ["counter_regression", windowLabel(limit)]);
      assert.notEqual(details?.was, 50, "it was reset");
    },
  );

  it.for([
    ["the account", account("changed")],
    ["the configuration", undefined],
  ] as const)(
    "is a lost charge also where %s was changed since, unless it was reset",
    async ([_what, changed], t) => {
      const redis = await startServer(t);
      const client = await redis.client();
      const { store, told } = await openFor(t, redis.url);
      const mute = await openMute(t, redis.url, client);
      const accountRef = account("changed");
      const take = async (limit: number, cost = 1) => {
        await spend(store, accountRef, { ...perDay(limit), cost });
        store.invalidate(changed);
      };
      await take(1_000, 50);
      await mute.reset(accountRef, { counters: ["day"] }, () => {});
      await take(2_000);
      // Counts of one millisecond have no order, and the question about the reset delays the next one.
      await eventually(async () => {
        await take(1_000, 10);
        await client.flushall();
        await take(2_000);
        assert.ok(told.length > 0);
      });
      const { message, details: { used, was } = {} } = told[0] ?? {};
      assert.deepEqual([message, used], ["counter_regression", 1]);
      assert.ok(Number(was) < 50, "it was reset");
    },
  );

  it("is told once, also where the store cannot say whether it was reset", async () => {
    const { told, report } = openReporter();
    const tell = lostCountReporter("redis://host", report, () => Promise.reject(new Error("gone")));
    for (const id of ["lost", "lost too"]) tell(account(id), LOST);
    await eventually(() => assert.equal(told.length, 1));
    tell(account("lost"), LOST);
    await turn();
    const { window, used, was } = LOST;
    const why = "the store has lost charges of a window that is not over";
    const details = { store: "redis://host", ...account("lost"), window, used, was, why };
    assert.deepEqual(told, [{ level: "error", message: "counter_regression", details }]);
  });
});

describe("uncertain charges", () => {
  it("name once what has units, of plans and of meters, and are not told where nothing has", () => {
    const told: Told[] = [];
    const report = (level: string, message: string, details?: Record<string, unknown>) => {
      told.push({ level, message, details });
    };
    const tokens = (units: number) => ({ name: "tokens", units });
    const free = { accountRef: account("free"), units: 0, meters: [tokens(0)] };
    assert.equal(reportUncertain(report, "redis://host", [free]), 0);
    assert.deepEqual(told, []);
    const some = [
      free,
      { accountRef: account("ada"), units: 3, meters: [tokens(0)] },
      { accountRef: account("bob"), units: 0, meters: [tokens(2_000)] },
      { accountRef: account("ada"), units: 1, meters: [tokens(10)] },
      { accountRef: account("bob"), units: 0, meters: [tokens(5)] },
    ];
    assert.equal(reportUncertain(report, "redis://host", some), 4);
    const accounts = "production:ada 4, production:bob#tokens 2005, production:ada#tokens 10";
    const details = { store: "redis://host", units: 4, accounts };
    assert.deepEqual(told, [{ level: "warn", message: "charges_uncertain", details }]);
  });
});

describe("charges that are lost", () => {
  it("are told by account, of a thousand accounts in a line, and not of accounts that lost none", () => {
    const { told, report } = openReporter();
    reportLostCharges(report, [{ accountRef: account("none"), units: 0 }]);
    assert.equal(told.length, 0);
    const accountRefs = Array.from({ length: 1_001 }, (_, i) => account(`a${i}`));
    reportLostCharges(report, [
      { accountRef: account("none"), units: 0 },
      ...accountRefs.map((accountRef) => ({ accountRef, units: 2 })),
    ]);
    const lines = told.map(({ level, message, details }) => {
      const accounts = String(details?.accounts).split(", ");
      return [level, message, details?.units, accounts.length, accounts.at(-1)];
    });
    assert.deepEqual(lines, [
      ["error", "charges_lost", 2_000, 1_000, "production:a999 2"],
      ["error", "charges_lost", 2, 1, "production:a1000 2"],
    ]);
  });

  it("are told of an account that lost units of a meter alone", () => {
    const { told, report } = openReporter();
    const metered = (units: number) => {
      return { accountRef: account("a"), units: 0, meters: [{ name: "tokens", units }] };
    };
    reportLostCharges(report, [metered(0)]);
    reportLostCharges(report, [metered(7)]);
    assert.deepEqual(
      told.map(({ details }) => details),
      [{ units: 0, accounts: "production:a#tokens 7" }],
    );
  });
});

describe("a store that is closed", () => {
  it("asks and tells nothing any more: no timer of it is left", async (t) => {
    const { address } = await startServer(t);
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    t.onTestFinished(() => void vi.useRealTimers());
    const { store } = await open(address, { logsOwnChanges: true });
    assert.ok(vi.getTimerCount() > 0);
    await store.close();
    await eventually(
      () => {
        // A connection that has ended is looked at once more.
        vi.advanceTimersByTime(100);
        assert.equal(vi.getTimerCount(), 0);
      },
      { withinMs: 10_000 },
    );
  });
});

describe("a clock that differs from that of the store", () => {
  const SHOWN = "redis://host";
  it("is told at the third look that finds so, once, and again after the two agreed", async (t) => {
    vi.useFakeTimers();
    t.onTestFinished(() => void vi.useRealTimers());
    const { told, report } = openReporter();
    const clock = { aheadOfMachineMs: 0, ageMs: 0 };
    let asked = 0;
    const learnClock = async () => {
      asked += 1;
    };
    const link = {
      ...{ clustered: false, tried: Promise.resolve(), health: () => ({ ok: true }) },
      partOf: () => undefined,
    };
    const watch = watchClock({ clockOf: () => clock, learnClock, link } as never, SHOWN, report);
    const look = async (aheadOfMachineMs: number, times: number) => {
      clock.aheadOfMachineMs = aheadOfMachineMs;
      await vi.advanceTimersByTimeAsync(1_000 * times);
      return told.splice(0).map(({ message, details }) => [message, details?.aheadMs]);
    };
    assert.deepEqual(await look(5_000, 5), []);
    assert.deepEqual(await look(5_001, 2), []);
    assert.deepEqual(await look(0, 1), []);
    assert.deepEqual(await look(-5_001, 2), []);
    assert.deepEqual(await look(-5_001, 1), [["clock_differs", 5_001]]);
    assert.deepEqual(await look(5_001, 5), []);
    assert.deepEqual(await look(5_000, 3), [["clock_agrees", -5_000]]);
    assert.deepEqual(await look(5_001, 3), [["clock_differs", -5_001]]);
    assert.equal(asked, 0, "heartbeats ask");
    clock.ageMs = 10_000;
    await look(5_001, 1);
    assert.equal(asked, 1);
    watch.stop();
    clock.aheadOfMachineMs = 0;
    assert.deepEqual(await look(0, 3), []);
  });

  it("is told as over for a node of a Cluster that owns nothing any more, and anew if it does again", async (t) => {
    vi.useFakeTimers();
    t.onTestFinished(() => void vi.useRealTimers());
    const { told, report } = openReporter();
    let node = "old:1";
    const clockOf = () => ({ aheadOfMachineMs: node === "old:1" ? -9_000 : 0, ageMs: 0 });
    const link = { clustered: true, tried: Promise.resolve(), health: () => ({ ok: true }) };
    const watched = { clockOf, link: { ...link, partOf: () => ({ node }) } };
    const watch = watchClock(watched as never, SHOWN, report);
    t.onTestFinished(() => watch.stop());
    const lookAt = async (owner: string) => {
      node = owner;
      await vi.advanceTimersByTimeAsync(4_000);
      return told.splice(0).map(({ message, details }) => [message, details?.node, details?.why]);
    };
    const [[differs, old]] = (await lookAt("old:1")) as [[string, string]];
    assert.deepEqual([differs, old], ["clock_differs", "old:1"]);
    const over = ["clock_agrees", "old:1", "this node is no master with accounts any more"];
    assert.deepEqual(await lookAt("new:1"), [over]);
    assert.equal((await lookAt("old:1"))[0]?.[0], "clock_differs");
  });
});
