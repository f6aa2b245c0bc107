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
  const files = await readdir(COMPILED, { recursive: true }).catch(() => []);
  if (files.length > FILES_MAX) await rm(COMPILED, { recursive: true, force: true });
}
