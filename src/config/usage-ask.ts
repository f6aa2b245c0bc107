import { limitsOf } from "../core/keys/records.ts";
import type { Holder } from "../core/keys/report.ts";
import type { Ask } from "../core/quota/decide.ts";
import { askedLimits, type Limit } from "../core/quota/windows.ts";
import type { Config } from "./config.ts";
import { operationLimits } from "./counters.ts";

/** The question of where an account stands; `observe` are the limits of its plan that refuse nothing. */
export type UsageAsk = { readonly ask: Omit<Ask, "units">; readonly observe: readonly Limit[] };

/**
 * The windows of the account, of every operation of its environment, and those that its plan
 * observes. Undefined where its plan is not configured.
 */
export function usageAsk(
  config: Pick<Config, "plans" | "planBounds" | "bans" | "environments">,
  { environment, plan, limits: own }: Pick<Holder, "environment" | "plan" | "limits">,
): UsageAsk | undefined {
  const named = config.plans.get(plan);
  const limits = named === undefined ? [] : limitsOf(named, own);
  if (limits.length === 0) return undefined;
  const { observe = [] } = config.planBounds.get(plan) ?? {};
  const operation = operationLimits(config.environments, environment);
  return {
    ask: { limits: askedLimits(limits, { operation, observe }), bans: config.bans },
    observe,
  };
}
