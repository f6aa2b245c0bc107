import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { afterAll, beforeAll } from "vitest";
import { openFileKeyStore } from "../../../src/stores/keys/file/file-key-store.ts";
import { openRedisKeyStore } from "../../../src/stores/keys/redis/redis-key-store.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { describeKeyStore } from "./key-store.ts";

let server: TestRedis;
let redis: Redis;
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-keys-"));
  server = await startRedis();
  redis = await server.client();
});
afterAll(async () => {
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

const path = () => join(directory, "data", "keys.json");
const report = () => {};

describeKeyStore("The file of keys", {
  open: (watch) => openFileKeyStore({ path: path(), report, watch }),
  clear: () => rm(join(directory, "data"), { recursive: true, force: true }),
  writerArgs: () => ["file", path()],
});

describeKeyStore("Redis with the keys", {
  open: (watch) => openRedisKeyStore({ address: server.address, prefix: "tg", report, watch }),
  clear: async () => void (await redis.flushall()),
  writerArgs: () => ["redis", server.url],
});
