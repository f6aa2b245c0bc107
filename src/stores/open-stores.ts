import { errorMessage } from "../base/messages.ts";
import type { Config } from "../config/config.ts";
import type { RedisAddress } from "../config/schema/addresses.ts";
import type { Records } from "../core/keys/records.ts";
import type { Reporter } from "../telemetry/log/log.ts";
import { openFileKeyStore } from "./keys/file/file-key-store.ts";
import type { KeyStore } from "./keys/key-store.ts";
import { createMemoryQuotaStore } from "./quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "./quotas/quota-store.ts";
import type { SharedStoreCallbacks } from "./quotas/redis/quota-store-options.ts";

export type OpenOptions = {
  /** Unix milliseconds: the clock of the memory store. */
  readonly now: () => number;
  readonly report: Reporter;
};

type KeyOptions = OpenOptions & {
  readonly watch: boolean;
  /**
   * Whether it looks after the state file where the store is Redis: keeps the last copy of records in
   * Redis there, or moves counts aside. By default, one that watches does.
   */
  readonly writesCopy?: boolean;
  readonly inForce?: Records | undefined;
};

/**
 * Opens the key store that a configuration names. `watch` follows the changes of other processes: a
 * gateway needs that, a command that reads once does not. `inForce`: the records that another process
 * of this gateway serves, which stay in use until they can be read. Rejects if the records are
 * damaged or cannot be read. The code that talks to Redis is loaded only if the configuration has an address
 * of a Redis.
 */
export async function openKeyStore(
  { keys, store, storePrefix, stateFile }: Config,
  { now, report, watch, inForce, writesCopy = true }: KeyOptions,
): Promise<KeyStore> {
  if (keys.in === "file") {
    const opened = await openFileKeyStore({ path: keys.path, report, watch, inForce });
    if (store.kind !== "memory" && watch && writesCopy) {
      const { keepRunningCounters } = await import("./quotas/memory/left-state.ts");
      await keepRunningCounters(stateFile, now(), report);
    }
    return opened;
  }
  const { openRedisKeyStore } = await import("./keys/redis/redis-key-store.ts");
  // The configuration was checked: there are none in Redis with `store: memory`.
  const address = store as RedisAddress;
  const place = { address, prefix: storePrefix, copyFile: stateFile };
  return openRedisKeyStore({ ...place, report, watch, inForce, writesCopy });
}

export type QuotaOptions = OpenOptions & SharedStoreCallbacks & { readonly serves?: boolean };

/** The last day on which each key was used, for a command. Rejects if the store is unreachable. */
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
 * Opens the quota store that a configuration names: counters and bans. `serves`: a gateway decides
 * without the store while it is unreachable, and counts among the gateways. A command that looks
 * once does neither.
 */
export async function openQuotaStore(
  config: Config,
  { now, report, serves = false, ...callbacks }: QuotaOptions,
): Promise<QuotaStore> {
  const { store: address, storePrefix: prefix, stateFile, historyMs, bans } = config;
  if (address.kind === "memory") {
    return createMemoryQuotaStore({ stateFile, now, report, historyMs, bans, ...callbacks });
  }
  const { createRedisQuotaStore } = await import("./quotas/redis/store/redis-quota-store.ts");
  const common = { address, prefix, report, historyMs, ...callbacks };
  if (!serves) return createRedisQuotaStore(common);
  const { Fallback } = await import("./quotas/outage/fallback.ts");
  return createRedisQuotaStore({
    ...common,
    outage: (inputs) => new Fallback(inputs, { policy: config, prefix, report }),
  });
}

export type FailoverOutcome = Awaited<ReturnType<typeof failOverStore>>;

/** So many of them write in each bucket of a Cluster, or in nearly each. */
const PROBES = 64;
const PROBE_LIFE_MS = 1_000;

/** Why the store cannot be reached, or does not take what a gateway writes; undefined if it does. */
export async function whyUnusable(
  address: RedisAddress,
  prefix: string,
): Promise<string | undefined> {
  const { createRedisQuotaStore } = await import("./quotas/redis/store/redis-quota-store.ts");
  const quotas = await createRedisQuotaStore({ address, prefix, report: () => {} });
  try {
    const { ok, why } = quotas.health();
    if (!ok) return why;
    const write = (i: number) => quotas.markFirst(`probe ${i}`, PROBE_LIFE_MS);
    // One refusal of a single server is enough.
    await write(0);
    await Promise.all(Array.from({ length: PROBES }, (_, i) => write(i)));
    return undefined;
  } catch (error) {
    return errorMessage(error);
  } finally {
    await quotas.close();
  }
}

/** Removes everything that a store has with this prefix. Rejects if it cannot be reached. */
export async function removeStore(address: RedisAddress, prefix: string): Promise<void> {
  const [{ connectRedis }, { removeKeys }] = await Promise.all([
    import("./redis/engines/single-link.ts"),
    import("./redis/scan-keys.ts"),
  ]);
  const link = connectRedis({ address });
  try {
    await link.tried;
    await removeKeys(link, prefix);
  } finally {
    await link.close();
  }
}

/** Has Sentinel or a Cluster replace a healthy master, and waits until that is done. */
export async function failOverStore(address: RedisAddress) {
  const { failOver } = await import("./redis/engines/single-link.ts");
  return failOver({ address });
}
