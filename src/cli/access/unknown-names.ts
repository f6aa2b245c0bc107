import { quoteValue } from "../../base/messages.ts";
import type { Invocation } from "../framework/verb.ts";

type Environments = { readonly environments: readonly { readonly name: string }[] };
type Plans = { readonly plans: ReadonlyMap<string, unknown> };
type Accounts = { readonly accounts: readonly { readonly plan: string }[] };

/** The error for an environment that is not configured. */
export function unknownEnvironmentError(
  wanted: string | undefined,
  { environments }: Environments,
): string | undefined {
  if (wanted === undefined || environments.some(({ name }) => name === wanted)) return undefined;
  const known = environments.map(({ name }) => name).join(", ");
  return `Unknown environment ${quoteValue(wanted)}: expected ${known}`;
}

/** The error for a plan that is neither configured nor the plan of any of the accounts. */
export function unknownPlanError(
  wanted: string | undefined,
  { plans }: Plans,
  { accounts }: Accounts,
): string | undefined {
  if (wanted === undefined || plans.has(wanted)) return undefined;
  if (accounts.some(({ plan }) => plan === wanted)) return undefined;
  return `Unknown plan ${quoteValue(wanted)}: expected ${[...plans.keys()].join(", ")}`;
}

/** The error for the --env or the --plan of a call. */
export function unknownNameError(
  invocation: Invocation,
  config: Environments & Plans,
  records: Accounts,
): string | undefined {
  return (
    unknownEnvironmentError(invocation.text("env"), config) ??
    unknownPlanError(invocation.text("plan"), config, records)
  );
}
