import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { appendFile, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { watchFiles } from "../../src/server/watch-files.ts";
import { openFolder } from "../cli/kit.ts";
import { eventually } from "../support/poll.ts";

describe("watching files", () => {
  async function open() {
    const folder = await openFolder();
    const file = join(folder.path, "watched.yaml");
    const other = join(folder.path, "other.yaml");
    await writeFile(file, "one");
    const texts: string[] = [];
    let isOver = false;
    const watch = watchFiles(() => {
      if (!isOver) texts.push(readFileSync(file, "utf8"));
    });
    await watch.setFiles([file]);
    return {
      file,
      other,
      watch,
      /** The texts that were there at each call. */
      texts,
      saves: () => texts.length,
      [Symbol.asyncDispose]: async () => {
        isOver = true;
        await folder[Symbol.asyncDispose]();
      },
    };
  }

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
    await seen.watch.setFiles([seen.file, seen.other]);
    await writeFile(seen.other, "two");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("sees a file appear whose folder was not there when it was told of it", async () => {
    await using seen = await open();
    const later = join(dirname(seen.file), "later", "watched.yaml");
    await seen.watch.setFiles([seen.file, later]);
    await mkdir(dirname(later));
    await writeFile(later, "two");
    await eventually(() => assert.equal(seen.saves(), 1));
  });

  it("sees what was saved at the moment when it is told of further files", async () => {
    await using seen = await open();
    await writeFile(seen.other, "one");
    writeFileSync(seen.file, "two");
    await seen.watch.setFiles([seen.file, seen.other]);
    await eventually(() => assert.deepEqual(seen.texts, ["two"]));
  });
});
