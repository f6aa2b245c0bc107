import type { Config } from "../../config/config.ts";
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
  for (const { name, routes, services } of environments) {
    for (const table of [routes, ...services.map((service) => service.routes)]) {
      for (const { method, template, limits } of table.operations ?? []) {
        if (limits !== undefined) found.set(`${name} ${method} ${template}`, limits.windows);
      }
    }
  }
  return found;
}
