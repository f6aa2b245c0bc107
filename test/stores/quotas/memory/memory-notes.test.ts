import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { DayCounts } from "../../../../src/stores/quotas/memory/day-counts.ts";
import { MemoryActivity } from "../../../../src/stores/quotas/memory/memory-activity.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-notes-"));
});
afterEach(() => rm(folder, { recursive: true }));

const open = () =>
  new MemoryActivity(join(folder, "state.json"), new DayCounts(undefined), Date.now);

describe("the file of notes", () => {
  it("is written when they have changed, and else left alone", async () => {
    const file = join(folder, "state.notes.json");
    const activity = open();
    await activity.save();
    await assert.rejects(stat(file), /ENOENT/);
    await activity.addUsed([{ key: "k_1", day: 20_000 }]);
    await activity.save();
    // Each write is a new file in place of the one before.
    const { ino, mtimeMs } = await stat(file);
    await activity.addUsed([{ key: "k_1", day: 20_000 }]);
    await activity.addCalls([]);
    await activity.save();
    const later = await stat(file);
    assert.deepEqual([later.ino, later.mtimeMs], [ino, mtimeMs]);
  });

  it("is written later where it could not be", async () => {
    const file = join(folder, "state.notes.json");
    await mkdir(join(file, "in the way"), { recursive: true });
    const activity = open();
    await activity.addUsed([{ key: "k_1", day: 20_000 }]);
    await assert.rejects(activity.save());
    await rm(file, { recursive: true });
    await activity.save();
    const again = open();
    await again.load();
    assert.deepEqual([...(await again.lastUsed(["k_1"]))], [["k_1", 20_000]]);
  });

  it("stops the start where it cannot be read, or is damaged, naming each place", async () => {
    const file = join(folder, "state.notes.json");
    await mkdir(file);
    await assert.rejects(open().load(), (error: Error) => {
      return error.message.startsWith(`Cannot read the notes ${file}: `);
    });
    await rm(file, { recursive: true });
    await writeFile(file, '{"version":2,"used":[],"called":[]}');
    await assert.rejects(open().load(), /version: this gateway reads version 1: found 2/);
    const called = { environment: "production", method: "GET", route: "/v1", account: "a" };
    const broken = {
      used: [{ key: "", day: 1 }, { key: "k_1" }],
      called: [{ ...called, last: 1 }],
    };
    await writeFile(file, JSON.stringify({ version: 1, ...broken }));
    await assert.rejects(open().load(), (error: Error) => {
      const places = ["used[0].key", "used[1].day", "called[0].requests"];
      return places.every((place) => error.message.includes(`Cannot use ${place}: `));
    });
  });

  it("gives back what it had, to a store that opens later", async () => {
    const activity = open();
    const call = { environment: "production", method: "GET", route: "/v1", account: "a" };
    await activity.addCalls([{ ...call, requests: 3, last: 70 }]);
    await activity.addUsed([{ key: "k_1", day: 20_000 }]);
    await activity.save();
    const again = open();
    await again.load();
    assert.deepEqual(await again.calls([call]), [{ ...call, requests: 3, last: 70 }]);
    await again.addUsed([{ key: "k_1", day: 19_999 }]);
    assert.equal(again.isChanged, false);
    assert.deepEqual([...(await again.lastUsed(["k_1", "k_2"]))], [["k_1", 20_000]]);
  });
});
