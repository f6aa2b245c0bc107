import type { Config } from "../../config/config.ts";
import { effectiveLimits } from "../../core/keys/records.ts";
import type { UsageSubject } from "../../core/keys/reports.ts";
import { WINDOW_NAMES } from "../../core/quota/windows.ts";
import type { ImposedBan } from "../quotas/quota-store.ts";

/** The ban that people impose on an account, told by its longest window; or why there can be none. */
export function imposedBan(
  { bans, plans }: Pick<Config, "bans" | "plans">,
  { account, plan, limits }: UsageSubject,
  lengthMs: number,
): ImposedBan | string {
  if (bans === undefined) return "Bans are off: set bans in the configuration";
  const named = plans.get(plan);
  const windows = new Set(effectiveLimits(named ?? [], limits).map(({ window }) => window));
  const window = WINDOW_NAMES.findLast((name) => windows.has(name));
  if (window === undefined) return `The plan of account ${account} is not configured`;
  return { lengthMs, window, keptMs: bans.forgetAfterMs };
}
