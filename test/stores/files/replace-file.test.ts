import assert from "node:assert/strict";
import {
  type FileHandle,
  mkdir,
  mkdtemp,
  open,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { moveAside, replaceFile } from "../../../src/stores/files/replace-file.ts";

let folder: string;
let file: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-synced-"));
  file = join(folder, "keys.json");
});
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(folder, { recursive: true, force: true });
});

/** A file or folder that was synced: its inode and length, and the inode that had the file's name then. */
type Synced = { readonly inode: number; readonly bytes: number; readonly named: number };

/** Looks on while files are synced, which goes on as ever. */
async function watchSyncs(): Promise<readonly Synced[]> {
  const seen: Synced[] = [];
  const handle = await open(file);
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const sync = prototype.sync;
  vi.spyOn(prototype, "sync").mockImplementation(async function (this: FileHandle) {
    const { ino, size } = await this.stat();
    seen.push({ inode: ino, bytes: size, named: (await stat(file)).ino });
    await sync.call(this);
  });
  return seen;
}

it("a file that is replaced is on disk whole before it has the name, and its name after that", async () => {
  await writeFile(file, "old");
  const old = (await stat(file)).ino;
  const synced = await watchSyncs();
  await replaceFile(file, ["a whole ", "new ", "file"]);
  const { ino, size } = await stat(file);
  const directory = (await stat(folder)).ino;
  expect(synced.map(({ inode, named }) => ({ inode, named }))).toEqual([
    { inode: ino, named: old },
    { inode: directory, named: ino },
  ]);
  assert.deepEqual([synced[0]?.bytes, size], [16, 16]);
});

it("a file that is moved aside stays in its folder behind a link, and the next one comes there too", async () => {
  const volume = join(folder, "volume");
  await mkdir(volume);
  const target = join(volume, "state.json");
  await writeFile(target, "old");
  await symlink(target, file);
  const kept = await moveAside(file, "elsewhere");
  await replaceFile(file, ["new"]);
  assert.equal(await readFile(target, "utf8"), "new");
  assert.equal(await readFile(kept, "utf8"), "old");
  assert.match(kept, /\/volume\/state\.json\.elsewhere\.\d+$/);
});
