import { setTimeout as sleep } from "node:timers/promises";
import type { TestRedis } from "../support/redis/redis.ts";

/** Less than the 50 ms after which a call is late: a gateway asks at another instant. */
const SLOW_MS = 30;
const PING_EVERY_MS = 10;

type Ping = { readonly atMs: number; readonly tookMs: number };

export type RedisWatch = AsyncDisposable & {
  /** How many answers were slow of those that were asked for and came outside of a span. */
  slow(outside?: { readonly fromMs: number; readonly toMs: number }): number;
};

/**
 * Asks a Redis all the time, besides what is tested: whether it and this process were so slow by
 * themselves that a gateway may have taken it for away. Where it gives no answer, that is none.
 */
export async function watchRedis(server: TestRedis): Promise<RedisWatch> {
  const redis = await server.client({
    ...{ enableOfflineQueue: false, maxRetriesPerRequest: 0, retryStrategy: () => 10 },
  });
  const pings: Ping[] = [];
  let running = true;
  const watching = (async () => {
    while (running) {
      const atMs = performance.now();
      const told = await redis.ping().catch(() => undefined);
      if (told !== undefined) pings.push({ atMs, tookMs: performance.now() - atMs });
      await sleep(PING_EVERY_MS);
    }
  })();
  return {
    slow: (outside) => {
      const { fromMs, toMs } = outside ?? { fromMs: Number.POSITIVE_INFINITY, toMs: 0 };
      return pings.filter(({ atMs, tookMs }) => {
        return tookMs > SLOW_MS && (atMs + tookMs < fromMs || atMs > toMs);
      }).length;
    },
    [Symbol.asyncDispose]: async () => {
      running = false;
      redis.disconnect();
      await watching;
    },
  };
}
