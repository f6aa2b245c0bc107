import assert from "node:assert/strict";
import type { TestContext } from "vitest";
import type { RedisAddress } from "../../../../src/config/schema/addresses.ts";
import type { BanPolicy } from "../../../../src/core/quota/bans.ts";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import { DenyDuringOutage } from "../../../../src/stores/quotas/outage-handler.ts";
import type {
  ChargeResult,
  QuotaStore,
  StoreUnavailable,
} from "../../../../src/stores/quotas/quota-store.ts";
import type { RedisQuotaStoreOptions } from "../../../../src/stores/quotas/redis/quota-store-options.ts";
import { createRedisQuotaStore } from "../../../../src/stores/quotas/redis/store/redis-quota-store.ts";
import type { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { startRedis } from "../../../support/redis/redis.ts";

export function perDay(limit: number, bans: BanPolicy | undefined = DEFAULT_BANS): QuotaRequest {
  return { limits: [{ window: "day", limit }], bans, requests: 1 };
}

export function account(name: string): AccountRef {
  return { environment: "production", account: name };
}

export type Told = { level: string; message: string; details: Record<string, unknown> | undefined };

/** A store, what it reported, and the failures that its requests met. */
export type Opened = {
  readonly store: QuotaStore;
  readonly told: Told[];
  readonly failures: StoreFailure[];
};

class Watched extends DenyDuringOutage {
  readonly failures: StoreFailure[] = [];

  override onCallEnd(_queue: number, failure: StoreFailure | undefined): void {
    if (failure !== undefined) this.failures.push(failure);
  }
}

/** A busy machine stalls for longer than 50 ms: what that means is tested under test/faults. */
const TIMEOUT_MS = 20_000;

export async function open(
  address: RedisAddress,
  more: Partial<RedisQuotaStoreOptions> = {},
): Promise<Opened> {
  const told: Told[] = [];
  let watched: Watched | undefined;
  const store = await createRedisQuotaStore({
    address,
    prefix: "tg",
    report: (level, message, details) => told.push({ level, message, details }),
    outage: ({ quotaClient }) => {
      watched = new Watched(quotaClient.ensureClock, more.timeoutMs ?? TIMEOUT_MS);
      return watched;
    },
    ...more,
  });
  return { store, told, failures: (watched as Watched | undefined)?.failures ?? [] };
}

export async function spend(
  store: QuotaStore,
  accountRef: AccountRef,
  quotaRequest: QuotaRequest,
): Promise<ChargeResult> {
  const answer: ChargeResult | StoreUnavailable = await store.charge(accountRef, quotaRequest);
  assert.ok("decision" in answer, "the store gave no answer");
  return answer;
}

/** A Redis for one test. */
export async function startServer(t: TestContext, args: readonly string[] = []) {
  const redis = await startRedis({ args });
  t.onTestFinished(() => redis.close());
  return redis;
}

/** A store on it, for one test. */
export async function openFor(t: TestContext, url: string, more: Parameters<typeof open>[1] = {}) {
  const all = await open({ kind: "redis", url, shown: "redis://…" }, more);
  t.onTestFinished(() => all.store.close());
  return all;
}
