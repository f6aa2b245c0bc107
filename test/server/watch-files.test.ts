import assert from "node:assert/strict";
import fs, {
  chmodSync,
  type FSWatcher,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { appendFile, chmod, mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, onTestFinished, vi } from "vitest";
import { watchFiles } from "../../src/server/watch-files.ts";
import { openFolder } from "../cli/kit.ts";
import { provided } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";

const linux = provided(process.platform === "linux", "Linux");

/** How many files and folders the system watches for this process. */
function watchCount(): number {
  const folder = "/proc/self/fdinfo";
  const texts = readdirSync(folder).map((name) => {
    try {
      return readFileSync(join(folder, name), "latin1");
    } catch {
      // The descriptor of the listing itself is closed by now.
      return "";
    }
  });
  return texts.join("").match(/^inotify wd:/gm)?.length ?? 0;
}

describe("watching files", () => {
  async function open() {
    const folder = await openFolder();
    const file = join(folder.path, "watched.yaml");
    const other = join(folder.path, "other.yaml");
    await writeFile(file, "one");
    const texts: string[] = [];
    let [isOver, missed] = [false, 0];
    const watch = watchFiles((because) => {
      if (because === "file missing") missed += 1;
      else if (!isOver) texts.push(readFileSync(file, "utf8"));
    });
    await watch.setFiles([file], Date.now() + 11);
    return {
      file,
      other,
      watch,
      /** The texts that were there at each call. */
      texts,
      saves: () => texts.length,
      missed: () => missed,
      [Symbol.asyncDispose]: async () => {
        isOver = true;
        await folder[Symbol.asyncDispose]();
      },
    };
  }

  it("sees a change of rights alone after a refusal, and not after a good reading", async () => {
    await using seen = await open();
    await seen.watch.setFiles([seen.file], Date.now(), true);
    await chmod(seen.file, 0o640);
    await eventually(() => assert.equal(seen.saves(), 1));
    await seen.watch.setFiles([seen.file], Date.now(), false);
    await chmod(seen.file, 0o644);
    await sleep(1_000);
    assert.equal(seen.saves(), 1);
  });

  it("sees a save among changes of rights, links and attributes that never end, and only that", async () => {
    await using seen = await open();
    // It ends before the folder goes: after it, a change of rights would find no file.
    using _changes = setInterval(() => chmodSync(seen.file, 0o644), 20);
    await sleep(1_000);
    assert.equal(seen.saves(), 0);
    await writeFile(seen.file, "two");
    await eventually(() => assert.deepEqual(seen.texts, ["two"]));
  });

  it("takes rights that changed before the refused reading for read", async () => {
    await using seen = await open();
    await chmod(seen.file, 0o640);
    await sleep(50);
    await seen.watch.setFiles([seen.file], Date.now(), true);
    await sleep(1_000);
    assert.equal(seen.saves(), 0);
    await chmod(seen.file, 0o644);
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("sees a file written in place, and one replaced by a rename", async () => {
    await using seen = await open();
    await writeFile(seen.file, "two");
    await eventually(() => assert.equal(seen.saves(), 1));
    await writeFile(seen.other, "three");
    await rename(seen.other, seen.file);
    await eventually(() => assert.equal(seen.saves(), 2));
    await writeFile(seen.file, "four");
    await eventually(() => assert.equal(seen.saves(), 3));
  });

  it("sees a save that keeps size and time, in place and by a new file, and after a change of rights", async () => {
    await using seen = await open();
    // Nobody looks between two steps of one turn.
    const fixed = (text: string) => {
      writeFileSync(seen.file, text);
      utimesSync(seen.file, 1, 1);
    };
    const takes = (text: string) => eventually(() => assert.equal(seen.texts.at(-1), text));
    fixed("two");
    await takes("two");
    fixed("six");
    await takes("six");
    // As tar does: a file system may give the new file the number of the old one.
    rmSync(seen.file);
    fixed("ten");
    chmodSync(seen.file, 0o600);
    await takes("ten");
    chmodSync(seen.file, 0o640);
    await sleep(1_000);
    fixed("one");
    await takes("one");
  });

  it("calls at the end of a save that takes several steps, when all of it is there", async () => {
    await using seen = await open();
    await rm(seen.file);
    let [longestMs, lastMs] = [0, performance.now()];
    for (let i = 0; i < 8; i++) {
      await appendFile(seen.file, "piece");
      await sleep(10);
      longestMs = Math.max(longestMs, performance.now() - lastMs);
      lastMs = performance.now();
    }
    const whole = "piece".repeat(8);
    await eventually(() => assert.equal(seen.texts.at(-1), whole));
    // On a machine that stalls the save itself pauses for as long as one that is complete.
    if (longestMs < 50) assert.deepEqual(seen.texts, [whole]);
  });

  it("calls a tenth of a second after the last step of a save, and not before", async () => {
    await using seen = await open();
    const tookMs: number[] = [];
    // A machine that stalls takes longer: the soonest counts.
    const soonestMs = await eventually(async () => {
      const before = seen.saves();
      const startMs = performance.now();
      await writeFile(seen.file, `${startMs}`);
      await eventually(() => assert.equal(seen.saves(), before + 1), { everyMs: 1 });
      tookMs.push(performance.now() - startMs);
      const soonest = Math.min(...tookMs);
      assert.ok(tookMs.length >= 8 && soonest < 190, `${tookMs.join(", ")} ms`);
      return soonest;
    });
    assert.ok(soonestMs > 98, `${soonestMs} ms`);
  });

  it("does not call for another file of the folder, or for a file that is away", async () => {
    await using seen = await open();
    await writeFile(seen.other, "two");
    await rm(seen.file);
    await sleep(700);
    assert.equal(seen.saves(), 0);
    await writeFile(seen.file, "back");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("follows other files from the next call on", async () => {
    await using seen = await open();
    await writeFile(seen.other, "one");
    await seen.watch.setFiles([seen.file, seen.other], Date.now() + 11);
    await writeFile(seen.other, "two");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("sees a file appear whose folder was not there when it was told of it", async () => {
    await using seen = await open();
    const later = join(dirname(seen.file), "later", "watched.yaml");
    await seen.watch.setFiles([seen.file, later], Date.now());
    await mkdir(dirname(later));
    await writeFile(later, "two");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("sees what was saved at the moment when it is told of further files", async () => {
    await using seen = await open();
    await writeFile(seen.other, "one");
    writeFileSync(seen.file, "two");
    await seen.watch.setFiles([seen.file, seen.other], Date.now() + 11);
    await eventually(() => assert.deepEqual(seen.texts, ["two"]));
  });

  it("sees a save of a further file that came after it was read and before it is told of it", async () => {
    await using seen = await open();
    await writeFile(seen.other, "one");
    const changed = Math.ceil((await stat(seen.other)).ctimeMs);
    await seen.watch.setFiles([seen.file, seen.other], changed + 11);
    await sleep(700);
    assert.equal(seen.saves(), 0, "it was read after that");
    await seen.watch.setFiles([seen.file], Date.now());
    await seen.watch.setFiles([seen.file, seen.other], changed - 1);
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("has the system watch nothing for files that it follows no more", linux, async () => {
    await using seen = await open();
    await using elsewhere = await openFolder();
    const before = watchCount();
    assert.ok(before > 0);
    const there = join(elsewhere.path, "watched.yaml");
    await seen.watch.setFiles([seen.file, seen.other, there], Date.now());
    assert.equal(watchCount(), before + 1, "each folder once");
    await seen.watch.setFiles([there], Date.now());
    assert.equal(watchCount(), before);
  });

  it("goes on where the system breaks off a watch", async () => {
    const watchers: FSWatcher[] = [];
    const { watch } = fs;
    fs.watch = ((...args: Parameters<typeof watch>) => {
      watchers.push(watch(...args));
      return watchers.at(-1);
    }) as typeof watch;
    syncBuiltinESMExports();
    onTestFinished(() => {
      fs.watch = watch;
      syncBuiltinESMExports();
    });
    await using seen = await open();
    assert.equal(watchers.length, 1);
    watchers[0]?.emit("error", new Error("EPERM"));
    watchers[0]?.close();
    await writeFile(seen.file, "two");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("tells once of a file that is missing for five seconds, and of its return", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    onTestFinished(() => void vi.useRealTimers());
    await using seen = await open();
    const startMs = performance.now();
    await rm(seen.file);
    await eventually(() => {
      vi.advanceTimersByTime(500);
      assert.equal(seen.missed(), 1);
    });
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs >= 5_000 && tookMs < 20_000, `${tookMs} ms`);
    for (let i = 0; i < 30; i++) {
      vi.advanceTimersByTime(500);
      await sleep(5);
    }
    assert.deepEqual([seen.missed(), seen.saves()], [1, 0]);
    await writeFile(seen.file, "one");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("looks twice a second where the system tells of nothing", async () => {
    vi.useFakeTimers({ toFake: ["setInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    await using seen = await open();
    const later = join(dirname(seen.file), "later", "watched.yaml");
    await seen.watch.setFiles([later], Date.now());
    await mkdir(dirname(later));
    await writeFile(later, "two");
    vi.advanceTimersByTime(500);
    await eventually(() => assert.equal(seen.saves(), 1), { withinMs: 10_000 });
  });
});
