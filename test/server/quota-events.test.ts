import assert from "node:assert/strict";
import { it } from "vitest";
import type { Config } from "../../src/config/config.ts";
import type { KeyRecord } from "../../src/core/keys/records.ts";
import type { Ban } from "../../src/core/quota/bans.ts";
import type { WindowUsage } from "../../src/core/quota/decide.ts";
import { OverageEvents } from "../../src/server/events/overage-events.ts";
import {
  adminEventLogger,
  lateQuotaLogger,
  logBanEvent,
  logKeyElsewhere,
  logLateBan,
  logQuotaEvents,
} from "../../src/server/events/quota-events.ts";
import { createLog, type Log } from "../../src/telemetry/log/log.ts";

/** A log, and its events as they were written. */
function openLog() {
  const events: Readonly<Record<string, unknown>>[] = [];
  const log = createLog({ write: (line) => events.push(JSON.parse(line)) }, "info");
  return { log, events };
}

const NONE = { count: () => {} };
const DAYS = { quotaEventWindows: ["day"], planBounds: new Map() } as const;

function overagesOf(log: Log) {
  return new OverageEvents({ log, now: () => 0, markFirst: async () => true });
}

const NOTHING = { nowMs: 0, granted: 1, strikes: 0, strikeDueMs: 0, repaired: false } as const;

type Told = {
  /** Null for an address, which has no key. */
  readonly key?: { readonly id: string } | null;
  readonly admitted?: boolean;
  readonly by?: "store" | "share";
};

/** The percentages that are told of a request of one unit, after which a day of 10 counts so much. */
function toldOf(
  used: number,
  more: Partial<WindowUsage> = {},
  { key = { id: "k" }, ...how }: Told = {},
): unknown[] {
  const told: unknown[] = [];
  const log = createLog({ write: (line) => told.push(JSON.parse(line).percent) }, "info");
  const standing = { window: "day", limit: 10, used, resetMs: 86_400_000, ...more } as const;
  const decision = { ...NOTHING, ban: undefined, windows: [standing] };
  const owner = { environment: "production", account: "a", plan: "free", key: key ?? undefined };
  const answer = { decision, requestsAfter: 0, admitted: true, by: "store", ...how } as const;
  logQuotaEvents({ log, overages: NONE }, DAYS, owner, answer, 1);
  return told;
}

it("a limit is told once, although units were taken back and it is reached again", () => {
  assert.deepEqual(toldOf(8), [80]);
  assert.deepEqual(toldOf(8, { loweredFrom: 9 }), []);
  assert.deepEqual(toldOf(8, { loweredFrom: 8 }), []);
  assert.deepEqual(toldOf(8, { loweredFrom: 7 }), [80]);
  assert.deepEqual(toldOf(10, { loweredFrom: 9 }), [100]);
  assert.deepEqual(toldOf(10, { loweredFrom: 10 }), []);
  assert.deepEqual(toldOf(1, { limit: 1 }), [100], "nothing was taken back");
});

it("a limit is told by what the request took of it, which is a hold where the limit has one", () => {
  assert.deepEqual(toldOf(9, { hold: 2 }), [80]);
  assert.deepEqual(toldOf(9, { hold: 1 }), [], "it was 8 before");
  assert.deepEqual(toldOf(8, { hold: 0 }), []);
});

it("a limit is told of an account whose request the store admitted, and of no other", () => {
  assert.deepEqual(toldOf(8), [80]);
  for (const how of [{ key: null }, { admitted: false }, { by: "share" }] as const) {
    assert.deepEqual(toldOf(8, {}, how), [], JSON.stringify(how));
  }
});

it("a part of a limit that is no whole number of units is told once it is used up whole", () => {
  for (const [used, told] of [
    [5, []],
    [6, [80]],
    [7, [100]],
  ] as const) {
    assert.deepEqual(toldOf(used, { limit: 7 }), told, `${used} of 7`);
  }
});

it("an observed limit is told by no event, and units that merged requests took later not either", () => {
  assert.deepEqual(toldOf(8, { observed: true }), []);
  assert.deepEqual(toldOf(9, { observed: true }), []);
  const { log, events } = openLog();
  const standing = { window: "day", limit: 10, used: 10, resetMs: 86_400_000 } as const;
  const decision = { ...NOTHING, ban: undefined, windows: [standing] };
  const owner = { environment: "production", account: "a", plan: "free", key: { id: "k" } };
  // Two of the same call follow: after this one 8 units were used.
  const answer = { decision, requestsAfter: 2, admitted: true, by: "store" } as const;
  logQuotaEvents({ log, overages: NONE }, DAYS, owner, answer, 1);
  assert.deepEqual(
    events.map(({ percent, used }) => [percent, used]),
    [[80, 8]],
  );
});

