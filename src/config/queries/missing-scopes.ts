import type { Operation } from "../../core/http/route.ts";
import { isWorking, type KeyRecord } from "../../core/keys/records.ts";
import type { EnvironmentConfig } from "../config.ts";
import { operationsIn } from "./services.ts";

export type MissingScope = {
  readonly environment: string;
  readonly scope: string;
  /** The first operation that requires it: method and path. */
  readonly operation: string;
};

/**
 * The scopes that operations require and no working key of their environment has: no client can
 * call the operations that need them (docs/reference/plans.md#scopes). `nowMs` is Unix
 * milliseconds.
 */
export function missingScopes(
  environments: readonly EnvironmentConfig[],
  keys: readonly KeyRecord[],
  nowMs: number,
): MissingScope[] {
  return environments.flatMap((environment) => {
    const working = keys.filter((key) => {
      return key.environment === environment.name && isWorking(key, nowMs);
    });
    const had = new Set(working.flatMap(({ scopes }) => scopes));
    return [...scopesAskedIn(environment)]
      .filter(([scope]) => !had.has(scope))
      .map(([scope, operation]) => ({ environment: environment.name, scope, operation }));
  });
}

/** Each scope with the first operation that requires it. */
function scopesAskedIn(environment: EnvironmentConfig): ReadonlyMap<string, string> {
  const asked = new Map<string, string>();
  for (const operation of operationsIn(environment)) {
    for (const scope of scopesOf(operation)) {
      if (!asked.has(scope)) asked.set(scope, `${operation.method} ${operation.template}`);
    }
  }
  return asked;
}

function scopesOf({ scopes, requiresScope, lifecycle }: Operation): readonly string[] {
  const { stability } = lifecycle;
  return requiresScope && stability !== undefined ? [stability, ...scopes.flat()] : scopes.flat();
}
