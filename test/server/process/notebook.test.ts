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
  readonly storeTimeoutMs?: number;
  /** Undefined as in a gateway; an hour unless said. */
  readonly everyMs?: number | undefined;
};

async function opened(setup: Setup = {}) {
  const { isAway = () => false, keepsDays = true, storeTimeoutMs = 20_000 } = setup;
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
  };
  const open = (more: Partial<ActivityStore> = {}) => {
    return new ActivityRecorder({
      ...{ keepsDays: () => keepsDays, now: () => NOW, storeTimeoutMs: () => storeTimeoutMs },
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

const A = { environment: "production", account: "a" };

/** The requests of each operation that the account is told; undefined if it is told none. */
async function requestsOf(process: ActivityRecorder, accountRef: typeof A) {
  return (await process.callsOf(accountRef))?.map(({ requests }) => requests);
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

  it("tells an account its calls at once, with those at other processes", async () => {
    const { activityRecorder, open, store } = await opened();
    const other = open();
    for (const process of [activityRecorder, other]) process.addDeprecatedCall(OLD, "a");
    const told = (process = activityRecorder) => requestsOf(process, A);
    assert.deepEqual(await told(), [1]);
    assert.deepEqual(await told(other), [2], "the first of its own, and the one that was told");
    assert.deepEqual(await told(), [2]);
    assert.deepEqual(await requestsOf(other, { ...A, environment: "staging" }), []);
    assert.deepEqual(await requestsOf(other, { ...A, account: "b" }), []);
    const [call] = await store.activity.calls([OLD]);
    assert.deepEqual(call, { ...OLD, account: "a", requests: 2, last: NOW / 1_000 });
    for (const process of [activityRecorder, other]) await process.close();
    await store.close();
  });

  it("asks for all that ask while it asks by one command", async () => {
    const { open, store } = await opened();
    const asked: string[][] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    const activityRecorder = open({
      addCalls: async (calls) => {
        asked.push(calls.map(({ account }) => account));
        await promise;
        return store.activity.addCalls(calls);
      },
    });
    const asking = [requestsOf(activityRecorder, A)];
    await eventually(() => assert.deepEqual(asked, [["a", "a"]]));
    for (const account of ["b", "c"]) asking.push(requestsOf(activityRecorder, { ...A, account }));
    activityRecorder.addDeprecatedCall(OLD, "a");
    resolve();
    assert.deepEqual(await Promise.all(asking), [[1], [], []], "a call came while it asked");
    assert.deepEqual(asked, [
      ["a", "a"],
      ["b", "b", "c", "c"],
    ]);
    await activityRecorder.close();
    await store.close();
  });

  it("leaves an account that waits for the answer to another its own time", async () => {
    const { open, store } = await opened({ storeTimeoutMs: 1_000 });
    const activityRecorder = open({
      addCalls: (calls) => sleep(700).then(() => store.activity.addCalls(calls)),
    });
    activityRecorder.addDeprecatedCall(OLD, "b");
    const first = requestsOf(activityRecorder, A);
    await sleep(0);
    const second = requestsOf(activityRecorder, { ...A, account: "b" });
    assert.deepEqual(await Promise.all([first, second]), [[], [1]]);
    await activityRecorder.close();
    await store.close();
  });

  it("tells no calls if the store is away, and loses none", async () => {
    let isAway = true;
    const { activityRecorder, store } = await opened({ isAway: () => isAway });
    activityRecorder.addDeprecatedCall(OLD, "a");
    assert.equal(await requestsOf(activityRecorder, A), undefined);
    isAway = false;
    assert.deepEqual(await requestsOf(activityRecorder, A), [1]);
    await activityRecorder.close();
    await store.close();
  });

  it("ends after the calls that it tells for an account that asks", async () => {
    const { open, store } = await opened({ storeTimeoutMs: 1 });
    const { promise, resolve } = Promise.withResolvers<void>();
    const activityRecorder = open({
      addCalls: async (calls) => {
        await promise;
        return store.activity.addCalls(calls);
      },
    });
    activityRecorder.addDeprecatedCall(OLD, "a");
    assert.equal(await requestsOf(activityRecorder, A), undefined, "it is not told in time");
    let isClosed = false;
    const closing = activityRecorder.close().then(() => {
      isClosed = true;
    });
    await sleep(20);
    assert.equal(isClosed, false);
    resolve();
    await closing;
    assert.equal((await store.activity.calls([OLD]))[0]?.requests, 1);
    await store.close();
  });

  it("counts a call that comes while it tells the store", async () => {
    const { activityRecorder, store } = await opened();
    activityRecorder.addDeprecatedCall(OLD, "a");
    const flushed = activityRecorder.flush();
    activityRecorder.addDeprecatedCall(OLD, "a");
    await flushed;
    assert.deepEqual(await requestsOf(activityRecorder, A), [2]);
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
