import { setTimeout as sleep } from "node:timers/promises";
import { createRedisQuotaStore } from "../../src/stores/quotas/redis/store/redis-quota-store.ts";
import { startRedis } from "../../test/support/redis/redis.ts";
import { say } from "./house.ts";

const AT_ONCE = 2_048;
const LIMITS = [
  { window: "day", limit: 1_000 },
  { window: "month", limit: 10_000 },
] as const;
const MB_PER_100_000 = 30;
const BYTES_MAX = 300;

/** Bytes in use after a collection of garbage: needs --expose-gc, as npm run scale gives. */
async function heldBytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await sleep(50);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** So many accounts with a request each: memory of a gateway's store, and of Redis. */
export async function measureAccounts(count: number): Promise<string[]> {
  await using closing = new AsyncDisposableStack();
  const redis = await startRedis();
  closing.defer(() => redis.close());
  const admin = await redis.client();
  const usedBytes = async () => Number(/used_memory:(\d+)/.exec(await admin.info("memory"))?.[1]);
  const { address } = redis;
  const store = await createRedisQuotaStore({
    ...{ address, prefix: "tg", report: () => undefined, timeoutMs: 5_000 },
  });
  closing.defer(() => store.close());
  const quotaRequest = { limits: LIMITS, bans: undefined, requests: 1 };
  const spend = (i: number) =>
    store.charge({ environment: "production", account: `a_${i}` }, quotaRequest);
  await spend(-1);
  const [heldBefore, usedBefore, sizeBefore] = [
    await heldBytes(),
    await usedBytes(),
    await admin.dbsize(),
  ];
  const startMs = performance.now();
  for (let from = 0; from < count; from += AT_ONCE) {
    const to = Math.min(count, from + AT_ONCE);
    await Promise.all(Array.from({ length: to - from }, (_, i) => spend(from + i)));
  }
  const seconds = (performance.now() - startMs) / 1_000;
  const accounts = (await admin.dbsize()) - sizeBefore;
  const bytes = ((await usedBytes()) - usedBefore) / accounts;
  const held = (await heldBytes()) - heldBefore;
  const mb = held / 1e6 / (count / 100_000);
  say(`${accounts} accounts in ${seconds.toFixed(0)} s, ${bytes.toFixed(0)} bytes of Redis each`);
  say(`the gateway holds ${(held / 1e6).toFixed(0)} MB for them: ${mb.toFixed(1)} MB per 100,000`);
  return [
    ...(accounts === count ? [] : [`${accounts} accounts`]),
    ...(bytes <= BYTES_MAX ? [] : [`${bytes.toFixed(0)} bytes of Redis`]),
    ...(mb <= MB_PER_100_000 ? [] : [`${mb.toFixed(1)} MB per 100,000`]),
  ];
}
