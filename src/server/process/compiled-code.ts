import { mkdtemp, rename, rm } from "node:fs/promises";
import { getCompileCacheDir } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setFlagsFromString } from "node:v8";

/** V8's own default is 8 s. */
const PAUSE_MS = 600_000;
/** Before V8 14 (Node 26), the setting of another pause covers this one. */
const RENAMED_IN_V8 = 14;

/**
 * Keeps compiled code over pauses of up to ten minutes, of which V8 drops a part after 8 s without
 * requests (docs/decisions/hot-path.md). It holds for the whole process: only for Tollgate's own.
 * `v8` is the version of V8, because V8 complains on stderr about unknown settings.
 */
export function keepCompiledCode(v8: string): void {
  const isOld = Number.parseInt(v8, 10) < RENAMED_IN_V8;
  const name = isOld ? "gc-memory-reducer-start-delay-ms" : "memory-reducer-delay-ms";
  setFlagsFromString(`--${name}=${PAUSE_MS}`);
}

/** As many times as the smallest young generation, 1 MiB, fits in the largest, 16 MiB. */
const GROWTH = 16;

/**
 * Has V8 grow the young generation, which it shrinks in pauses, to its full size in one step
 * (docs/decisions/hot-path.md). It holds for the whole process: only for Tollgate's own.
 */
export function growYoungGenerationAtOnce(): void {
  setFlagsFromString(`--semi-space-growth-factor=${GROWTH}`);
}

/**
 * Both settings, for a process that has started. V8 accepts stored code only under the settings that
 * it was compiled under. If they were set before the start, the gateway and the commands would
 * refuse each other's code for the modules that come later, compile it again, and overwrite it.
 */
export function setUpHeap(v8: string): void {
  keepCompiledCode(v8);
  growYoungGenerationAtOnce();
}

const PREFIX = "tollgate-compiled-";
const VARIABLE = "NODE_COMPILE_CACHE";

/** The folder in which processes store their compiled code for processes that start later. */
export type CompileCache = {
  /** Added to the environment of a process; empty if there is no such folder. */
  readonly variables: Readonly<Record<string, string>>;
  close(): Promise<void>;
};

/**
 * A folder that only this user can write to, because its content is executed. It saves more
 * than half of a start: 200 instead of 480 ms of processor (docs/decisions/workers.md). If this
 * process has a compile cache from its environment, that one is used and stays.
 */
export async function openCompileCache(): Promise<CompileCache> {
  const given = getCompileCacheDir();
  // Node adds a folder for its own version to the one that it is given.
  if (given !== undefined)
    return { variables: { [VARIABLE]: dirname(given) }, close: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), PREFIX)).catch(() => undefined);
  if (folder === undefined) return { variables: {}, close: async () => {} };
  return {
    variables: { [VARIABLE]: folder },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

/**
 * For a process whose parent is gone, which is the only one left to remove the folder. Folders of
 * other processes are not touched. The folder gets another name first, because other processes of
 * the same parent write to it as they end.
 */
export async function removeCompileCache(
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const folder = env[VARIABLE];
  if (folder === undefined || !basename(folder).startsWith(PREFIX)) return;
  const removed = `${folder}-removed`;
  try {
    await rename(folder, removed);
    await rm(removed, { recursive: true, force: true });
  } catch {
    // Another process removes it.
  }
}
