import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, vi } from "vitest";
import { DecisionCache } from "../../../../../src/stores/quotas/batch/decision-cache.ts";
import {
  reportLostCharges,
  reportUncertain,
} from "../../../../../src/stores/quotas/charge-reports.ts";
import {
  lostCountReporter,
  watchClock,
} from "../../../../../src/stores/quotas/redis/store/store-warnings.ts";
import { eventually } from "../../../../support/poll.ts";
import { account, open, startServer, type Told } from "../redis-kit.ts";

const LOST = { window: "minute", used: 3, was: 387 } as const;
/** A little longer than the message of another gateway may take. */
const HEARD_MS = 1_200;

function openReporter() {
  const decisionCache = new DecisionCache();
  const told: Told[] = [];
  const report = (level: string, message: string, details?: Record<string, unknown>) => {
    told.push({ level, message, details });
  };
  return {
    decisionCache,
    told,
    report,
    tell: lostCountReporter("redis://host", report, decisionCache),
  };
}

describe("a count that is lower than it was", () => {
  it("is no lost charge where the message of a reset comes after the count, and hides none that follows", async () => {
    const { decisionCache, told, tell } = openReporter();
    tell(account("reset"), LOST);
    decisionCache.invalidate(account("reset"));
    await sleep(HEARD_MS);
    assert.equal(told.length, 0);
    tell(account("lost"), LOST);
    await eventually(() => assert.equal(told.length, 1));
    const [{ message, details } = { message: "", details: undefined }] = told;
    assert.deepEqual([message, details?.account], ["counter_regression", "lost"]);
  });

  it("is a lost charge where another account was reset, and told once", async () => {
    const { decisionCache, told, tell } = openReporter();
    for (const id of ["lost", "lost too"]) tell(account(id), LOST);
    decisionCache.invalidate(account("reset"));
    await eventually(() => assert.equal(told.length, 1));
    tell(account("lost"), LOST);
    await sleep(HEARD_MS);
    assert.deepEqual([told.length, told[0]?.details?.account], [1, "lost"]);
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
    const link = { tried: Promise.resolve(), health: () => ({ ok: true }) };
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
});
