import { type PlanCosts, warnOfPlans } from "../description/cost.ts";
import { type PlanMeters, warnOfMeters } from "../description/meters.ts";
import type { Findings } from "../file/findings.ts";
import { buildOperationMeters, buildPlanMeters } from "../schema/meters.ts";
import { limitsByLength } from "../schema/plan-windows.ts";
import type { Draft } from "./draft.ts";
import { warnOfUnreached } from "./validate.ts";

/** The limits and meters of all plans, for comparison with the cost of an operation. */
export function planCostsOf(draft: Pick<Draft, "plans">): PlanCosts {
  return { leastLimits: leastLimitsOf(draft), planMeters: planMetersOf(draft) };
}

function leastLimitsOf({ plans = {} }: Pick<Draft, "plans">): PlanCosts["leastLimits"] {
  const least = Object.entries(plans).flatMap(([name, plan]): [string, number][] => {
    if (plan === "custom") return [];
    const limits = limitsByLength(plan).map(({ limit }) => limit);
    return limits.length === 0 ? [] : [[name, Math.min(...limits)]];
  });
  return new Map(least);
}

/** The meters of each plan that could be read. */
function planMetersOf({ plans = {} }: Pick<Draft, "plans">): PlanMeters {
  return new Map(
    Object.entries(plans).map(([name, plan]) => {
      return [name, plan === "custom" ? [] : buildPlanMeters(plan.meters)];
    }),
  );
}

/** Finds `costs` that no account can pay, and meters in these and in plans that can do less than they seem to. */
export function validateCosts(draft: Draft, findings: Findings, planCosts: PlanCosts): void {
  const { leastLimits, planMeters } = planCosts;
  for (const [name, { costs = [] }] of draft.environments) {
    costs.forEach(({ cost = 1, meters }, i) => {
      const path = ["environments", name, "costs", i];
      warnOfPlans(cost, [...path, "cost"], findings, leastLimits);
      if (meters === undefined) return;
      warnOfMeters(buildOperationMeters(meters), [...path, "meters"], findings, planMeters);
    });
  }
  for (const [plan, meters] of planMeters) {
    for (const { name, limits } of meters) {
      const owner = `the meter ${name} in plan ${plan}`;
      warnOfUnreached(limits, ["plans", plan, "meters", name], owner, findings);
    }
  }
}
