import { chmod, chown, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { makeFolder } from "../../base/make-folder.ts";
import { loadSqlite } from "../../base/sqlite.ts";
import { fileErrorMessage, ownerOf, realPathOf } from "./replace-file.ts";

export type FileLock = { release(): void };

const RETRY_MS = 10;
/** No process may open a lock file before it has its owner. */
const REFUSED_MS = 500;
/** SQLITE_BUSY */
const BUSY = 5;
/** SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN */
const NOT_ALLOWED = [3, 8, 14];

/**
 * Takes the lock of `path` against all processes, in the file `path.lock` beside the file that
 * `path` leads to; undefined when another one held it for all of `waitMs`. Rejects when that file
 * cannot be made or written.
 *
 * The lock is that of an empty SQLite database: a lock of the kernel on the open file. It ends with
 * the process, however that ends, so there are no stale locks and no guessing by process id or age
 * whether one is stale, which goes wrong in containers, where every gateway is process 1. The file
 * itself stays: removing it would let two processes lock two files of one name.
 */
export async function takeLock(path: string, waitMs: number): Promise<FileLock | undefined> {
  await makeFolder(dirname(path)).catch((cause: unknown) => {
    // The folder above is there: a file system that takes no folders says so, as /proc does.
    const isMissing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
    const why = isMissing ? "this file system takes no folders (ENOENT)" : fileErrorMessage(cause);
    const advice = "name a folder that can be written by keys and stateFile, or by TOLLGATE_DATA";
    throw new Error(`Cannot make the directory of ${path}: ${why}; ${advice}`, { cause });
  });
  const target = await realPathOf(path);
  const file = `${target}.lock`;
  const startedMs = performance.now();
  await makeLockFile(file, target);
  for (;;) {
    const tried = tryLock(file);
    if (tried !== "busy" && tried !== "refused") return tried;
    const waitedMs = performance.now() - startedMs;
    if (tried === "refused" && waitedMs >= REFUSED_MS) {
      throw new Error(
        `Cannot lock ${file}: this user may not write it. Give it the owner of ${target} (chown --reference)`,
      );
    }
    if (waitedMs >= waitMs && tried === "busy") return undefined;
    await pause(RETRY_MS * (0.5 + (performance.now() % 1)));
  }
}

/**
 * Makes the lock file where there is none, for the owner of the file that it locks alone: what root
 * does first must not lock the service out. It is never opened otherwise than by SQLite, as closing
 * it would let go of the lock that this process may hold by another call (fcntl, POSIX).
 */
async function makeLockFile(file: string, target: string): Promise<void> {
  const owner = await ownerOf(target);
  try {
    const handle = await open(file, "wx", 0o600);
    try {
      if (owner !== undefined) await handle.chown(owner.uid, owner.gid).catch(nothing);
    } finally {
      await handle.close();
    }
  } catch (cause) {
    const isThere = cause instanceof Error && "code" in cause && cause.code === "EEXIST";
    if (!isThere) throw new Error(`Cannot lock ${file}: ${fileErrorMessage(cause)}`, { cause });
    await mendLockFile(file, owner);
  }
}

/** One that an older version left may have another owner, and may be anyone's to read. */
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

/** SQLite opens what it may not write for reading, and shares such a lock: writing proves it ours. */
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
