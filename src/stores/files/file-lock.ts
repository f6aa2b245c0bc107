import { access, chmod, chown, constants, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { makeFolder } from "../../base/make-folder.ts";
import { errorCode } from "../../base/messages.ts";
import { lockOf } from "../../base/own-files.ts";
import { loadSqlite } from "../../base/sqlite.ts";
import { fileErrorMessage, ownerOf, realPathOf } from "./replace-file.ts";

export type FileLock = { release(): void };

const RETRY_MS = 10;
/** How long to retry if the lock file is refused: its maker may not have set its owner yet. */
const REFUSED_MS = 500;
/** SQLITE_BUSY */
const BUSY = 5;
/** SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN */
const NOT_ALLOWED = [3, 8, 14];

/**
 * Takes the lock of `path` against all processes, in the file `path.lock` next to the file that
 * `path` leads to. Undefined if another holder kept it for all of `waitMs`. Rejects if the lock
 * file cannot be made or written.
 *
 * The lock is that of an empty SQLite database: a lock of the kernel on the open file. It ends with
 * the process, however that ends. So there are no stale locks, and no guessing by process id or age
 * whether one is stale; that goes wrong in containers, because every gateway there has the same id.
 * The lock file itself stays: removing it would let two processes lock two files of the same name.
 */
export async function takeLock(path: string, waitMs: number): Promise<FileLock | undefined> {
  await makeFolder(dirname(path)).catch((cause: unknown) => {
    // The folder above exists. A file system that takes no folders, such as /proc, reports this.
    const isMissing = errorCode(cause) === "ENOENT";
    const why = isMissing ? "this file system takes no folders (ENOENT)" : fileErrorMessage(cause);
    const advice = "name a folder that can be written by keys and stateFile, or by TOLLGATE_DATA";
    throw new Error(`Cannot make the directory of ${path}: ${why}; ${advice}`, { cause });
  });
  const target = await realPathOf(path);
  const file = lockOf(target);
  const startedMs = performance.now();
  await makeLockFile(file, { path, target });
  for (;;) {
    const tried = tryLock(file);
    if (tried !== "busy" && tried !== "refused") return tried;
    const waitedMs = performance.now() - startedMs;
    if (tried === "refused" && waitedMs >= REFUSED_MS) {
      throw new Error(`Cannot lock ${file}: ${await whyRefused(file, target)}`);
    }
    if (waitedMs >= waitMs && tried === "busy") return undefined;
    await pause(RETRY_MS * (0.5 + (performance.now() % 1)));
  }
}

/**
 * Makes the lock file if there is none, with access only for the owner of the file that it locks: a
 * first change by root must not lock the service out. Only SQLite ever opens an existing lock file,
 * because closing it elsewhere would release a lock that another call of this process may hold
 * (fcntl, POSIX).
 */
async function makeLockFile(
  file: string,
  { path, target }: { readonly path: string; readonly target: string },
): Promise<void> {
  const owner = await ownerOf(target);
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      if (owner !== undefined) await handle.chown(owner.uid, owner.gid).catch(nothing);
    } finally {
      await handle.close();
    }
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") {
      const why = `it is a link into ${dirname(target)}, which is not there`;
      throw new Error(`Cannot lock ${path}: ${why}; make that folder, or mend the link`, { cause });
    }
    const isThere = errorCode(cause) === "EEXIST";
    if (!isThere) throw new Error(`Cannot lock ${file}: ${fileErrorMessage(cause)}`, { cause });
    await mendLockFile(file, owner);
  }
}

/** A lock file of an older version may have another owner, and may be readable to everyone. */
async function mendLockFile(
  file: string,
  owner: { readonly uid: number; readonly gid: number } | undefined,
): Promise<void> {
  const found = await stat(file).catch(nothing);
  if (found === undefined) return;
  if ((found.mode & 0o777) !== 0o600) await chmod(file, 0o600).catch(nothing);
  const isOther = owner !== undefined && (owner.uid !== found.uid || owner.gid !== found.gid);
  if (isOther) await chown(file, owner.uid, owner.gid).catch(nothing);
}

/** SQLite does not say why it may not write a file. Asks the system, without opening the file. */
async function whyRefused(file: string, target: string): Promise<string> {
  const isFolder = (await stat(file).catch(nothing))?.isDirectory();
  if (isFolder) return fileErrorMessage(Object.assign(new Error(), { code: "EISDIR" }));
  const cause: unknown = await access(file, constants.W_OK).catch((error) => error);
  if (errorCode(cause) === "EROFS") return fileErrorMessage(cause);
  return `this user may not write it. Give it the owner of ${target} (chown --reference)`;
}

/** SQLite shares the lock of a file that it may not write. Writing proves it exclusive. */
function tryLock(file: string): FileLock | "busy" | "refused" {
  let database: DatabaseSync | undefined;
  try {
    database = new (loadSqlite().DatabaseSync)(file, { timeout: 0 });
    database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE; PRAGMA user_version = 1");
    const held = database;
    return { release: () => held.close() };
  } catch (cause) {
    database?.close();
    const code = cause instanceof Error && "errcode" in cause ? Number(cause.errcode) & 0xff : 0;
    if (code === BUSY) return "busy";
    if (NOT_ALLOWED.includes(code)) return "refused";
    throw new Error(`Cannot lock ${file}: ${fileErrorMessage(cause)}`, { cause });
  }
}

function nothing(): undefined {}
