import type { Config } from "../config/config.ts";
import type { StoreAddress } from "../config/schema/addresses.ts";
import type { Report } from "../telemetry/log.ts";
import type { KeyStore } from "./interface/key-store.ts";
import type { QuotaStore, ToldReset } from "./interface/quota-store.ts";
import { openKeysFile } from "./keys/file-keys.ts";
import { createMemoryStore } from "./memory/memory-store.ts";

export type OpenOptions = {
  /** Unix milliseconds: the clock of the memory store. */
  readonly now: () => number;
  readonly report: Report;
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
  if (keys.in === "file") return openKeysFile({ path: keys.path, report, watch });
  const { openKeysRedis } = await import("./keys/redis-keys.ts");
  // The configuration was checked: there are none in Redis with `store: memory`.
  const address = store as Exclude<StoreAddress, { kind: "memory" }>;
  return openKeysRedis({ address, prefix: storePrefix, copyFile: stateFile, report, watch });
}

export type QuotaOptions = OpenOptions & {
  readonly serves?: boolean;
  /** Told of resets by commands, each by one gateway of those that share the store. */
  readonly onReset?: (reset: ToldReset) => void;
};

/** The last day on which each key was used, for a command. Rejects when the store is away. */
export async function readLastUsed(
  config: Config,
  keys: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (config.store.kind === "memory") {
    if (config.stateFile === undefined) return new Map();
    const { readLastUsed: readFile } = await import("./memory/memory-notes.ts");
    return readFile(config.stateFile, keys);
  }
  const quotas = await openQuotaStore(config, { now: Date.now, report: () => {} });
  return quotas.notes.lastUsed(keys).finally(() => quotas.close());
}

/**
 * The counters and bans that a configuration names. `serves`: a gateway decides without the store
 * while that is away, and counts among the gateways; a command that looks once does neither.
 */
export async function openQuotaStore(
  config: Config,
  { now, report, serves = false, onReset }: QuotaOptions,
): Promise<QuotaStore> {
  const { store: address, storePrefix: prefix, stateFile, historyMs } = config;
  if (address.kind === "memory") return createMemoryStore({ stateFile, now, report, historyMs });
  const { createRedisStore } = await import("./redis/redis-store.ts");
  const common = { address, prefix, report, historyMs, onReset };
  if (!serves) return createRedisStore(common);
  const { createFallback } = await import("./outage/fallback.ts");
  return createRedisStore({
    ...common,
    outage: (store) => createFallback(store, { policy: config, prefix, report }),
  });
}
