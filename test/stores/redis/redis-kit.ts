import assert from "node:assert/strict";
import type { Ask, BanPolicy } from "../../../src/core/quota/decide.ts";
import type {
  AccountName,
  Answer,
  NoAnswer,
  QuotaStore,
} from "../../../src/stores/interface/quota-store.ts";
import type { StoreFailure } from "../../../src/stores/interface/store-failure.ts";
import { NoOutage } from "../../../src/stores/redis/no-outage.ts";
import { createRedisStore, type RedisStoreOptions } from "../../../src/stores/redis/redis-store.ts";
import type { RedisAddress } from "../../../src/stores/redis/single-link.ts";
import { DEFAULT_BANS } from "../../support/gateway/default-bans.ts";

export function perDay(limit: number, bans: BanPolicy | undefined = DEFAULT_BANS): Ask {
  return { limits: [{ window: "day", limit }], bans, units: 1 };
}

export function account(name: string): AccountName {
  return { environment: "production", account: name };
}

export type Told = { level: string; message: string; details: Record<string, unknown> | undefined };

/** A store, what it reported, and the failures that its requests met. */
export type Opened = {
  readonly store: QuotaStore;
  readonly told: Told[];
  readonly failures: StoreFailure[];
};

class Watched extends NoOutage {
  readonly failures: StoreFailure[] = [];

  override called(_queue: number, failure: StoreFailure | undefined): void {
    if (failure !== undefined) this.failures.push(failure);
  }
}

/** A busy machine stalls for longer than 50 ms: what that means is tested under test/faults. */
const PATIENCE_MS = 20_000;

export async function open(
  address: RedisAddress,
  more: Partial<RedisStoreOptions> = {},
): Promise<Opened> {
  const told: Told[] = [];
  let watched: Watched | undefined;
  const store = await createRedisStore({
    address,
    prefix: "tg",
    report: (level, message, details) => told.push({ level, message, details }),
    outage: ({ shared }) => {
      watched = new Watched(shared, more.patienceMs ?? PATIENCE_MS);
      return watched;
    },
    ...more,
  });
  return { store, told, failures: (watched as Watched | undefined)?.failures ?? [] };
}

export async function spend(store: QuotaStore, name: AccountName, ask: Ask): Promise<Answer> {
  const answer: Answer | NoAnswer = await store.spend(name, ask);
  assert.ok("verdict" in answer, "the store gave no answer");
  return answer;
}
