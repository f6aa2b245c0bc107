import { quoteValue } from "../../base/messages.ts";
import { EXIT_CONFIG, EXIT_USAGE } from "../../server/process/process-context.ts";
import type { Invocation } from "../framework/verb.ts";
import type { ReachedGateway } from "./reach.ts";

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

/** Why a name cannot be used, and the exit status for it. */
export type NameError = { readonly status: number; readonly message: string };

type Named = Pick<ReachedGateway, "config" | "brokenPartError">;

/** The error for the --env of a call, which may be configured with a mistake. */
export function envOptionError(
  invocation: Invocation,
  { config, brokenPartError }: Named,
): NameError | undefined {
  const wanted = invocation.text("env");
  const message = unknownEnvironmentError(wanted, config);
  if (wanted === undefined || message === undefined) return undefined;
  return nameError(message, brokenPartError(["environments", wanted]));
}

/** The error for the --env or the --plan of a call. */
export function nameOptionsError(
  invocation: Invocation,
  reached: Named,
  records: Accounts,
): NameError | undefined {
  const ofEnvironment = envOptionError(invocation, reached);
  if (ofEnvironment !== undefined) return ofEnvironment;
  const wanted = invocation.text("plan");
  const message = unknownPlanError(wanted, reached.config, records);
  if (wanted === undefined || message === undefined) return undefined;
  return nameError(message, reached.brokenPartError(["plans", wanted]));
}

function nameError(unknown: string, broken: string | undefined): NameError {
  return broken === undefined
    ? { status: EXIT_USAGE, message: unknown }
    : { status: EXIT_CONFIG, message: broken };
}
