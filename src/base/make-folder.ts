import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "./messages.ts";

/**
 * Makes a folder and its missing parents. Rejects with the system's error if that fails. Node's
 * recursive mkdir never ends, and keeps a core busy, on a file system such as /proc that reports
 * ENOENT for a folder whose parent exists.
 */
export async function makeFolder(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    const parent = dirname(path);
    if (errorCode(error) !== "ENOENT" || parent === path) throw error;
    await makeFolder(parent);
    await makeOne(path);
  }
}

/** Makes one folder. An existing folder is accepted; a file in its place is not. */
async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    const isThere = (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
    if (!isThere) throw error;
  }
}
