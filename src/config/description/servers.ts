import { isObject } from "../../base/is-object.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath } from "../file/mistake.ts";

/**
 * Warns of `servers` that do not fit. Only the configuration decides which upstreams get requests,
 * but a description for other paths is probably the wrong one.
 */
export function warnOfServers(
  servers: unknown,
  path: ConfigPath,
  basePath: string,
  findings: Findings,
): void {
  if (!Array.isArray(servers) || servers.length === 0 || basePath === "/") return;
  if (servers.some((server) => urlOf(server).replace(/\/$/, "").endsWith(basePath))) return;
  findings.warning(
    path,
    `No server's URL ends in the basePath ${basePath}: the gateway serves the paths under ${basePath} whatever the servers say`,
  );
}

/** The URL with the defaults of its variables. */
function urlOf(server: unknown): string {
  if (!isObject(server) || typeof server.url !== "string") return "";
  const { url, variables } = server;
  return url.replace(/\{([^{}]*)\}/g, (whole, name: string) => {
    const variable = isObject(variables) ? variables[name] : undefined;
    return isObject(variable) && typeof variable.default === "string" ? variable.default : whole;
  });
}
