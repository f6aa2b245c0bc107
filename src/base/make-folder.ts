import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Makes a folder, and those above it that are missing. Rejects with the system's error where that
 * cannot be done. Node's recursive mkdir never ends on a file system that says ENOENT of a folder
 * whose parent is there, as /proc does, and keeps a core busy.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    const parent = dirname(path);
    if (codeOf(error) !== "ENOENT" || parent === path) throw error;
    await makeFolder(parent);
    await makeOne(path);
  }
}

/** One that is there already is as good; a file in its place is not. */
async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    const isThere = (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
    if (!isThere) throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}