it("a limit of one key is told with the key, one of the plan without", () => {
  const { log, events } = openLog();
  const owner = { environment: "production", account: "a", plan: "free", key: { id: "k_1" } };
  for (const part of [{ id: "@1", name: "key", key: "k_1" }, undefined]) {
    const usage = { window: "day", limit: 10, used: 8, resetMs: 5_001, part } as WindowUsage;
    const decision = { ...NOTHING, ban: undefined, windows: [usage] };
    const answer = { decision, requestsAfter: 0, admitted: true, by: "store" } as const;
    logQuotaEvents({ log, overages: NONE }, DAYS, owner, answer, 1);
  }
  assert.deepEqual(
    events.map(({ level: _, time: __, msg: ___, ...told }) => told),
    [{ key: "k_1", window: "key.day" }, { window: "day" }].map((told) => ({
      ...{ kind: "quota", account: "a", env: "production", plan: "free", ...told },
      ...{ percent: 80, used: 8, limit: 10, reset: 6 },
    })),
  );
});

it("overage is told by the unit after those that are included, of windows of the plan alone", () => {
  const overageOf = (used: number, more: Partial<WindowUsage> = {}) => {
    const { log, events } = openLog();
    const standing = { window: "month", limit: 100, used, resetMs: 5_001, ...more } as const;
    const decision = { ...NOTHING, ban: undefined, windows: [standing] };
    const owner = { environment: "production", account: "a", plan: "free", key: { id: "k" } };
    const answer = { decision, requestsAfter: 0, admitted: true, by: "store" } as const;
    const included = [{ window: "month", limit: 5 }];
    const planBounds = new Map([["free", { included }]]);
    const terms = { quotaEventWindows: ["month"], planBounds } as never;
    logQuotaEvents({ log, overages: overagesOf(log) }, terms, owner, answer, 1);
    return events.map(({ level: _, time: __, msg: ___, ...told }) => told);
  };
  assert.deepEqual([overageOf(5), overageOf(7)], [[], []]);
  const named = { kind: "overage", account: "a", env: "production", plan: "free" };
  const counts = { window: "month", included: 5, used: 6, limit: 100, reset: 6 };
  assert.deepEqual(overageOf(6), [{ ...named, ...counts }]);
  assert.deepEqual(overageOf(6, { observed: true }), []);
  assert.deepEqual(overageOf(6, { part: { id: "1", name: "createPet" } }), []);
  assert.deepEqual(overageOf(6, { window: "day" }), [], "nothing of a day is included");
});

it("units that were charged late are told of an account, and of no address", () => {
  const named = ["acme", "production", "free"];
  for (const [account, told] of [
    [
      "acme",
      [
        ["overage", undefined, ...named],
        ["quota", 80, ...named],
      ],
    ],
    ["addr:192.0.2.1", []],
  ] as const) {
    const { log, events } = openLog();
    const planBounds = new Map([["free", { included: [{ window: "day", limit: 7 }] }]]);
    const late = lateQuotaLogger({ log, overages: overagesOf(log) }, () => {
      return { quotaEventWindows: ["day"], planBounds } as never;
    });
    const usage = { window: "day", limit: 10, used: 8, resetMs: 1, from: 7, hold: 99 } as const;
    late({ accountRef: { environment: "production", account }, plan: "free", usage });
    late({
      accountRef: { environment: "production", account },
      plan: "free",
      usage: { ...usage, from: 8 },
    });
    assert.deepEqual(
      events.map(({ kind, percent, env, plan, ...event }) => {
        return [kind, percent, event.account, env, plan];
      }),
      told,
    );
  }
});

it("a ban is told to the end of its last second, with its strikes, and as observed where it is not in force", () => {
  const ban = { window: "minute", untilMs: 60_001, offences: 2, startMs: 1 } as unknown as Ban;
  const owner = { environment: "production", account: "a", plan: "free" };
  const windows = [{ window: "minute", limit: 1, used: 1, resetMs: 1 }] as const;
  for (const inForce of [ban, undefined]) {
    const { log, events } = openLog();
    const verdict = { ...NOTHING, nowMs: 5_000, ban: inForce, windows };
    const earned = Object.assign({ strikesMs: [1_500, 5_000] }, ban);
    logBanEvent(log, owner, { earned, decision: verdict });
    const [told, ...others] = events;
    assert.deepEqual(
      [others, told?.until, told?.strikes, told?.decidedAt],
      [[], 61, [1.5, 5], 5_000],
    );
    assert.deepEqual([told?.window, told?.offences], ["minute", 2]);
    assert.deepEqual([told?.account, told?.env, told?.plan], ["a", "production", "free"]);
    assert.equal(told?.observed, inForce === undefined ? true : undefined);
  }
  const { log, events } = openLog();
  const decision = { ...NOTHING, ban, windows };
  logBanEvent(log, owner, { decision, earned: undefined } as never);
  assert.equal(events.length, 0, "a ban that began earlier");
  const ofOther = { ...ban, window: "hour", strikesMs: [] } as const;
  logBanEvent(log, owner, { earned: ofOther, decision });
  assert.equal(
    events[0]?.window,
    "hour",
    "the window of a strike may be that of another operation",
  );
});

