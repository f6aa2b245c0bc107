import type { Config } from "../../config/config.ts";
import { deprecatedOperations } from "../../config/queries/deprecations.ts";
import { openQuotaStore } from "../../stores/open-stores.ts";
import type { DeprecatedCall } from "../../telemetry/history/deprecated-calls.ts";
import type { OperationResult } from "../access/account-operations.ts";

/** The calls of deprecated operations that all gateways told the store they share. */
export async function readDeprecatedCalls(
  config: Config,
): Promise<OperationResult<readonly DeprecatedCall[]>> {
  const quotas = await openQuotaStore(config, { now: Date.now, report: () => {} });
  try {
    return { ok: true, value: await quotas.notes.calls(deprecatedOperations(config)) };
  } catch (error) {
    const where = config.store.kind === "memory" ? "memory" : config.store.shown;
    const why = error instanceof Error ? error.message : String(error);
    return { ok: false, message: `Cannot ask the store ${where}: ${why}` };
  } finally {
    await quotas.close();
  }
}
