import type { Records } from "../core/keys/records.ts";
import { findHolder, type Holder } from "../core/keys/report.ts";
import type { Config } from "./config.ts";

/**
 * The account that `id` names: an account, one of its keys, or the address of requests without a
 * key, `addr:192.0.2.1`, in the first environment that serves such requests
 * (docs/reference/plans.md#public-operations). Undefined for an unknown id.
 */
export function holderIn(config: Config, records: Records, id: string): Holder | undefined {
  const holder = findHolder(records, id);
  if (holder !== undefined || !id.startsWith("addr:")) return holder;
  for (const { name, publicPlan } of config.environments) {
    if (publicPlan === undefined) continue;
    return { account: id, environment: name, plan: publicPlan, limits: [] };
  }
  return undefined;
}
