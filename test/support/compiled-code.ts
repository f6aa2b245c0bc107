import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * Where Node keeps the code that it has compiled, for the processes of the tests and those that they
 * start: some thousand processes load the same 400 sources. `npm ci` empties it with the rest of
 * node_modules.
 */
export const COMPILED = join(import.meta.dirname, "../../node_modules/.cache/compiled");

/** Tests that run a copy of the sources in a folder of its own leave what nothing asks for again. */
const FILES_MAX = 20_000;

/** Vitest calls this once, before any test. */
export async function setup(): Promise<void> {
  // A run that a test started: the processes of that test's run use the folder now.
  if (process.env.NODE_COMPILE_CACHE === COMPILED) return;
  await emptyIfLarge(COMPILED, FILES_MAX);
}

/**
 * Empties a folder that has more than so many files and folders. Processes may write there
 * meanwhile: what they keep from being removed stays until the next run.
 */
export async function emptyIfLarge(folder: string, filesMax: number): Promise<void> {
  const files = await readdir(folder, { recursive: true }).catch(() => []);
  if (files.length <= filesMax) return;
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}
