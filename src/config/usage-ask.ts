import { effectiveLimits } from "../core/keys/records.ts";
import type { UsageSubject } from "../core/keys/reports.ts";
import type { QuotaRequest } from "../core/quota/decide.ts";
import { type Limit, mergeLimits } from "../core/quota/windows.ts";
import type { Config } from "./config.ts";
import { environmentOperationLimits } from "./queries/counters.ts";

/** The question of where an account stands; `observe` are the limits of its plan that refuse nothing. */
export type UsageRequest = {
  readonly ask: Omit<QuotaRequest, "units">;
  readonly observe: readonly Limit[];
};

/**
 * The windows of the account, of every operation of its environment, and those that its plan
 * observes. Undefined where its plan is not configured.
 */
export function usageRequest(
  config: Pick<Config, "plans" | "planBounds" | "bans" | "environments">,
  { environment, plan, limits: own }: Pick<UsageSubject, "environment" | "plan" | "limits">,
): UsageRequest | undefined {
  const named = config.plans.get(plan);
  const limits = named === undefined ? [] : effectiveLimits(named, own);
  if (limits.length === 0) return undefined;
  const { observe = [] } = config.planBounds.get(plan) ?? {};
  const operation = environmentOperationLimits(config.environments, environment);
  return {
    ask: { limits: mergeLimits(limits, { operation, observe }), bans: config.bans },
    observe,
  };
}
