import type { Redis } from "ioredis";
import { afterAll, afterEach } from "vitest";
import { openTcpProxy, type TcpProxy } from "../wire/tcp-proxy.ts";
import { startRedis, type TestRedis } from "./redis.ts";

export type FileRedis = {
  readonly server: TestRedis;
  /** For looking, and for doing damage. */
  readonly redis: Redis;
};

/**
 * A server for the tests of one file: emptied after each test, closed after the last. Work that a
 * test file must undo or close before that goes into an `afterEach` of its own, ahead of this call.
 */
export async function useRedis(): Promise<FileRedis> {
  const server = await startRedis();
  const redis = await server.client();
  afterEach(async () => {
    await redis.flushall();
  });
  afterAll(() => server.close());
  return { server, redis };
}

/** The same behind a proxy, which is healed after each test. */
export async function useProxiedRedis(): Promise<FileRedis & { readonly proxy: TcpProxy }> {
  const server = await startRedis();
  const redis = await server.client();
  const proxy = await openTcpProxy(server);
  afterEach(async () => {
    proxy.behave({});
    await proxy.listen().catch(() => undefined);
    await redis.flushall();
  });
  afterAll(async () => {
    await proxy.close();
    await server.close();
  });
  return { server, redis, proxy };
}
