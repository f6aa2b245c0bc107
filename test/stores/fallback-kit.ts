import { createFallback, type Fallback } from "../../src/stores/fallback.ts";
import { createRedisStore } from "../../src/stores/redis.ts";
import type { SharedStore } from "../../src/stores/redis-shared.ts";
import type { FailurePolicy, QuotaStore } from "../../src/stores/store.ts";
import type { Told } from "./redis-kit.ts";

export type FallbackHouse = AsyncDisposable & {
  readonly store: QuotaStore;
  readonly gate: Fallback;
  readonly told: Told[];
  /** Messages about the store going and coming, in order. */
  readonly changes: () => string[];
};

export type FallbackSetup = {
  readonly policy?: Partial<FailurePolicy>;
  /** The store's clock, and ours. */
  readonly now?: () => number;
  /** Puts something between the gateway and the way to Redis. */
  readonly through?: (shared: SharedStore) => SharedStore;
  readonly prefix?: string;
};

/** A gateway's store with what stands in for it, at an address of loopback. */
export async function openFallback(
  { port }: { readonly port: number },
  { policy, now, through = (shared) => shared, prefix = "tg" }: FallbackSetup = {},
): Promise<FallbackHouse> {
  const url = `redis://127.0.0.1:${port}`;
  const told: Told[] = [];
  const clock = now === undefined ? {} : { now };
  const report = (level: string, message: string, details?: Record<string, unknown>) => {
    told.push({ level, message, details });
  };
  let gate: Fallback | undefined;
  const store = await createRedisStore({
    address: { kind: "redis", url, shown: url },
    prefix,
    report,
    ...clock,
    gate: (shared, inner) => {
      const options = { prefix, report, ...clock };
      gate = createFallback(through(shared), inner, {
        ...options,
        policy: () => ({ onStoreFailure: "local", expectedGateways: 1, ...policy }),
      });
      return gate;
    },
  });
  return {
    store,
    gate: gate as Fallback,
    told,
    changes: () => told.map(({ message }) => message).filter((each) => each.startsWith("store_")),
    [Symbol.asyncDispose]: () => store.close(),
  };
}
