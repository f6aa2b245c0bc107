import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import type { DashboardStats } from "../../src/admin/dashboard-stats.ts";
import { ReadingHistory } from "../../src/admin/reading-history.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("the readings for a page that is opened later", () => {
  it("are one at the start and one each 5 s, those of the last 15 minutes", () => {
    let atMs = 0;
    const told = { answered: { 200: 3 }, ownAnswers: { 401: 1 }, bans: { inForce: 2 } };
    const durations = { counts: [1, 0], sum: 0.5 };
    const read = () => ({ atMs, ...told, durations: { ...durations, bounds: [1] }, charged: 1 });
    const history = new ReadingHistory(read as unknown as () => DashboardStats);
    const wait = (ms: number) => {
      atMs += ms;
      vi.advanceTimersByTime(ms);
    };
    const times = () => history.all().map((reading) => reading.atMs);
    assert.deepEqual(history.all(), [{ atMs: 0, ...told, durations }]);
    wait(4_999);
    assert.deepEqual(times(), [0]);
    wait(1);
    assert.deepEqual(times(), [0, 5_000]);
    for (let i = 2; i < 180; i++) wait(5_000);
    assert.deepEqual([times().length, times()[0]], [180, 0]);
    wait(5_000);
    assert.deepEqual([times().length, times()[0], times().at(-1)], [180, 5_000, 900_000]);
    history.close();
    wait(5_000);
    assert.equal(times().at(-1), 900_000, "closed");
  });
});
