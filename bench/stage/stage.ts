import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeKey } from "../../src/core/keys/key.ts";
import { freePort } from "../../test/support/redis/redis.ts";
import { type Server, startServer } from "./server.ts";
import { openStore, type Store } from "./store.ts";

/** The backend and the Redis that all variants share, and a folder for their files. */
export type Stage = AsyncDisposable & {
  readonly store: Store;
  readonly backendPort: number;
  /** Another Redis, where the commands of one gateway are to be counted alone; closed with the stage. */
  ownStore(): Promise<Store>;
  /** A new folder. */
  folder(): Promise<string>;
  /** Stops a server with the stage. */
  keep(server: Server): void;
};

const BACKEND = join(import.meta.dirname, "../peers/backend.mjs");

export async function openStage(): Promise<Stage> {
  await using opening = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "tollgate-bench-"));
  opening.defer(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
  const store = await openStore();
  opening.defer(() => store.close());
  const backendPort = await freePort();
  const backend = await startServer({
    command: [process.execPath, BACKEND, String(backendPort)],
    port: backendPort,
    logFile: join(directory, "backend.log"),
  });
  opening.defer(() => backend.stop());
  const opened = opening.move();
  const servers: Server[] = [];
  const stores: Store[] = [];
  opened.defer(async () => {
    await Promise.all(stores.map((each) => each.close()));
  });
  opened.defer(async () => {
    await Promise.all(servers.map((server) => server.stop()));
  });
  let folders = 0;
  return {
    store,
    backendPort,
    ownStore: async () => {
      const own = await openStore();
      stores.push(own);
      return own;
    },
    folder: async () => {
      folders += 1;
      const path = join(directory, String(folders));
      await mkdir(path);
      return path;
    },
    keep: (server) => void servers.push(server),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Keys that nobody has to guess: the benchmark is their only client. */
export function newKeys(count: number): string[] {
  const dice = (max: number) => Math.floor(Math.random() * max);
  return Array.from({ length: count }, () => makeKey("pets", "live", dice));
}
