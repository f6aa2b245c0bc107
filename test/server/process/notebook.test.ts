import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, onTestFinished, vi } from "vitest";
import { ActivityRecorder } from "../../../src/server/events/activity-recorder.ts";
import type { ActivityStore } from "../../../src/stores/quotas/activity-store.ts";
import { createMemoryQuotaStore } from "../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { AccessLogEntry } from "../../../src/telemetry/log/access-log-entry.ts";
import { eventually } from "../../support/poll.ts";

const DAY_MS = 86_400_000;
const EVERY_MS = 5;
const NOW = Date.UTC(2026, 9, 30, 12);
const TODAY = NOW / DAY_MS - 0.5;
const OLD = { environment: "production", method: "GET", route: "/v1/old" };
const REFUSED: Partial<AccessLogEntry> = { env: "production", account: "a", decision: "refused" };

type Setup = {
  readonly isAway?: () => boolean;
  readonly keepsDays?: boolean;
  /** Undefined as in a gateway; an hour unless said. */
  readonly everyMs?: number | undefined;
};

async function opened(setup: Setup = {}) {
  const { isAway = () => false, keepsDays = true } = setup;
  const { everyMs } = { everyMs: 3_600_000, ...setup };
  const historyMs = 400 * DAY_MS;
  const store = await createMemoryQuotaStore({ now: () => NOW, report: () => {}, historyMs });
  let calls = 0;
  const through = <T extends unknown[], R>(run: (...args: T) => Promise<R>) => {
    return async (...args: T): Promise<R> => {
      calls += 1;
      if (isAway()) throw new Error("away");
      return run(...args);
    };
  };
  const { activity: activityStore } = store;
  const watched: ActivityStore = {
    addRefused: through((refused) => activityStore.addRefused(refused)),
    addUsed: through((used) => activityStore.addUsed(used)),
    addCalls: through((told) => activityStore.addCalls(told)),
    lastUsed: (keys) => activityStore.lastUsed(keys),
    calls: (operations) => activityStore.calls(operations),
    callsBy: (operation, accounts) => activityStore.callsBy(operation, accounts),
  };
  const open = (more: Partial<ActivityStore> = {}) => {
    return new ActivityRecorder({
      ...{ keepsDays: () => keepsDays, now: () => NOW, learnMs: EVERY_MS },
      activityStore: { ...watched, ...more },
      deprecated: () => [OLD, { ...OLD, method: "PUT" }],
      ...(everyMs !== undefined && { everyMs }),
    });
  };
  const activityRecorder = open();
  const line = (more: Partial<AccessLogEntry> = {}) => {
    activityRecorder.request({ ...REFUSED, ...more } as AccessLogEntry);
  };
  const refused = async (account = "a") => {
    const accountRef = { environment: "production", account };
    const [days = []] = await store.history([accountRef], { from: TODAY - 2, to: TODAY + 2 });
    return days.map(({ day, refused: requests }) => [day - TODAY, requests]);
  };
  return { store, open, activityRecorder, line, refused, calls: () => calls };
}

