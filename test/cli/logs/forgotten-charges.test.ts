import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { dayBalances } from "../../../src/cli/logs/audit-days.ts";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { Ledger, newSum } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import { DAY_MS } from "../../../src/core/quota/days.ts";
import { ACME, AT, type Case, DAY, drift, explained, judged, NOON } from "./window-balances.ts";

const FORGOTTEN = { msg: "counter_regression", ...ACME, window: "minute", time: NOON + 500 };
const RELOADED = { msg: "event", kind: "config_reloaded", hash: "8a6bf653", time: NOON + 1 };
const CHANGED =
  "9 units fewer: the configuration was changed, and only what the last one charged is counted";

describe("charges that the store forgot, as counter_regression tells", () => {
  const of = (more: Partial<Case>) => {
    const { events = [], windows = [{ used: 0 }], ...rest } = more;
    const lines = [["daily", 9] as const];
    const found = (told: readonly object[]) =>
      judged({ lines, windows, ...rest, events: [...events, ...told] as Case["events"] & {} });
    const other = { ...FORGOTTEN, account: "other" };
    const before = { ...FORGOTTEN, time: NOON - DAY_MS };
    return [found([]), found([FORGOTTEN]), found([other, before])];
  };

  it("are explained by no configuration that was changed in the window, unless another account lost them", () => {
    const why = explained(CHANGED);
    assert.deepEqual(of({ events: [RELOADED] }), [why, drift(-9), why]);
  });

  it("are explained by no change of the plan, of the account or of a key", () => {
    const hour = [{ window: "hour", used: 0 }];
    const lost = [["hour", "drift", -9, undefined]];
    assert.deepEqual(of({ plan: "hourly", windows: hour })[1], lost);
    const { environment: env, account } = ACME;
    const account_changed = { msg: "event", kind: "account_changed", env, account };
    const [own, lostOwn] = of({ windows: hour, events: [account_changed] });
    assert.equal(own?.[0]?.[1], "explained");
    assert.deepEqual(lostOwn, lost);
    const caps = { msg: "event", kind: "caps_added", key: "k_1", newWindows: ["key.day"] };
    const ofKey = [{ window: "key.day of k_1", used: 0, keys: ["", "k_1"] }];
    const [why, lostOfKey] = of({ windows: ofKey, events: [caps] });
    assert.equal(why?.[0]?.[1], "explained");
    assert.deepEqual(lostOfKey, [["key.day of k_1", "drift", -9, undefined]]);
  });

  it("are explained by no configuration on a day that is over", () => {
    const verdict = (told: readonly object[]) => {
      const incidents = new Incidents();
      incidents.line(NOON, "c");
      for (const one of [RELOADED, ...told]) incidents.event(one as typeof RELOADED);
      const span = new LogSpan();
      for (const atMs of [NOON - DAY_MS, NOON + DAY_MS]) span.line(atMs);
      const configs = new Map([
        ["c", { units: 9, firstMs: NOON, lastMs: NOON }],
        ["8a6bf653", { units: 1, firstMs: NOON + 2, lastMs: NOON + 2 }],
      ]);
      const row = { ...ACME, day: DAY, counted: 1, lost: 0 };
      const sum = { ...newSum(), charged: 10, configs };
      const inputs = {
        config: { plans: new Map(), planBounds: new Map(), historyMs: DAY_MS },
        ...{ ledger: new Ledger([], []), incidents, span, alive: 0, hasDescriptions: true },
        ...{ openBefore: [], openAfter: [] },
      };
      const [judgedDay] = dayBalances(inputs, [{ ...row, sum }], AT + DAY_MS);
      return [judgedDay?.verdict, judgedDay?.drift];
    };
    assert.deepEqual(verdict([]), ["explained", 0]);
    assert.deepEqual(verdict([FORGOTTEN]), ["drift", -9]);
  });
});
