import type { AccountRecord } from "../../core/keys/records.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { Config } from "../config.ts";

type ShownLimit = Pick<Limit, "window" | "limit">;

/** A plan in the shape of `plans list --json` (docs/reference/commands.md#json). */
export type PlanReport = {
  readonly plan: string;
  readonly custom: boolean;
  readonly limits: readonly ShownLimit[];
  readonly observe: readonly ShownLimit[];
  readonly included: readonly ShownLimit[];
  /** The windows of each meter; none for a meter without a limit. */
  readonly meters: Readonly<Record<string, readonly ShownLimit[]>>;
  readonly concurrent: number | null;
  /** The number of accounts on it, by environment, for environments that have any. */
  readonly environments: Readonly<Record<string, number>>;
  readonly accounts: number;
};

/** The plans in the order of the configuration, with the number of accounts on each. */
export function plansReport(
  { plans, planBounds }: Pick<Config, "plans" | "planBounds">,
  accounts: readonly AccountRecord[],
): PlanReport[] {
  const held = new Map<string, Map<string, number>>();
  for (const { plan, environment } of accounts) {
    const counts = held.get(plan) ?? new Map<string, number>();
    held.set(plan, counts.set(environment, (counts.get(environment) ?? 0) + 1));
  }
  return [...plans].map(([plan, limits]) => {
    const options = planBounds.get(plan);
    const { observe = [], included = [], meters = [], concurrent = null } = options ?? {};
    const counts = held.get(plan) ?? new Map<string, number>();
    return {
      plan,
      custom: limits === "custom",
      limits: limits === "custom" ? [] : limits.map(shown),
      observe: observe.map(shown),
      included: included.map(shown),
      meters: Object.fromEntries(
        meters.map((meter) => [
          meter.name,
          meter.limits.filter(({ observed }) => !observed).map(shown),
        ]),
      ),
      concurrent,
      environments: Object.fromEntries(counts),
      accounts: [...counts.values()].reduce((sum, one) => sum + one, 0),
    };
  });
}

function shown({ window, limit }: Limit): ShownLimit {
  return { window, limit };
}
