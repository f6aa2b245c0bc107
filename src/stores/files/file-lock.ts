import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { fileTrouble } from "./replace-file.ts";

export type FileLock = { release(): void };

const RETRY_MS = 10;
/** SQLITE_BUSY */
const BUSY = 5;

/**
 * Takes the lock of `path` against all processes, in the file `path.lock`; undefined when another
 * one held it for all of `waitMs`. Rejects when that file cannot be made.
 *
 * The lock is that of an empty SQLite database: a lock of the kernel on the open file. It ends with
 * the process, however that ends, so there are no stale locks and no guessing by process id or age
 * whether one is stale, which goes wrong in containers, where every gateway is process 1. The file
 * itself stays: removing it would let two processes lock two files of one name.
 */
export async function takeLock(path: string, waitMs: number): Promise<FileLock | undefined> {
  await mkdir(dirname(path), { recursive: true }).catch((cause: unknown) => {
    throw new Error(`Cannot make the directory of ${path}: ${fileTrouble(cause)}`, { cause });
  });
  const deadlineMs = performance.now() + waitMs;
  for (;;) {
    const lock = tryLock(`${path}.lock`);
    if (lock !== undefined || performance.now() >= deadlineMs) return lock;
    await pause(RETRY_MS * (0.5 + (performance.now() % 1)));
  }
}

function tryLock(file: string): FileLock | undefined {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { timeout: 0 });
    database.exec("BEGIN EXCLUSIVE");
    const held = database;
    return { release: () => held.close() };
  } catch (cause) {
    database?.close();
    if (cause instanceof Error && "errcode" in cause && cause.errcode === BUSY) return undefined;
    throw new Error(`Cannot lock ${file}: ${fileTrouble(cause)}`, { cause });
  }
}
