import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setFlagsFromString } from "node:v8";

/** V8's own is 8 s. */
const PAUSE_MS = 600_000;
/** V8 14, of Node 26, made a setting of its own of it; the older name means another pause there. */
const RENAMED_IN_V8 = 14;

/**
 * Keeps compiled code over pauses of up to ten minutes. V8 gives memory back once a process has been
 * idle for 8 s, and collects the hidden classes of requests, connections and answers if there is none
 * just then; with them goes the code of some 190 functions, and the first half-second of traffic after
 * it takes twice the CPU (docs/decisions/hot-path.md). Until then the heap keeps the size that traffic
 * gave it. For processes of our own: it holds for the whole process. `v8` is the version of V8: of a
 * setting that it does not know it complains on stderr.
 */
export function keepCompiledCode(v8: string): void {
  const isOld = Number.parseInt(v8, 10) < RENAMED_IN_V8;
  const name = isOld ? "gc-memory-reducer-start-delay-ms" : "memory-reducer-delay-ms";
  setFlagsFromString(`--${name}=${PAUSE_MS}`);
}

const PREFIX = "tollgate-compiled-";
const VARIABLE = "NODE_COMPILE_CACHE";

/** The folder in which processes leave their compiled code for those that are started later. */
export type CompileCache = {
  /** For the environment of a process; empty where there is no such place. */
  readonly variables: Readonly<Record<string, string>>;
  close(): Promise<void>;
};

/**
 * A folder that only this user can write to, because its content is executed. It saves more
 * than half of a start: 200 instead of 480 ms of processor (docs/decisions/workers.md).
 */
export async function openCompileCache(): Promise<CompileCache> {
  const folder = await mkdtemp(join(tmpdir(), PREFIX)).catch(() => undefined);
  if (folder === undefined) return { variables: {}, close: async () => {} };
  return {
    variables: { [VARIABLE]: folder },
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

/** For a process whose parent is gone: it alone can remove the folder. Another's is left alone. */
export async function removeCompileCache(
  env: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const folder = env[VARIABLE];
  if (folder === undefined || !basename(folder).startsWith(PREFIX)) return;
  await rm(folder, { recursive: true, force: true }).catch(() => {});
}
