import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DAY_MS, formatDay } from "../../../src/core/quota/days.ts";
import { bucketOf } from "../../../src/stores/quotas/account-ref.ts";
import type { LoggedEvent } from "../../../src/telemetry/log/logged-line.ts";
import {
  ACME,
  AT,
  type Case,
  DAY,
  drift,
  explained,
  judged,
  MATCHED,
  NOON,
  OPEN,
  WINDOW,
} from "./window-balances.ts";

describe("the audit of a window that runs", () => {
  it("compares what its lines charged with what the store counts, to the unit", () => {
    const lines = [["daily", 3] as const, ["daily", 4] as const];
    assert.deepEqual(judged({ lines, windows: [{ used: 7 }] }), MATCHED);
    assert.deepEqual(judged({ lines, windows: [{ used: 8 }] }), drift(1));
    assert.deepEqual(judged({ lines, windows: [{ used: 6 }] }), drift(-1));
  });

  it("is not compared if it has fewer units and a reset in it may be a change that no log has", () => {
    const lines = [["daily", 7] as const];
    const of = (used: number, time: number) => {
      const events = [{ msg: "changes_dropped", changes: 3, time }];
      return judged({ lines, windows: [{ used }], events });
    };
    const why = "the logs lack changes of commands, and a reset may be one of them";
    assert.deepEqual(of(3, NOON), [["day", "not compared", 0, why]]);
    assert.deepEqual(of(7, NOON), MATCHED);
    assert.deepEqual(of(8, NOON), drift(1), "no reset adds units");
    assert.deepEqual(of(3, WINDOW.from - DAY_MS), drift(-4), "it was dropped before the window");
  });

  it("matches where all that was charged was so as the store was asked, which had none of it", () => {
    const lines = [["daily", 3, AT] as const];
    assert.deepEqual(judged({ lines, windows: [{ used: 0 }] }), MATCHED);
  });

  it("is compared whole though the logs begin inside it, of an account that is no older than they", () => {
    const lines = [["daily", 7] as const];
    const of = (createdMs: number) => {
      return judged({ lines, windows: [{ used: 8 }], createdMs, firstMs: NOON });
    };
    assert.deepEqual(of(NOON), drift(1));
    const [[, verdict, units, why] = []] = of(0);
    assert.deepEqual([verdict, units], ["not compared", 0]);
    assert.match(String(why), /^the logs begin inside it/);
  });

  it("takes requests under way for what they were before the logs were read, some of which have a line by now", () => {
    const lines = [["daily", 7] as const];
    const of = (used: number, before: number, after: number) => {
      const [found] = judged({ lines, windows: [{ used }], open: [[before, after]] });
      return found?.slice(1, 3).join(" ");
    };
    assert.deepEqual(
      [7, 8, 10, 11].map((used) => of(used, 3, 1)),
      [...["drift -1", "explained 0", "explained 0", "drift 1"]],
    );
    assert.deepEqual(
      [7, 8, 9].map((used) => of(used, 1, 3)),
      [...["drift -1", "explained 0", "drift 1"]],
    );
  });

  it("of an operation or a key has all, some or none of what is under way in its account", () => {
    const of = (used: number, keys?: string[]) => {
      const windows = [{ window: "few.day", used, ...(keys && { keys }) }];
      return judged({ windows, lines: [["daily", 2]], open: [[3, 3]] })[0]?.[1];
    };
    assert.deepEqual(
      [1, 3, 4].map((used) => of(used)),
      ["explained", "explained", "drift"],
    );
    const ofKey = [2, 3, 5, 6].map((used) => of(used, [""]));
    assert.deepEqual(ofKey, ["matched", "explained", "explained", "drift"]);
  });

  it("leaves out one that nothing was charged to, and tells one that was reset to that", () => {
    assert.deepEqual(judged({ windows: [{ used: 0 }] }), []);
    const windows = [{ window: "day", units: 5 }];
    const reset = { msg: "account_reset", env: "production", account: "acme", windows };
    const found = judged({ windows: [{ used: 0 }], events: [reset] });
    assert.deepEqual(found, drift(5));
    const lines = [["daily", 5] as const];
    const told = judged({ lines, windows: [{ used: 0 }], events: [reset] });
    assert.deepEqual(told, explained("5 units were reset"));
  });

  it("is that of the day or the month that was asked for, and each where none was", () => {
    const windows = ["minute", "day", "month"].map((window) => ({ window, used: 1 }));
    const names = (asked: Case["asked"] & {}) =>
      judged({ windows, asked }).map(([window]) => window);
    assert.deepEqual(names({}), ["minute", "day", "month"]);
    assert.deepEqual(names({ day: formatDay(DAY) }), ["day"]);
    assert.deepEqual(
      [DAY - 1, DAY + 1].map((day) => names({ day: formatDay(day) })),
      [[], []],
    );
    assert.deepEqual(names({ month: "2026-10" }), ["month"]);
    const ofKey = [{ window: "key.day of k_1", used: 1 }];
    const found = judged({ windows: ofKey, asked: { day: formatDay(DAY) } });
    assert.equal(found.length, 1, "that of a key as well");
    assert.deepEqual([names({ month: "2026-09" }), names({ month: "2026-11" })], [[], []]);
  });

  it("is explained by a plan that lacks the window also if nothing was charged since the account left it", () => {
    const lines = [["daily", 9] as const];
    const asked = (used: number, plan = "hourly") =>
      judged({ plan, lines, windows: [{ window: "hour", used }] });
    const why = "9 units fewer: the plan was changed, and daily does not have the window";
    assert.deepEqual(asked(0), [["hour", "explained", 0, why]]);
    assert.deepEqual(asked(1), [["hour", "drift", -8, undefined]]);
    assert.deepEqual(asked(0, "daily"), [["hour", "drift", -9, undefined]]);
    assert.deepEqual(judged({ plan: "hourly", lines, windows: [{ used: 0 }] }), drift(-9));
  });

  it("is explained by a configuration that was taken since the last charge, or read by a restart, to the unit", () => {
    const lines = [["daily", 9] as const];
    const hash = "8a6bf653777373d8";
    const reloaded = { msg: "event", kind: "config_reloaded", gateway: "a", hash };
    const serving = { msg: "serving", config: hash };
    const of = (used: number, event: Readonly<Record<string, unknown>>) =>
      judged({ lines, windows: [{ used }], events: [{ time: NOON + 1, ...event }] });
    const why =
      "9 units fewer: the configuration was changed, and only what the last one charged is counted";
    for (const event of [reloaded, serving]) {
      assert.deepEqual(of(0, event), explained(why));
      assert.deepEqual(of(1, event), drift(-8));
      assert.deepEqual(of(0, { ...event, time: NOON - 1 }), drift(-9), "before the charge");
    }
    const events = [{ ...reloaded, time: NOON + 1 }];
    const same = judged({ lines, windows: [{ used: 0 }], events, config: "8a6bf653" });
    assert.deepEqual(same, drift(-9), "the same configuration");
  });

  it("is explained by no configuration of gateways that run side by side, as a failover may lose as many units", () => {
    const [a, b] = ["8a6bf653", "c01d77e2"];
    const taken = (config: string, time: number) => ({ msg: "serving", config, time });
    const lines = [a, b, a, b].map((of, i) => ["daily", 1, NOON + i, of] as const);
    const of = (events: Case["events"] & {}) => judged({ lines, windows: [{ used: 2 }], events });
    assert.deepEqual(of([]), drift(-2));
    const starts = [taken(a, NOON - 9), taken(b, NOON - 8)];
    assert.deepEqual(of(starts), drift(-2));
    const inTurn = lines.toSorted(([, , , one], [, , , other]) => one.localeCompare(other));
    const apart = inTurn.map(([plan, units, , of], i) => [plan, units, NOON + i, of] as const);
    for (const events of [[], starts]) {
      const found = judged({ lines: apart, windows: [{ used: 2 }], events });
      assert.deepEqual(found, drift(-2), "lines of one gateway that come after those of the other");
    }
    const why =
      "2 units fewer: the configuration was changed, and only what the last one charged is counted";
    const reloaded = { msg: "event", kind: "config_reloaded", gateway: "g", time: NOON + 1 };
    const rollouts = [taken(b, NOON + 1), { ...reloaded, hash: `${b}777373d8` }];
    for (const rollout of rollouts) {
      assert.deepEqual(of([taken(a, NOON - 9), rollout]), explained(why));
    }
    const early = lines.map(([plan, units, , config], i) => {
      return [plan, units, NOON - (3 - i) * 30_000, config] as const;
    });
    const restarted = [taken(b, NOON - DAY_MS), taken(b, NOON - 15_000)];
    const found = judged({ lines: early, windows: [{ used: 2 }], events: restarted });
    assert.deepEqual(found, drift(-2), "a gateway that starts again with the same one");
  });

  it("is explained by a worker that was lost, where more was counted than its lines say", () => {
    const lost = { msg: "worker_lost", time: NOON + 1, why: "it ended with SIGKILL" };
    const of = (used: number, events: readonly LoggedEvent[]) =>
      judged({ lines: [["daily", 9] as const], windows: [{ used }], events });
    const at = new Date(NOON + 1).toISOString();
    const why = `4 units more: a worker ended without a last line at ${at}, and ${OPEN}`;
    assert.deepEqual(of(13, [lost]), explained(why));
    assert.deepEqual(of(13, []), drift(4));
    assert.deepEqual(of(5, [lost]), drift(-4), "it explains none that are missing");
    const [[, , , killed] = []] = of(13, [lost, { msg: "serving", time: NOON }]);
    const both = `a gateway ended without a last line at ${new Date(NOON).toISOString()}, and a worker at ${at}`;
    assert.equal(killed, `4 units more: ${both}, and what was open in them is not known`);
  });

  it("is explained by a changed account only where its plan lacks the window, as it may have been added", () => {
    const change = { msg: "event", kind: "account_changed", env: "production", account: "acme" };
    const lines = (plan: string) => [[plan, 9] as const];
    const asked = (plan: string, events: readonly (typeof change)[], used = 4) =>
      judged({ plan, lines: lines(plan), windows: [{ used }], events });
    const why = "units fewer: the account was changed, which may have added the window";
    for (const plan of ["hourly", "agreed"]) {
      assert.deepEqual(asked(plan, [change]), explained(`5 ${why}`), plan);
      assert.deepEqual(asked(plan, [change], 0), explained(`9 ${why}`), plan);
      assert.deepEqual(asked(plan, []), drift(-5), plan);
    }
    for (const plan of ["daily", "unheard"]) assert.deepEqual(asked(plan, [change]), drift(-5));
    const more = judged({
      plan: "hourly",
      lines: lines("hourly"),
      windows: [{ used: 10 }],
      events: [change],
    });
    assert.deepEqual(more, drift(1), "it explains no more than was charged");
  });

  it("is explained by a limit of the account's own that came before a plan which has the window", () => {
    const change = { msg: "event", kind: "account_changed", env: "production", account: "acme" };
    const added = { ...change, plan: "hourly", newWindows: ["day"] };
    const moved = { ...change, plan: "daily", newWindows: [] };
    const lines = [["hourly", 4] as const, ["daily", 5] as const];
    const asked = (used: number, ...events: readonly (typeof added | typeof moved)[]) => {
      return judged({ lines, windows: [{ used }], events });
    };
    const why = "units fewer: the account was changed, which may have added the window";
    for (const used of [6, 7]) {
      assert.deepEqual(asked(used, added, moved), explained(`${9 - used} ${why}`));
    }
    assert.deepEqual(asked(9, added, moved), MATCHED);
    assert.deepEqual(asked(4, added, moved), drift(-5), "less than the plan that has it charged");
    assert.deepEqual(asked(10, added, moved), drift(1));
    assert.deepEqual(asked(6, moved), drift(-3), "none was added");
    const byPlan = { ...moved, newWindows: ["day"] };
    assert.deepEqual(asked(6, byPlan), drift(-3), "it was added with the plan");
  });

  it("is explained by no change of an account that gave it other windows or none", () => {
    const change = { msg: "event", kind: "account_changed", env: "production", account: "acme" };
    const asked = (newWindows: unknown) => {
      const events = [{ ...change, newWindows }];
      return judged({ plan: "agreed", lines: [["agreed", 9]], windows: [{ used: 4 }], events });
    };
    for (const newWindows of [[], ["hour", "tokens.day"]]) {
      assert.deepEqual(asked(newWindows), drift(-5));
    }
    const why = "5 units fewer: the account was changed, which may have added the window";
    assert.deepEqual(asked(["hour", "day"]), explained(why));
  });

  it("is explained by a changed plan by what the plans that have the window charged", () => {
    const lines = [["hourly", 5] as const, ["daily", 4] as const];
    const why = "5 units fewer: the plan was changed, and hourly does not have the window";
    assert.deepEqual(judged({ lines, windows: [{ used: 4 }] }), explained(why));
    assert.deepEqual(judged({ lines, windows: [{ used: 3 }] }), drift(-6));
    assert.deepEqual(judged({ lines, windows: [{ used: 5 }] }), drift(-4));
    const operation = judged({ lines: [], windows: [{ window: "few.day", used: 4 }] });
    assert.deepEqual(operation, [["few.day", "drift", 4, undefined]]);
  });

  it("is explained by a changed plan that only observes it, as that counts it too", () => {
    for (const plan of ["watched", "watched by hand"]) {
      const lines = [["daily", 5] as const, [plan, 2] as const];
      const of = (used: number) => judged({ plan, lines, windows: [{ window: "hour", used }] });
      const why = "5 units fewer: the plan was changed, and daily does not have the window";
      assert.deepEqual(of(2), [["hour", "explained", 0, why]], plan);
      assert.deepEqual(of(1), [["hour", "drift", -6, undefined]], plan);
    }
  });

  it("of keys has drift where it has fewer, unless one of them got that cap in the window", () => {
    const lines = [["daily", 9] as const];
    const window = "key.hour of k_1, ";
    const got = { msg: "caps_added", key: "k_1", newWindows: ["key.hour"] };
    const of = (used: number, ...events: Readonly<Record<string, unknown>>[]) => {
      const windows = [{ window, used, keys: ["k_1", ""] }];
      return judged({ lines, windows, events })[0]?.slice(1);
    };
    const why = "units fewer: the cap of the key was set in the window";
    assert.deepEqual(of(7, got), ["explained", 0, `2 ${why}`]);
    assert.deepEqual(of(0, got), ["explained", 0, `9 ${why}`]);
    const changed = { msg: "event", kind: "account_changed", env: "production", account: "acme" };
    const others = [
      { ...got, key: "k_2" },
      { ...got, newWindows: ["key.day"] },
      { ...got, time: WINDOW.from - DAY_MS },
      changed,
    ];
    for (const event of others) assert.deepEqual(of(7, event), ["drift", -2, undefined]);
    assert.deepEqual(of(7), ["drift", -2, undefined]);
    assert.deepEqual(of(10, got), ["drift", 1, undefined], "it explains none that are more");
  });

  it("is explained where a gateway is away from the store, which has not charged all of it", () => {
    const lines = [["daily", 9] as const];
    const away = { msg: "event", kind: "store_away", gateway: "a" };
    const found = judged({ lines, windows: [{ used: 0 }], events: [away], open: [[1, 1]] });
    assert.deepEqual(found, explained("9 units fewer: a gateway is away from the store"));
    const back = { ...away, kind: "store_back" };
    assert.deepEqual(judged({ lines, windows: [{ used: 0 }], events: [away, back] }), drift(-9));
  });

  it("is explained by an outage of the account's own bucket of a Cluster, and of no other", () => {
    const own = bucketOf(ACME);
    const asked = (buckets: string) => {
      const away = { msg: "event", kind: "store_away", gateway: "a", buckets };
      return judged({ lines: [["daily", 9]], windows: [{ used: 0 }], events: [away] });
    };
    const others = [...Array(16).keys()].filter((bucket) => bucket !== own).join();
    assert.deepEqual(asked(others), drift(-9));
    assert.deepEqual(
      asked(`0,${own}`),
      explained("9 units fewer: a gateway is away from the store"),
    );
  });

  it("is explained by a gateway that stopped in an outage only up to the units that it told as lost", () => {
    const events = [
      { msg: "serving" },
      { msg: "event", kind: "store_away", gateway: "a" },
      { msg: "charges_lost", units: 2, accounts: "production:acme 2" },
      { msg: "stopped" },
    ];
    const asked = (used: number) => judged({ lines: [["daily", 9]], windows: [{ used }], events });
    assert.deepEqual(asked(7), explained("2 units fewer: gateways told lost charges"));
    assert.deepEqual(asked(6), drift(-3));
  });

  it("is explained by a gateway that went away days ago as long as it runs", () => {
    const time = NOON - 2 * DAY_MS;
    const events = [
      { msg: "serving", time },
      { msg: "event", kind: "store_away", gateway: "a", time },
    ];
    const asked = (alive: number) =>
      judged({ lines: [["daily", 9]], windows: [{ used: 0 }], events, alive });
    assert.deepEqual(asked(1), explained("9 units fewer: a gateway is away from the store"));
    assert.deepEqual(asked(0), drift(-9), "it was killed, and owes nothing of this day");
  });

  it("is explained by lines of uncertain and lost charges, and by a killed gateway, which it names", () => {
    const lines = [["daily", 9] as const];
    const uncertain = { msg: "charges_uncertain", accounts: "production:acme 2" };
    const asked = (used: number, event: Readonly<Record<string, unknown>>, alive = 0) =>
      judged({ lines, windows: [{ used }], events: [event], alive });
    assert.deepEqual(asked(11, uncertain), explained("2 units were told as uncertain"));
    assert.deepEqual(asked(12, uncertain), drift(3));
    const lost = { msg: "charges_lost", units: 2 };
    const fewer = "2 units fewer: gateways told lost charges";
    assert.deepEqual(asked(7, lost), explained(fewer));
    assert.deepEqual(asked(6, lost), drift(-3));
    const named = { ...lost, accounts: "production:acme 1, production:other 1" };
    assert.deepEqual(asked(7, named), drift(-2), "the other unit is of another account");
    const serving = { msg: "serving" };
    const at = new Date(NOON).toISOString();
    const killed = `1 unit more: a gateway ended without a last line at ${at}, and ${OPEN}`;
    assert.deepEqual(asked(10, serving), explained(killed));
    assert.deepEqual(asked(10, serving, 1), drift(1));
  });

  it("may have what was under way in it, of the account alone, from the least to the most", () => {
    const lines = [["daily", 9] as const];
    const asked = (used: number, open: Case["open"] & {}) =>
      judged({ lines, windows: [{ used }], open });
    assert.deepEqual(asked(12, [[3, 3]]), explained("3 units are under way"));
    assert.deepEqual(asked(13, [[3, 3]]), drift(1));
    assert.deepEqual(asked(11, [[3, 3]]), drift(-1), "they were under way all the time");
    assert.deepEqual(asked(9, [[3, 0]]), MATCHED, "they have their lines by now");
    const others = [
      { account: "other" },
      { environment: "staging" },
      { decidedAt: DAY * DAY_MS - 1 },
      { decidedAt: AT + 1 },
    ];
    for (const other of others) assert.deepEqual(asked(10, [[1, 1, other]]), drift(1));
    for (const decidedAt of [DAY * DAY_MS, AT]) {
      assert.equal(asked(10, [[1, 1, { decidedAt }]])[0]?.[1], "explained");
    }
  });
});
