import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { ActivityRecorder } from "../../../src/server/events/activity-recorder.ts";
import type { ActivityStore } from "../../../src/stores/quotas/activity-store.ts";
import { createMemoryQuotaStore } from "../../../src/stores/quotas/memory/memory-quota-store.ts";
import type { AccessLogEntry } from "../../../src/telemetry/log/log.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 9, 30, 12);
const TODAY = NOW / DAY_MS - 0.5;
const OLD = { environment: "production", method: "GET", route: "/v1/old" };
const REFUSED: Partial<AccessLogEntry> = { env: "production", account: "a", decision: "refused" };

type Setup = { readonly isAway?: () => boolean; readonly keepsDays?: boolean };

async function opened({ isAway = () => false, keepsDays = true }: Setup = {}) {
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
  const { activity: notes } = store;
  const watched: ActivityStore = {
    addRefused: through((refused) => notes.addRefused(refused)),
    addUsed: through((used) => notes.addUsed(used)),
    addCalls: through((told) => notes.addCalls(told)),
    lastUsed: (keys) => notes.lastUsed(keys),
    calls: (operations) => notes.calls(operations),
  };
  const options = { notes: watched, keepsDays: () => keepsDays, now: () => NOW };
  const notebook = new ActivityRecorder({ ...options, everyMs: 3_600_000 });
  const line = (more: Partial<AccessLogEntry> = {}) => {
    notebook.request({ ...REFUSED, ...more } as AccessLogEntry);
  };
  const refused = async (account = "a") => {
    const name = { environment: "production", account };
    const [days = []] = await store.history([name], { from: TODAY - 2, to: TODAY + 2 });
    return days.map(({ day, refused: requests }) => [day - TODAY, requests]);
  };
  return { store, notebook, line, refused, calls: () => calls };
}

describe("a notebook", () => {
  it("tells refused requests of an account by the day on which they were decided", async () => {
    const { notebook, line, refused, store } = await opened();
    line();
    line({ decidedAt: NOW });
    line({ decidedAt: NOW + DAY_MS });
    line({ decision: "admitted" });
    line({ decision: "none" });
    line({ account: "addr:192.0.2.1" });
    assert.deepEqual(await refused(), [], "not before its time");
    await notebook.flush();
    assert.deepEqual(await refused(), [
      [0, 2],
      [1, 1],
    ]);
    assert.deepEqual(await refused("addr:192.0.2.1"), []);
    await notebook.close();
    await store.close();
  });

  it("tells of a key once a day, and asks for nothing where there is nothing to tell", async () => {
    const { notebook, line, calls, store } = await opened({ keepsDays: false });
    line();
    await notebook.flush();
    assert.equal(calls(), 0);
    for (let i = 0; i < 5; i++) {
      line({ key: "k_1", decision: "admitted" });
      await notebook.flush();
    }
    assert.equal(calls(), 1);
    line({ key: "k_1", decidedAt: NOW + DAY_MS });
    await notebook.flush();
    assert.equal(calls(), 2);
    assert.deepEqual([...(await store.activity.lastUsed(["k_1"]))], [["k_1", TODAY + 1]]);
    await notebook.close();
    await store.close();
  });

  it("keeps all of it while the store is away, and tells it once when it is back, at its end too", async () => {
    let isAway = true;
    const { notebook, line, refused, store } = await opened({ isAway: () => isAway });
    line({ key: "k_1" });
    notebook.addDeprecatedCall(OLD, "a");
    await notebook.flush();
    line();
    notebook.addDeprecatedCall(OLD, "a");
    const flushed = notebook.flush();
    line();
    await flushed;
    isAway = false;
    await notebook.close();
    assert.deepEqual(await refused(), [[0, 3]]);
    assert.deepEqual([...(await store.activity.lastUsed(["k_1"])).keys()], ["k_1"]);
    const [call] = await store.activity.calls([OLD]);
    assert.equal(call?.requests, 2);
    await notebook.flush();
    assert.deepEqual(await refused(), [[0, 3]]);
    await store.close();
  });

  it("knows of an account that calls here what it called elsewhere", async () => {
    const { notebook, store } = await opened();
    await store.activity.addCalls([{ ...OLD, account: "a", requests: 5, last: 9e9 }]);
    notebook.addDeprecatedCall(OLD, "a");
    assert.deepEqual(
      notebook.callsOf("production", "a").map(({ requests }) => requests),
      [1],
    );
    await notebook.flush();
    assert.deepEqual(notebook.callsOf("production", "a"), [
      { ...OLD, account: "a", requests: 6, last: 9e9 },
    ]);
    notebook.addDeprecatedCall(OLD, "a");
    assert.equal(notebook.callsOf("production", "a")[0]?.requests, 7);
    assert.deepEqual(notebook.callsOf("staging", "a"), []);
    assert.deepEqual(notebook.callsOf("production", "b"), []);
    await notebook.close();
    await store.close();
  });

  it("tells at its end also what came while it was telling", async () => {
    const { notebook, line, refused, store } = await opened();
    line();
    const flushed = notebook.flush();
    line();
    await notebook.close();
    await flushed;
    assert.deepEqual(await refused(), [[0, 2]]);
    await store.close();
  });

  it("tells the last day of a key, whichever was to be told while the store was away", async () => {
    let isAway = true;
    const { notebook, line, store } = await opened({ isAway: () => isAway, keepsDays: false });
    line({ key: "k_1", decidedAt: NOW - DAY_MS });
    const flushed = notebook.flush();
    line({ key: "k_1" });
    await flushed;
    isAway = false;
    await notebook.close();
    assert.deepEqual([...(await store.activity.lastUsed(["k_1"]))], [["k_1", TODAY]]);
    await store.close();
  });

  it("keeps refused requests of as many accounts as it may, and counts on those that it has", async () => {
    const { notebook, line, refused, store } = await opened();
    for (let i = 0; i < 100_000; i++) line({ account: `a${i}` });
    line({ account: "late" });
    line({ account: "a5" });
    await notebook.flush();
    assert.deepEqual([await refused("a5"), await refused("a99999")], [[[0, 2]], [[0, 1]]]);
    assert.deepEqual(await refused("late"), []);
    await notebook.close();
    await store.close();
  });
});
