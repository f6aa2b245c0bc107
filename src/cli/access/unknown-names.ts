import { quoteValue } from "../../base/messages.ts";
import { EXIT_CONFIG, EXIT_USAGE } from "../../server/process/process-context.ts";
import type { Invocation } from "../framework/verb.ts";
import type { ReachedGateway } from "./reach.ts";

/** Why a name cannot be used, and the exit status for it. */
export type NameError = { readonly status: number; readonly message: string };

type Named = {
  readonly config: {
    readonly environments: readonly { readonly name: string }[];
    readonly plans: ReadonlyMap<string, unknown>;
  };
  readonly brokenPartError: ReachedGateway["brokenPartError"];
};

/** The error for the --env of a call, which may be configured with a mistake. */
export function envOptionError(
  invocation: Pick<Invocation, "text">,
  { config, brokenPartError }: Named,
): NameError | undefined {
  const wanted = invocation.text("env");
  const known = config.environments.map(({ name }) => name);
  if (wanted === undefined || known.includes(wanted)) return undefined;
  const message = `Unknown environment ${quoteValue(wanted)}: expected ${known.join(", ")}`;
  return nameError(message, brokenPartError(["environments", wanted]));
}

/** The error for the --env or the --plan of a call. A plan may have left the file, and accounts still be on it. */
export function nameOptionsError(
  invocation: Pick<Invocation, "text">,
  reached: Named,
  { accounts }: { readonly accounts: readonly { readonly plan: string }[] },
): NameError | undefined {
  const ofEnvironment = envOptionError(invocation, reached);
  if (ofEnvironment !== undefined) return ofEnvironment;
  const wanted = invocation.text("plan");
  const { plans } = reached.config;
  if (wanted === undefined || plans.has(wanted)) return undefined;
  if (accounts.some(({ plan }) => plan === wanted)) return undefined;
  const message = `Unknown plan ${quoteValue(wanted)}: expected ${[...plans.keys()].join(", ")}`;
  return nameError(message, reached.brokenPartError(["plans", wanted]));
}

function nameError(unknown: string, broken: string | undefined): NameError {
  return broken === undefined
    ? { status: EXIT_USAGE, message: unknown }
    : { status: EXIT_CONFIG, message: broken };
}
