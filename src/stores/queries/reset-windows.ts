import type { Config } from "../../config/config.ts";
import { counterLabel, resolveCounters } from "../../config/queries/counters.ts";
import { capParts, keysOfCounter } from "../../core/keys/caps.ts";
import type { KeyRecord } from "../../core/keys/records.ts";
import type { UsageSubject } from "../../core/keys/usage-reports.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { AccountRef } from "../quotas/account-ref.ts";
import type { ResetWindow } from "../quotas/admin-changes.ts";
import type { OnMissing, QuotaAdmin } from "../quotas/quota-store.ts";

type ResetSources = {
  readonly quotas: Pick<QuotaAdmin, "reset">;
  readonly config: Config;
  readonly keys: readonly KeyRecord[];
};

/**
 * Sets windows of an account to 0: those named, or all current ones. `id` is the account or the key
 * whose caps are meant. `told` are the windows that changed, as people name them.
 */
export async function resetWindows(
  { quotas, config, keys }: ResetSources,
  { account, environment, calendar }: UsageSubject,
  { id, windows }: { readonly id: string; readonly windows: readonly string[] | undefined },
  onMissing: OnMissing,
) {
  const caps = capParts(keys, { account, id });
  const known = resolveCounters(config, { environment, caps }, windows ?? []);
  if (!known.ok) return known;
  const scope = { counters: windows && known.counters, calendar };
  const done = await quotas.reset({ account, environment }, scope, onMissing);
  const told = done.map(({ counter, units }) => {
    return { window: counterLabel(config, environment, counter), units };
  });
  return { ok: true, done, told } as const;
}

type Reset = {
  readonly accountRef: AccountRef;
  readonly windows: readonly ResetWindow[];
  /** If a command made the reset: milliseconds of the store's clock. */
  readonly resetAt?: number;
};

/**
 * Logs the windows of an account that were set to 0, for an audit. Several keys have a `key.day`, so
 * that of a cap is logged with its keys. Windows of operations that are not in the configuration
 * keep the name of their counter.
 */
export function logReset(
  log: Pick<Log, "info">,
  { accountRef: { account, environment }, windows, ...at }: Reset,
  config: Pick<Config, "environments">,
  keys: readonly KeyRecord[],
): void {
  const own = keys.filter((key) => key.account === account);
  const told = windows.map(({ counter, units }) => {
    const capped = keysOfCounter(own, counter);
    const window = counterLabel(config, environment, counter);
    return { window, units, ...(capped.length > 0 && { keys: capped }) };
  });
  log.info("account_reset", { account, env: environment, ...at, windows: told });
}