describe("a notebook", () => {
  it("tells refused requests of an account by the day on which they were decided", async () => {
    const { activityRecorder, line, refused, store } = await opened();
    line();
    line({ decidedAt: NOW });
    line({ decidedAt: NOW + DAY_MS });
    line({ decision: "admitted" });
    line({ decision: "none" });
    line({ account: "addr:192.0.2.1" });
    line({ account: undefined });
    line({ env: undefined });
    assert.deepEqual(await refused(), [], "not before its time");
    await activityRecorder.flush();
    assert.deepEqual(await refused(), [
      [0, 2],
      [1, 1],
    ]);
    assert.deepEqual(await refused("addr:192.0.2.1"), []);
    await activityRecorder.close();
    await store.close();
  });

  it("tells of a key once a day, and asks for nothing where there is nothing to tell", async () => {
    const { activityRecorder, line, calls, store } = await opened({ keepsDays: false });
    line();
    await activityRecorder.flush();
    assert.equal(calls(), 0);
    for (let i = 0; i < 5; i++) {
      line({ key: "k_1", decision: "admitted" });
      await activityRecorder.flush();
    }
    assert.equal(calls(), 1);
    line({ key: "k_1", decidedAt: NOW + DAY_MS });
    await activityRecorder.flush();
    assert.equal(calls(), 2);
    assert.deepEqual([...(await store.activity.lastUsed(["k_1"]))], [["k_1", TODAY + 1]]);
    await activityRecorder.close();
    await store.close();
  });

  it("tells by itself again and again, and no more once it is closed", async () => {
    const { activityRecorder, line, calls, refused, store } = await opened({ everyMs: EVERY_MS });
    for (let told = 1; told <= 2; told++) {
      line();
      await eventually(async () => assert.deepEqual(await refused(), [[0, told]]));
    }
    await activityRecorder.close();
    const before = calls();
    line();
    // Timers of one length run in the order in which they were set.
    await sleep(EVERY_MS);
    assert.equal(calls(), before);
    await store.close();
  });

  it("tells twice a minute", async () => {
    vi.useFakeTimers({ toFake: ["setInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const { activityRecorder, line, calls, store } = await opened({ everyMs: undefined });
    line();
    vi.advanceTimersByTime(29_999);
    assert.equal(calls(), 0);
    vi.advanceTimersByTime(1);
    assert.equal(calls(), 1);
    await activityRecorder.close();
    await store.close();
  });

  it("keeps all of it while the store is away, and tells it once when it is back, at its end too", async () => {
    let isAway = true;
    const { activityRecorder, line, refused, store } = await opened({ isAway: () => isAway });
    line({ key: "k_1" });
    activityRecorder.addDeprecatedCall(OLD, "a");
    await activityRecorder.flush();
    line();
    activityRecorder.addDeprecatedCall(OLD, "a");
    const flushed = activityRecorder.flush();
    line();
    await flushed;
    isAway = false;
    await activityRecorder.close();
    assert.deepEqual(await refused(), [[0, 3]]);
    assert.deepEqual([...(await store.activity.lastUsed(["k_1"])).keys()], ["k_1"]);
    const [call] = await store.activity.calls([OLD]);
    assert.equal(call?.requests, 2);
    await activityRecorder.flush();
    assert.deepEqual(await refused(), [[0, 3]]);
    await store.close();
  });

  it("keeps refused requests apart by account and day while the store is away", async () => {
    let isAway = true;
    const { activityRecorder, line, refused, store } = await opened({ isAway: () => isAway });
    for (const account of ["a", "b", "b"]) line({ account });
    line({ decidedAt: NOW + DAY_MS });
    await activityRecorder.flush();
    isAway = false;
    await activityRecorder.close();
    const today = [0, 1];
    assert.deepEqual([await refused("a"), await refused("b")], [[today, [1, 1]], [[0, 2]]]);
    await store.close();
  });

  it("knows of an account that calls here what it called elsewhere", async () => {
    const { activityRecorder, store } = await opened();
    await store.activity.addCalls([{ ...OLD, account: "a", requests: 5, last: 9e9 }]);
    activityRecorder.addDeprecatedCall(OLD, "a");
    assert.deepEqual(
      activityRecorder.callsOf("production", "a").map(({ requests, last }) => [requests, last]),
      [[1, NOW / 1_000]],
    );
    await activityRecorder.flush();
    assert.deepEqual(activityRecorder.callsOf("production", "a"), [
      { ...OLD, account: "a", requests: 6, last: 9e9 },
    ]);
    activityRecorder.addDeprecatedCall(OLD, "a");
    assert.equal(activityRecorder.callsOf("production", "a")[0]?.requests, 7);
    assert.deepEqual(activityRecorder.callsOf("staging", "a"), []);
    assert.deepEqual(activityRecorder.callsOf("production", "b"), []);
    await activityRecorder.close();
    await store.close();
  });

  it("tells an account that asks again the calls of all processes, whether or not it called here", async () => {
    const { activityRecorder: one, open, store } = await opened();
    const [two, three] = [open(), open()];
    for (const process of [one, two]) process.addDeprecatedCall(OLD, "a");
    await one.flush();
    const told = () => {
      return [one, two, three].map((process) => {
        return process.callsOf("production", "a").map(({ requests }) => requests);
      });
    };
    assert.deepEqual(told(), [[1], [1], []]);
    await eventually(() => assert.deepEqual(told(), [[2], [2], [2]]));
    two.addDeprecatedCall(OLD, "a");
    await eventually(() => assert.deepEqual(told(), [[3], [3], [3]]));
    for (const process of [one, two, three]) await process.close();
    await store.close();
  });

  it("reads for accounts that ask while it reads, and asks a store that is away once", async () => {
    const { open, store } = await opened();
    const read: string[] = [];
    const { promise, reject } = Promise.withResolvers<never>();
    const activityRecorder = open({
      callsBy: (_, accounts) => {
        read.push(...accounts);
        return promise;
      },
    });
    activityRecorder.callsOf("production", "a");
    await eventually(() => assert.deepEqual(read, ["a"]));
    activityRecorder.callsOf("production", "b");
    reject(new Error("away"));
    await eventually(() => assert.deepEqual(read, ["a", "b"]));
    await activityRecorder.close();
    await store.close();
  });

  it("ends after the calls that it tells before it reads", async () => {
    const { open, store } = await opened();
    const { promise, resolve } = Promise.withResolvers<void>();
    let told = 0;
    const activityRecorder = open({
      addCalls: async (calls) => {
        told += calls.length;
        await promise;
        return { sums: calls, left: [] };
      },
    });
    activityRecorder.addDeprecatedCall(OLD, "a");
    activityRecorder.callsOf("production", "a");
    await eventually(() => assert.equal(told, 1));
    let isClosed = false;
    const closing = activityRecorder.close().then(() => {
      isClosed = true;
    });
    await sleep(20);
    assert.equal(isClosed, false);
    resolve();
    await closing;
    await store.close();
  });

  it("counts a call that comes while it tells the store", async () => {
    const { activityRecorder, store } = await opened();
    activityRecorder.addDeprecatedCall(OLD, "a");
    const flushed = activityRecorder.flush();
    activityRecorder.addDeprecatedCall(OLD, "a");
    await flushed;
    assert.equal(activityRecorder.callsOf("production", "a")[0]?.requests, 2);
    await activityRecorder.close();
    await store.close();
  });

  it("tells at its end also what came while it was telling", async () => {
    const { activityRecorder, line, refused, store } = await opened();
    line();
    const flushed = activityRecorder.flush();
    line();
    await activityRecorder.close();
    await flushed;
    assert.deepEqual(await refused(), [[0, 2]]);
    await store.close();
  });

  it("tells the last day of a key, whichever was to be told while the store was away", async () => {
    let isAway = true;
    const { activityRecorder, line, store } = await opened({
      isAway: () => isAway,
      keepsDays: false,
    });
    line({ key: "k_1", decidedAt: NOW - DAY_MS });
    const flushed = activityRecorder.flush();
    line({ key: "k_1" });
    await flushed;
    isAway = false;
    await activityRecorder.close();
    assert.deepEqual([...(await store.activity.lastUsed(["k_1"]))], [["k_1", TODAY]]);
    await store.close();
  });

  it("tells the later day of a key if the line of a request that began before midnight comes last", async () => {
    let isAway = false;
    const { activityRecorder, line, calls, store } = await opened({ isAway: () => isAway });
    const lastUsed = async () => [...(await store.activity.lastUsed(["k_1"])).values()];
    const admitted = (decidedAt: number) => line({ key: "k_1", decision: "admitted", decidedAt });
    admitted(NOW);
    admitted(NOW - DAY_MS);
    await activityRecorder.flush();
    assert.deepEqual(await lastUsed(), [TODAY]);
    admitted(NOW - DAY_MS);
    await activityRecorder.flush();
    assert.equal(calls(), 1, "an earlier day is no news");
    isAway = true;
    admitted(NOW + DAY_MS);
    const flushed = activityRecorder.flush();
    admitted(NOW);
    await flushed;
    isAway = false;
    await activityRecorder.close();
    assert.deepEqual(await lastUsed(), [TODAY + 1]);
    await store.close();
  });

  it("tells of as many keys as it may, and of each again once it has forgotten them for new ones", async () => {
    const { activityRecorder, line, calls, store } = await opened({ keepsDays: false });
    for (let i = 0; i < 100_000; i++) line({ key: `k_${i}` });
    line({ key: "late" });
    await activityRecorder.flush();
    const told = await store.activity.lastUsed(["k_0", "k_99999", "late"]);
    assert.deepEqual([...told.keys()], ["k_0", "k_99999"]);
    const flushed = async (key: string) => {
      line({ key });
      await activityRecorder.flush();
      return calls();
    };
    assert.equal(await flushed("late"), 1, "it is known");
    assert.equal(await flushed("k_0"), 2, "it was forgotten");
    await activityRecorder.close();
    await store.close();
  });

  it("keeps refused requests of as many accounts as it may, and counts on those that it has", async () => {
    const { activityRecorder, line, refused, store } = await opened();
    for (let i = 0; i < 100_000; i++) line({ account: `a${i}` });
    line({ account: "late" });
    line({ account: "a5" });
    await activityRecorder.flush();
    assert.deepEqual([await refused("a5"), await refused("a99999")], [[[0, 2]], [[0, 1]]]);
    assert.deepEqual(await refused("late"), []);
    await activityRecorder.close();
    await store.close();
  });
});
