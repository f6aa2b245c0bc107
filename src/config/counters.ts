import { counterOf, type Limit, WINDOWS } from "../core/quota/windows.ts";
import type { Config } from "./config.ts";

export type Counters =
  | { readonly ok: true; readonly counters: readonly string[] }
  | { readonly ok: false; readonly message: string };

/**
 * The counters that windows are kept under, as people name them: `day`, or `createPet.minute` for a
 * window of an operation of that environment.
 */
export function countersOf(
  { environments }: Pick<Config, "environments">,
  environment: string,
  windows: readonly string[],
): Counters {
  const own = operationLimits(environments, environment);
  const known = new Map<string, string>(WINDOWS.map((window) => [window, window]));
  for (const limit of own) known.set(nameOf(limit), counterOf(limit));
  const unknown = windows.find((window) => !known.has(window));
  if (unknown === undefined) {
    return { ok: true, counters: windows.map((window) => known.get(window) as string) };
  }
  const expected = [...known.keys()].join(", ");
  const message = `Unknown window ${JSON.stringify(unknown)}: expected ${expected}`;
  return { ok: false, message };
}

/** A counter as people name it; as it is where no operation of the environment has it. */
export function windowName(
  { environments }: Pick<Config, "environments">,
  environment: string,
  counter: string,
): string {
  const limit = operationLimits(environments, environment).find(
    (own) => counterOf(own) === counter,
  );
  return limit === undefined ? counter : nameOf(limit);
}

function operationLimits(environments: Config["environments"], environment: string): Limit[] {
  return environments
    .filter(({ name }) => name === environment)
    .flatMap((each) => [each, ...each.backends])
    .flatMap(({ routes }) => routes.operations ?? [])
    .flatMap(({ limits }) => limits?.windows ?? []);
}

function nameOf({ window, operation }: Limit): string {
  return operation === undefined ? window : `${operation.name}.${window}`;
}
