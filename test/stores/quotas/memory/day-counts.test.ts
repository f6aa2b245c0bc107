import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { closesMs, dayOf, formatDay } from "../../../../src/core/quota/days.ts";
import type { RefusalCount } from "../../../../src/stores/quotas/activity-store.ts";
import { DayCounts } from "../../../../src/stores/quotas/memory/day-counts.ts";
import { DayFiles } from "../../../../src/stores/quotas/memory/day-files.ts";
import { MemoryActivity } from "../../../../src/stores/quotas/memory/memory-activity.ts";

const DAY_MS = 86_400_000;
const KEPT_MS = 400 * DAY_MS;
const MIDNIGHT = Date.UTC(2026, 9, 30);
const TODAY = dayOf(MIDNIGHT);
const accountRef = { environment: "production", account: "a" };

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-day-counts-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** The days of the account, with their units and refused requests. */
async function rows(days: DayCounts): Promise<(readonly [number, number, number])[]> {
  const [all = []] = await days.read([accountRef], { from: TODAY - 500, to: TODAY + 500 });
  return all.map(({ day, units, refused }) => [day - TODAY, units, refused]);
}

describe("counts by day that were saved", () => {
  it("go on in the running day, whose file has all of it after the next save", async () => {
    const files = new DayFiles(join(folder, "state.json"));
    const days = new DayCounts(files, KEPT_MS);
    for (let i = 1; i <= 3; i++) {
      days.admit(accountRef, MIDNIGHT, 1, 5);
      assert.equal(days.isChanged, true);
      await days.save(MIDNIGHT);
      assert.equal(days.isChanged, false);
      assert.deepEqual(await rows(days), [[0, 5 * i, 0]]);
    }
    const again = new DayCounts(files, KEPT_MS);
    await again.load(MIDNIGHT);
    assert.deepEqual(await rows(again), [[0, 15, 0]]);
  });

  it("are not replaced by those of a start after the clock went back a day", async () => {
    const files = new DayFiles(join(folder, "state.json"));
    const before = new DayCounts(files, KEPT_MS);
    before.admit(accountRef, MIDNIGHT, 1, 5);
    before.admit({ ...accountRef, account: "far" }, MIDNIGHT + 400 * DAY_MS, 1, 3);
    await before.save(MIDNIGHT);
    const days = new DayCounts(files, KEPT_MS);
    await days.load(MIDNIGHT - 1);
    days.admit(accountRef, MIDNIGHT - 1, 1, 1);
    days.admit(accountRef, MIDNIGHT, 1, 1);
    await days.save(MIDNIGHT);
    assert.deepEqual(await rows(days), [[0, 7, 0]], "the day does not go back either");
    const later = new DayCounts(files, KEPT_MS);
    await later.load(MIDNIGHT);
    assert.deepEqual(await rows(later), [[0, 7, 0]]);
  });

  it("take what is counted while they are written, though their day is over by then", async () => {
    const days = new DayCounts(new DayFiles(join(folder, "state.json")), KEPT_MS);
    days.admit(accountRef, MIDNIGHT, 1, 1);
    const saving = days.save(MIDNIGHT + DAY_MS);
    await days.refuse(accountRef, TODAY, 7);
    await saving;
    assert.equal(days.isChanged, true);
    await days.save(MIDNIGHT + DAY_MS);
    assert.deepEqual(await rows(days), [[0, 1, 7]]);
  });

  it("count what is refused on a day that was let go of on that day, whose file keeps the rest", async () => {
    const days = new DayCounts(new DayFiles(join(folder, "state.json")), KEPT_MS);
    days.admit(accountRef, MIDNIGHT, 1, 1);
    await days.save(closesMs(TODAY));
    days.admit(accountRef, MIDNIGHT + DAY_MS, 1, 1);
    await days.refuse(accountRef, TODAY, 7);
    await days.save(closesMs(TODAY));
    assert.deepEqual(await rows(days), [
      [0, 1, 7],
      [1, 1, 0],
    ]);
  });

  it("count what is refused at once on a day that was let go of, and leave what its file does not take", async () => {
    const files = new DayFiles(join(folder, "state.json"));
    const days = new DayCounts(files, KEPT_MS);
    const activity = new MemoryActivity(join(folder, "state.json"), days, Date.now);
    days.admit(accountRef, MIDNIGHT, 1, 5);
    await days.save(closesMs(TODAY));
    await Promise.all([2, 3].map((requests) => days.refuse(accountRef, TODAY, requests)));
    assert.deepEqual(await rows(days), [[0, 5, 5]]);
    // A folder in its place cannot be read, even by root.
    await mkdir(join(folder, "state.history", `${formatDay(TODAY - 1)}.jsonl`));
    const [lost, counted] = [TODAY - 1, TODAY].map((day) => ({ accountRef, day, requests: 7 }));
    assert.deepEqual(await activity.addRefused([lost, counted] as RefusalCount[]), [lost]);
    await rm(join(folder, "state.history", `${formatDay(TODAY - 1)}.jsonl`), { recursive: true });
    assert.deepEqual(await rows(days), [[0, 5, 12]]);
  });

  it("keep all of a day that was let go of, if nothing was admitted since and the clock goes on or back", async () => {
    const files = new DayFiles(join(folder, "state.json"));
    const days = new DayCounts(files, KEPT_MS);
    days.admit(accountRef, MIDNIGHT, 1, 5);
    days.admit({ ...accountRef, account: "b" }, MIDNIGHT, 1, 3);
    await days.save(closesMs(TODAY));
    await days.refuse({ ...accountRef, account: "b" }, TODAY, 2);
    days.addMetered(accountRef, TODAY, "tokens", 7, MIDNIGHT);
    days.admit(accountRef, MIDNIGHT, 1, 1);
    await days.save(MIDNIGHT);
    const again = new DayCounts(files, KEPT_MS);
    await again.load(closesMs(TODAY));
    const expected = [
      [0, 5, 0],
      [1, 1, 0],
    ];
    assert.deepEqual([await rows(days), await rows(again)], [expected, expected]);
    const [[first, second] = []] = await again.read([{ ...accountRef, account: "b" }], {
      from: TODAY,
      to: TODAY + 1,
    });
    assert.deepEqual([first?.units, first?.refused, second?.refused], [3, 2, undefined]);
  });

  it("without files are kept for the time of the history, to the day", async () => {
    const days = new DayCounts(undefined, 2 * DAY_MS);
    days.admit(accountRef, MIDNIGHT, 1, 1);
    days.admit(accountRef, MIDNIGHT + DAY_MS, 1, 2);
    days.admit(accountRef, MIDNIGHT + 3 * DAY_MS, 1, 3);
    await days.save(MIDNIGHT + 3 * DAY_MS);
    assert.deepEqual(await rows(days), [
      [1, 2, 0],
      [3, 3, 0],
    ]);
  });
});
