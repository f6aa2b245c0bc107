import type { Config } from "../config/config.ts";
import type { StoreAddress } from "../config/schema/addresses.ts";
import type { Reporter } from "../telemetry/log/log.ts";
import { openFileKeyStore } from "./keys/file/file-key-store.ts";
import type { KeyStore } from "./keys/key-store.ts";
import { createMemoryQuotaStore } from "./quotas/memory/memory-quota-store.ts";
import type { AdminEvent, LateUsage, QuotaStore } from "./quotas/quota-store.ts";

export type OpenOptions = {
  /** Unix milliseconds: the clock of the memory store. */
  readonly now: () => number;
  readonly report: Reporter;
};

/**
 * The keys that a configuration names. `watch` follows the changes of others: a gateway does, a
 * command that reads once need not. Rejects when they are damaged or cannot be read. The code that
 * talks to Redis is loaded only where an address of one is named.
 */
export async function openKeyStore(
  { keys, store, storePrefix, stateFile }: Config,
  { report, watch }: OpenOptions & { readonly watch: boolean },
): Promise<KeyStore> {
  if (keys.in === "file") return openFileKeyStore({ path: keys.path, report, watch });
  const { openRedisKeyStore } = await import("./keys/redis/redis-key-store.ts");
  // The configuration was checked: there are none in Redis with `store: memory`.
  const address = store as Exclude<StoreAddress, { kind: "memory" }>;
  return openRedisKeyStore({ address, prefix: storePrefix, copyFile: stateFile, report, watch });
}

export type QuotaOptions = OpenOptions & {
  readonly serves?: boolean;
  /** Called with the resets and bans by commands, each at one gateway of those that share the store. */
  readonly onAdminEvent?: (event: AdminEvent) => void;
  /** Told of counts that rose by requests that were decided while the store was away. */
  readonly onLateUsage?: (usage: LateUsage) => void;
};

/** The last day on which each key was used, for a command. Rejects when the store is away. */
export async function lastUsedOf(
  config: Config,
  keys: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (config.store.kind === "memory") {
    if (config.stateFile === undefined) return new Map();
    const { readLastUsedFile: readFile } = await import("./quotas/memory/memory-activity.ts");
    return readFile(config.stateFile, keys);
  }
  const quotas = await openQuotaStore(config, { now: Date.now, report: () => {} });
  return quotas.activity.lastUsed(keys).finally(() => quotas.close());
}

/**
 * The counters and bans that a configuration names. `serves`: a gateway decides without the store
 * while that is away, and counts among the gateways; a command that looks once does neither.
 */
export async function openQuotaStore(
  config: Config,
  { now, report, serves = false, onAdminEvent, onLateUsage }: QuotaOptions,
): Promise<QuotaStore> {
  const { store: address, storePrefix: prefix, stateFile, historyMs } = config;
  if (address.kind === "memory")
    return createMemoryQuotaStore({ stateFile, now, report, historyMs });
  const { createRedisQuotaStore } = await import("./quotas/redis/redis-quota-store.ts");
  const common = { address, prefix, report, historyMs, onAdminEvent, onLateUsage };
  if (!serves) return createRedisQuotaStore(common);
  const { createFallback } = await import("./quotas/outage/fallback.ts");
  return createRedisQuotaStore({
    ...common,
    outage: (store) => createFallback(store, { policy: config, prefix, report }),
  });
}

export type RedisAddress = Exclude<StoreAddress, { kind: "memory" }>;
export type FailoverOutcome = Awaited<ReturnType<typeof failOverStore>>;

/** Has Sentinel or a Cluster replace a healthy master, and waits for the end of it. */
export async function failOverStore(address: RedisAddress) {
  const { failOver } = await import("./redis/single-link.ts");
  return failOver({ address });
}
