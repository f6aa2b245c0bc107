import type { Config } from "../../config/config.ts";
import { counterLabel } from "../../config/queries/counters.ts";
import { keysOfCounter } from "../../core/keys/caps.ts";
import type { KeyRecord } from "../../core/keys/records.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { AccountRef } from "../quotas/account-ref.ts";
import type { ResetWindow } from "../quotas/quota-store.ts";

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
