import { type FileHandle, open, readlink, realpath, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { makeFolder } from "../../base/make-folder.ts";
import { errorCode } from "../../base/messages.ts";
import { openRegularFile } from "../../base/open-regular-file.ts";
import { temporaryOf } from "../../base/own-files.ts";

/**
 * Replaces a file by temporary file, fsync, rename and fsync of the directory
 * (docs/reference/store.md#state-file), so that at every instant, power cuts included, either the
 * old file or the new one is there, complete. A link is followed. Owner and group stay, so that the
 * gateway can read a change made by root. The caller is the only writer, because it holds the lock.
 * Therefore the temporary file has a fixed name, and a writer that was killed leaves at most that
 * one file behind.
 */
export async function replaceFile(path: string, pieces: Iterable<string>): Promise<void> {
  await makeFolder(dirname(path));
  const target = await realPathOf(path);
  const temporary = temporaryOf(target);
  await removeFile(temporary);
  try {
    const handle = await open(temporary, "wx", 0o600);
    try {
      await keepOwner(handle, target);
      for (const piece of pieces) await handle.writeFile(piece);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, target);
  } catch (cause) {
    await removeFile(temporary).catch(nothing);
    throw cause;
  }
  await syncDirectory(dirname(target));
}

/** Whether replaceFile can begin, which leaves the file as it is. The caller holds the lock. */
export async function canReplaceFile(path: string): Promise<boolean> {
  const temporary = temporaryOf(await realPathOf(path));
  try {
    await removeFile(temporary);
    const handle = await open(temporary, "wx", 0o600);
    await handle.close();
    await removeFile(temporary);
    return true;
  } catch {
    return false;
  }
}

/** Renames a file, so that its content is kept. Returns the new name. A link is followed. */
export async function moveAside(file: string, why: "damaged" | "elsewhere"): Promise<string> {
  const target = await realPathOf(file);
  const name = `${target}.${why}.${Date.now()}`;
  await rename(target, name);
  return name;
}

/** The content of a file. Rejects at once if it is a named pipe. */
export async function readRegularFile(path: string): Promise<Buffer> {
  const handle = await openRegularFile(path);
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

/** The text of a file, which errors call `what`; undefined if there is none. */
export async function readTextIfAny(path: string, what: string): Promise<string | undefined> {
  try {
    return (await readRegularFile(path)).toString();
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") return undefined;
    throw new Error(`Cannot read ${what} ${path}: ${fileErrorMessage(cause)}`, { cause });
  }
}

/** One step, which never removes a folder; `rm` looks first, and may find another thing than it saw. */
async function removeFile(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (cause) {
    if (errorCode(cause) !== "ENOENT") throw cause;
  }
}

async function keepOwner(handle: FileHandle, target: string): Promise<void> {
  const owner = await ownerOf(target);
  if (owner !== undefined) await handle.chown(owner.uid, owner.gid).catch(nothing);
}

/** The owner of a file, or the owner of its folder if the file does not exist. */
export async function ownerOf(
  target: string,
): Promise<{ readonly uid: number; readonly gid: number } | undefined> {
  return (await stat(target).catch(nothing)) ?? (await stat(dirname(target)).catch(nothing));
}

/** The rename is safe on disk only after this. Some systems cannot do it, and lose only that. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r").catch(nothing);
  await handle?.sync().catch(nothing);
  await handle?.close();
}

function nothing(): undefined {}

/** Why a file could not be read or written, in words for people: no stack, no secret. */
export function fileErrorMessage(cause: unknown): string {
  const words: Record<string, string> = {
    EACCES: "permission denied (EACCES)",
    EPERM: "not permitted (EPERM)",
    ENOSPC: "the disk is full (ENOSPC)",
    EROFS: "the file system is read-only (EROFS)",
    ENOENT: "it is not there (ENOENT)",
    EISDIR: "it is a directory (EISDIR)",
    ENOTDIR: "a part of its path is not a directory (ENOTDIR)",
  };
  const { syscall, path } = cause as NodeJS.ErrnoException;
  if (errorCode(cause) === "EEXIST" && syscall === "mkdir") {
    return `${path} is no folder; move it away (EEXIST)`;
  }
  return words[String(errorCode(cause))] ?? (cause as Error).message;
}

/** The most links to follow: links may lead in a circle. */
const LINKS_MAX = 40;

/**
 * The one real path of a file that exists or will exist. All writers lock and replace the same
 * file, whatever links they come through. The last link may dangle.
 */
export async function realPathOf(path: string): Promise<string> {
  let wanted = resolve(path);
  for (let links = 0; links < LINKS_MAX; links++) {
    const whole = await realpath(wanted).catch(nothing);
    if (whole !== undefined) return whole;
    const target = await readlink(wanted).catch(nothing);
    if (target === undefined) break;
    wanted = resolve(dirname(wanted), target);
  }
  const folder = await realpath(dirname(wanted)).catch(nothing);
  return folder === undefined ? wanted : join(folder, basename(wanted));
}
