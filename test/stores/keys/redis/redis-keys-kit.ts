import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { afterAll, afterEach } from "vitest";
import type { RedisAddress } from "../../../../src/config/schema/addresses.ts";
import type { KeyStore } from "../../../../src/stores/keys/key-store.ts";
import { openRedisKeyStore } from "../../../../src/stores/keys/redis/redis-key-store.ts";
import { eventually } from "../../../support/poll.ts";
import { startRedis, type TestRedis } from "../../../support/redis/redis.ts";

/** The hash with the records. */
export const HASH = "tg:{0}:keys";

export type RedisKeysOfFile = {
  readonly server: TestRedis;
  /** For looking, and for doing damage. */
  readonly redis: Redis;
  /** The lines of the log since the test began, "level: why". */
  readonly told: string[];
  /** Opens a store of keys, which is closed after the test. */
  open(copyFile?: string, watch?: boolean): Promise<KeyStore>;
  /** The same at another address: for a command, or to follow changes (`watch`). */
  openAt(address: RedisAddress, watch?: boolean, copyFile?: string): Promise<KeyStore>;
  /** Closes one before the test is over. */
  close(store: KeyStore): Promise<void>;
  /** A path for a copy of the records that no other test has. */
  copyFile(): string;
};

/** Keys in a Redis for the tests of one file: started anew and emptied after each test. */
export async function redisKeysOfFile(): Promise<RedisKeysOfFile> {
  const server = await startRedis();
  const redis = await server.client();
  const directory = await mkdtemp(join(tmpdir(), "tollgate-keys-redis-"));
  const opened: KeyStore[] = [];
  const told: string[] = [];
  let copies = 0;
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close();
    told.length = 0;
    await server.restart();
    await eventually(() => redis.flushall());
  });
  afterAll(async () => {
    await server.close();
    await rm(directory, { recursive: true, force: true });
  });
  const report = (level: string, event: string, details?: { readonly why?: unknown }) => {
    told.push(`${level}: ${details?.why ?? event}`);
  };
  const keep = (store: KeyStore) => {
    opened.push(store);
    return store;
  };
  return {
    ...{ server, redis, told },
    open: async (copyFile, watch = true) => {
      const { address } = server;
      return keep(await openRedisKeyStore({ address, prefix: "tg", report, watch, copyFile }));
    },
    openAt: async (address, watch = false, copyFile) => {
      return keep(await openRedisKeyStore({ address, prefix: "tg", report, watch, copyFile }));
    },
    close: async (store) => {
      opened.splice(opened.indexOf(store), 1);
      await store.close();
    },
    copyFile: () => {
      copies += 1;
      return join(directory, `copy-${copies}`, "state.json");
    },
  };
}
