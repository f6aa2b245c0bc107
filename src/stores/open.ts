import type { Config } from "../config/config.ts";
import { openKeysFile } from "./keys-file.ts";
import { createMemoryStore } from "./memory.ts";
import { createRedisStore } from "./redis.ts";
import type { KeyStore, QuotaStore, Report } from "./store.ts";

export type OpenOptions = {
  /** Unix milliseconds: the clock of the memory store; Redis has its own. */
  readonly now: () => number;
  readonly report: Report;
};

/** The keys that a configuration names. `watch`: a gateway follows the changes of others. */
export async function openKeyStore(
  { keys, store, storePrefix, stateFile }: Config,
  { report, watch }: OpenOptions & { readonly watch: boolean },
): Promise<KeyStore> {
  if (keys.in === "file") return openKeysFile({ path: keys.path, report, watch });
  void [store, storePrefix, stateFile];
  throw new Error("not yet");
}

/** The counters and bans that a configuration names. */
export async function openQuotaStore(config: Config, options: OpenOptions): Promise<QuotaStore> {
  const { store, storePrefix, stateFile } = config;
  if (store.kind === "memory") return createMemoryStore({ stateFile, ...options });
  return createRedisStore({ address: store, prefix: storePrefix, report: options.report });
}