it("a ban that an operation's window earned is told by the name that people know it by", () => {
  const { log, events } = openLog();
  const part = { id: "1a", name: "createPet" };
  const windows = [{ window: "minute", limit: 1, used: 1, resetMs: 1, part }] as never;
  const ban = { window: "minute", operation: "1a", untilMs: 60_000, offences: 1, startMs: 1 };
  const earned = { ...ban, strikesMs: [1] } as never;
  const decision = { ...NOTHING, ban: ban as never, windows };
  logBanEvent(log, { environment: "production", account: "a", plan: "free" }, { earned, decision });
  const accountRef = { environment: "production", account: "a" };
  logLateBan(log, { accountRef, plan: "free", earned, decision });
  const [told, late] = events.map(({ time: _, ...event }) => event);
  assert.equal(told?.window, "createPet.minute");
  assert.deepEqual(late, told, "as one whose decision came in time");
});

it("a ban that a command imposes or lifts is told", () => {
  const { log, events } = openLog();
  const onAdminEvent = adminEventLogger(
    log,
    () => ({ environments: [] }),
    () => [],
  );
  const accountRef = { environment: "production", account: "acme" };
  const ban = {
    untilMs: 60_001,
    offences: 1,
    window: "day",
    plan: "free",
    reason: "spam",
  } as const;
  onAdminEvent({ accountRef, atMs: 5, imposed: ban });
  onAdminEvent({ accountRef, atMs: 6, imposed: undefined });
  const named = { msg: "event", account: "acme", env: "production" };
  const imposed = { imposed: true, reason: "spam", decidedAt: 5, until: 61 };
  assert.deepEqual(
    events.map(({ time: _, ...told }) => told),
    [
      {
        ...{ ...named, level: "warn", kind: "ban", plan: "free" },
        ...{ window: "day", offences: 1, ...imposed },
      },
      { ...named, level: "info", kind: "ban_lifted", decidedAt: 6 },
    ],
  );
});

it("a reset by a command is told with the windows as people name them", () => {
  const { log, events } = openLog();
  const limits = { windows: [{ window: "day", limit: 2, part: { id: "1a", name: "narrow" } }] };
  const operations = [{ method: "GET", template: "/v1/a", limits, lifecycle: {} }];
  const environment = { name: "production", routes: { operations }, services: [] };
  const config = { environments: [environment] } as unknown as Pick<Config, "environments">;
  const windows = [
    { counter: "day", units: 3 },
    { counter: "1a.day", units: 2 },
    { counter: "@7.day", units: 1 },
  ];
  const accountRef = { environment: "production", account: "acme" };
  const keys = [
    ["k_1", "acme", 7],
    ["k_2", "other", 7],
    ["k_3", "acme", 70],
  ].map((one) => {
    const [id, account, number] = one;
    return { id, account, caps: { number, limits: [] } } as unknown as KeyRecord;
  });
  const onAdminEvent = adminEventLogger(
    log,
    () => config,
    () => keys,
  );
  onAdminEvent({ accountRef, atMs: 5, windows } as never);
  const [told] = events;
  assert.deepEqual([told?.msg, told?.resetAt], ["account_reset", 5]);
  assert.deepEqual([told?.account, told?.env], ["acme", "production"]);
  const named = told?.windows as readonly { window: string; units: number }[] | undefined;
  assert.deepEqual(
    named?.map(({ window, units }) => `${window} ${units}`),
    ["day 3", "narrow.day 2", "key.day 1"],
  );
  assert.deepEqual((named as readonly unknown[] | undefined)?.at(-1), {
    window: "key.day",
    units: 1,
    keys: ["k_1"],
  });
});

it("a key that works elsewhere is told by the first gateway, and by each without a store", async () => {
  const key = { id: "k_1", account: "acme", environment: "staging" } as KeyRecord;
  const markers: unknown[] = [];
  for (const [answer, told] of [
    [true, 1],
    [false, 0],
    [new Error("away"), 1],
  ] as const) {
    const { log, events } = openLog();
    const markFirst = async (marker: string, lifeMs: number) => {
      markers.push([marker, lifeMs / 3_600_000]);
      if (answer instanceof Error) throw answer;
      return answer;
    };
    const on = { usedIn: "production", day: 20_000 };
    await logKeyElsewhere({ log, quotas: { markFirst } }, key, on);
    assert.equal(events.length, told);
    const shown = events.map(({ kind, key: id, account, env, usedIn }) => {
      return [kind, id, account, env, usedIn];
    });
    const expected = ["key_elsewhere", "k_1", "acme", "staging", "production"];
    if (told > 0) assert.deepEqual(shown, [expected]);
  }
  assert.deepEqual(new Set(markers.map(String)), new Set(["elsewhere k_1 20000,26"]));
});
