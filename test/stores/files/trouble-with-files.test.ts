import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chown,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { NO_RECORDS } from "../../../src/core/keys/records.ts";
import { DamagedFileError } from "../../../src/stores/files/damaged-file.ts";
import { takeLock } from "../../../src/stores/files/file-lock.ts";
import { fileErrorMessage, replaceFile } from "../../../src/stores/files/replace-file.ts";
import { openDiskCopy } from "../../../src/stores/keys/file/disk-copy.ts";
import { encodeKeyFile } from "../../../src/stores/keys/file/file-format.ts";
import { openFileKeyStore } from "../../../src/stores/keys/file/file-key-store.ts";
import { readLastUsedFile } from "../../../src/stores/quotas/memory/memory-activity.ts";
import { readState } from "../../../src/stores/quotas/memory/state-file.ts";
import { eventually } from "../../support/poll.ts";
import { record, withAccounts } from "../keys/record.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-files-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** The reason that a line tells, or its name where it tells none. */
function whyOf(event: string, details?: { readonly why?: unknown }): string {
  return String(details?.why ?? event);
}

describe("a file that cannot be replaced", () => {
  it("is left as it was, with no temporary file beside it", async () => {
    await mkdir(join(folder, "keys.json", "in-the-way"), { recursive: true });
    await assert.rejects(replaceFile(join(folder, "keys.json"), ["new"]), { code: "EISDIR" });
    assert.deepEqual(await readdir(folder), ["keys.json"]);
    assert.deepEqual(await readdir(join(folder, "keys.json")), ["in-the-way"]);
  });

  it("is left as it was where a folder has the name of the temporary file, and so is the folder", async () => {
    const file = join(folder, "keys.json");
    await writeFile(file, "old");
    await mkdir(`${file}.tmp`);
    await assert.rejects(replaceFile(file, ["new"]), { code: "EISDIR" });
    assert.deepEqual(await readdir(folder), ["keys.json", "keys.json.tmp"]);
    assert.equal(await readFile(file, "utf8"), "old");
  });

  it("keeps its owner when it is replaced", async () => {
    const file = join(folder, "keys.json");
    await writeFile(file, "old");
    // Only root may give files away; for anybody else this is its own file.
    const owner = process.getuid?.() === 0 ? 12_345 : Number(process.getuid?.());
    await chown(file, owner, Number(process.getgid?.()));
    await replaceFile(file, ["new"]);
    assert.equal(await readFile(file, "utf8"), "new");
    assert.equal((await stat(file)).uid, owner);
  });
});

describe("trouble with a file", () => {
  it("is told in words, with its code where it has one", () => {
    const coded = Object.assign(new Error("a path and more"), { code: "ENOSPC" });
    assert.equal(fileErrorMessage(coded), "the disk is full (ENOSPC)");
    assert.equal(fileErrorMessage(Object.assign(new Error("odd"), { code: "EODD" })), "odd");
    assert.equal(
      fileErrorMessage(new Error("another process keeps it locked")),
      "another process keeps it locked",
    );
  });

  it("of the lock is told: no directory to be made, no database to be opened", async () => {
    await writeFile(join(folder, "file"), "");
    await assert.rejects(
      takeLock(join(folder, "file", "below", "keys.json"), 0),
      /^Error: Cannot make the directory of .*ENOTDIR/,
    );
    await mkdir(join(folder, "keys.json.lock"));
    await assert.rejects(
      takeLock(join(folder, "keys.json"), 0),
      /^Error: Cannot lock .*keys\.json\.lock: it is a directory \(EISDIR\)$/,
    );
  });

  it("of a link into a folder that is not there, and of a file in the place of a folder, says what to do", async () => {
    const link = join(folder, "state.json");
    await symlink(join(folder, "nowhere", "state.json"), link);
    await assert.rejects(takeLock(link, 0), {
      message: `Cannot lock ${link}: it is a link into ${join(folder, "nowhere")}, which is not there; make that folder, or mend the link`,
    });
    const history = join(folder, "state.history");
    await writeFile(history, "");
    const cause: unknown = await replaceFile(join(history, "day.jsonl"), []).catch(
      (error) => error,
    );
    assert.equal(fileErrorMessage(cause), `${history} is no folder; move it away (EEXIST)`);
  });

  it("of the state file is told where it cannot be read", async () => {
    await assert.rejects(readState(folder), /^Error: Cannot read the state file .*EISDIR/);
  });

  it("of a pipe in the place of a file is told at once, though nothing ever writes to it", async () => {
    const path = join(folder, "pipe");
    execFileSync("mkfifo", [path]);
    const report = () => {};
    const opened = [
      () => openFileKeyStore({ path, watch: true, report }),
      () => openDiskCopy(path, report),
      () => readState(path),
      () => readLastUsedFile(join(folder, "pipe.json"), []),
    ];
    execFileSync("mkfifo", [join(folder, "pipe.notes.json")]);
    for (const open of opened) {
      await assert.rejects(open, /^Error: Cannot read the .*pipe.*: it is a pipe; name a file$/);
    }
  });

  it("of the copy of keys is told once while another process keeps it locked, and then no more", async () => {
    const file = join(folder, "state.json");
    const held = await takeLock(file, 0);
    assert.ok(held);
    const told: string[] = [];
    const copy = await openDiskCopy(
      file,
      (_level, event, details) => told.push(whyOf(event, details)),
      { lockWaitMs: 100 },
    );
    copy.write(withAccounts(record("one")));
    await eventually(() => assert.equal(told.length, 1), { withinMs: 60_000, everyMs: 50 });
    assert.match(
      `${told[0]}`,
      /^Cannot write the copy of the keys to .*another process keeps it locked$/,
    );
    held.release();
    const records = withAccounts(record("one"), record("two"));
    copy.write(records);
    await copy.close();
    assert.deepEqual(told.slice(1), ["keys_copy_written"]);
    assert.equal(await readFile(file, "utf8"), [...encodeKeyFile(records)].join(""));
  });
});

describe("a key file that is damaged under a gateway", () => {
  it("is told once, refuses every change, and is named by line and column", async () => {
    const path = join(folder, "keys.json");
    const good = [...encodeKeyFile(withAccounts(record("one"), record("two")))].join("");
    await writeFile(path, good);
    const told: string[] = [];
    const store = await openFileKeyStore({
      path,
      watch: true,
      report: (_level, event, details) => told.push(whyOf(event, details)),
    });
    try {
      const damaged = good.replace('"id":"two"', '"id":"two');
      await writeFile(path, damaged);
      await eventually(() => assert.equal(store.health().ok, false));
      const change = store.change(() => ({ records: NO_RECORDS, result: undefined }));
      await assert.rejects(change, (error) => {
        assert.ok(error instanceof DamagedFileError);
        assert.match(error.message, /keys\.json:3:\d+: Cannot read this as JSON/);
        return true;
      });
      await new Promise((resolve) => setTimeout(resolve, 700));
      assert.equal(told.length, 1, `${told}`);
      assert.equal(store.records().keys.length, 2);
      assert.equal(await readFile(path, "utf8"), damaged);
    } finally {
      await store.close();
    }
  });
});
