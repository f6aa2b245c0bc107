import assert from "node:assert/strict";
import type { Redis } from "ioredis";
import type { RedisAddress } from "../../../../src/config/schema/addresses.ts";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { Fallback } from "../../../../src/stores/quotas/outage/fallback.ts";
import type {
  FailurePolicy,
  LateUsage,
  QuotaStore,
} from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { createRedisQuotaStore } from "../../../../src/stores/quotas/redis/store/redis-quota-store.ts";
import { eventually } from "../../../support/poll.ts";
import type { TcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { account, type Told } from "../redis/redis-kit.ts";

export type FallbackHouse = AsyncDisposable & {
  readonly store: QuotaStore;
  readonly gate: Fallback;
  readonly told: Told[];
  /** Counts that rose by late charges. */
  readonly late: LateUsage[];
  /** Messages about the store going and coming, in order. */
  readonly changes: () => string[];
};

export type FallbackSetup = {
  readonly policy?: Partial<FailurePolicy>;
  /** The store's clock, and ours. */
  readonly now?: () => number;
  /** Puts something between the gateway and the way to Redis. */
  readonly through?: (quotaClient: QuotaClient) => QuotaClient;
  readonly prefix?: string;
  readonly accountsMax?: number;
};

export function policyOf(policy: Partial<FailurePolicy> = {}): FailurePolicy {
  return { onStoreFailure: "local", expectedGateways: 1, storeTimeoutMs: 50, ...policy };
}

/** A gateway's store with what stands in for it, at an address or a port of loopback. */
export async function openFallback(
  to: { readonly port: number } | { readonly address: RedisAddress },
  {
    policy,
    now,
    through = (quotaClient) => quotaClient,
    prefix = "tg",
    accountsMax,
  }: FallbackSetup = {},
): Promise<FallbackHouse> {
  const url = "port" in to ? `redis://127.0.0.1:${to.port}` : "";
  const told: Told[] = [];
  const late: LateUsage[] = [];
  const clock = now === undefined ? {} : { now };
  const report = (level: string, message: string, details?: Record<string, unknown>) => {
    told.push({ level, message, details });
  };
  let gate: Fallback | undefined;
  const store = await createRedisQuotaStore({
    address: "port" in to ? { kind: "redis", url, shown: url } : to.address,
    prefix,
    report,
    ...clock,
    historyMs: 400 * 86_400_000,
    onLateUsage: (usage) => late.push(usage),
    outage: (bridged) => {
      const bound = accountsMax === undefined ? {} : { accountsMax };
      const options = { prefix, report, ...clock, ...bound, policy: policyOf(policy) };
      gate = new Fallback({ ...bridged, quotaClient: through(bridged.quotaClient) }, options);
      return gate;
    },
  });
  return {
    store,
    gate: gate as Fallback,
    told,
    late,
    changes: () =>
      told.map(({ message }) => message).filter((each) => /^store_(away|back)$/.test(each)),
    [Symbol.asyncDispose]: () => store.close(),
  };
}

/** Sixty a minute and a thousand a day, without bans. */
export const BOTH: QuotaRequest = {
  limits: [
    { window: "minute", limit: 60 },
    { window: "day", limit: 1000 },
  ],
  bans: undefined,
  requests: 1,
};

/**
 * The counts in the store, by field of the account's hash. The days of its history have what its day
 * counts: nothing here goes over midnight, or both would not be of one day.
 */
export async function counted(redis: Redis, id = "a"): Promise<Record<string, number>> {
  const fields = await redis.hgetall(accountKey("tg", account(id)));
  const counts = Object.fromEntries(
    Object.entries(fields).map(([field, text]) => [field, Number(text.split(" ")[1])]),
  );
  if (counts.d !== undefined) assert.equal(await remembered(redis, id), counts.d, "the history");
  return counts;
}

/** The units in the history of an account. */
export async function remembered(redis: Redis, id = "a"): Promise<number> {
  let units = 0;
  const key = accountKey("tg", account(id)).replace(":{", ":h{");
  for (const month of await redis.keys(`${key.replaceAll(/[[\]]/g, "\\$&")}:*`)) {
    for (const [field, count] of Object.entries(await redis.hgetall(month))) {
      if (Number(field) % 3 !== 2) units += Number(count);
    }
  }
  return units;
}

/** Asks for so many requests, one after the other; gives how many were admitted. */
export async function admit(
  store: QuotaStore,
  requests: number,
  quotaRequest: QuotaRequest = BOTH,
  id = "a",
) {
  let admitted = 0;
  for (let i = 0; i < requests; i++) {
    const answer = await store.charge(account(id), quotaRequest);
    if (!("unavailable" in answer) && answer.admitted) admitted += 1;
  }
  return admitted;
}

/** Refuses connections, and waits until the gateway knows that it has none. */
export async function leave(proxy: TcpProxy, store: QuotaStore): Promise<void> {
  await proxy.refuse();
  await eventually(() => !store.health().ok);
}
