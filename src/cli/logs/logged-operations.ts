import type { Config } from "../../config/config.ts";
import { operationsIn } from "../../config/queries/services.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { LoggedRequest } from "../../telemetry/log/logged-line.ts";

/** The name of a request's operation: its environment, method and template, HEAD as GET. */
export function operationOf({ env, method, route }: LoggedRequest): string {
  return `${env} ${method === "HEAD" ? "GET" : method} ${route}`;
}

/** Windows of operations by the names of `operationOf`. */
export function operationsOf(
  environments: Config["environments"],
): ReadonlyMap<string, readonly Limit[]> {
  const found = new Map<string, readonly Limit[]>();
  for (const environment of environments) {
    for (const { method, template, limits } of operationsIn(environment)) {
      const name = `${environment.name} ${method} ${template}`;
      if (limits !== undefined) found.set(name, limits.windows);
    }
  }
  return found;
}
