import { type PlanMeters, warnOfMeters } from "../description/meters.ts";
import type { Findings } from "../file/findings.ts";
import { buildOperationMeters, buildPlanMeters } from "../schema/meters.ts";
import type { Draft } from "./draft.ts";

/** The meters of each plan that could be read. */
export function planMetersOf({ plans = {} }: Pick<Draft, "plans">): PlanMeters {
  return new Map(
    Object.entries(plans).map(([name, plan]) => {
      return [name, plan === "custom" ? [] : buildPlanMeters(plan.meters)];
    }),
  );
}

/** Finds meters in `costs` and in plans that can do less than they seem to. */
export function validateMeters(draft: Draft, findings: Findings, planMeters: PlanMeters): void {
  for (const [name, { costs = [] }] of draft.environments) {
    costs.forEach(({ meters }, i) => {
      if (meters === undefined) return;
      const path = ["environments", name, "costs", i, "meters"];
      warnOfMeters(buildOperationMeters(meters), path, findings, planMeters);
    });
  }
  for (const [plan, meters] of planMeters) {
    for (const { name, limits } of meters) {
      for (const [i, { window, limit }] of limits.entries()) {
        const shorter = limits.slice(0, i).find((one) => one.limit > limit);
        if (shorter === undefined) continue;
        findings.warning(
          ["plans", plan, "meters", name, window],
          `The ${shorter.window} limit of the meter ${name} in plan ${plan}, ${shorter.limit}, is never reached: the ${window} allows ${limit} in all; raise one or lower the other`,
        );
      }
    }
  }
}
