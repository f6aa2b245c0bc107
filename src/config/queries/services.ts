import type { EnvironmentConfig, ServiceConfig } from "../config.ts";

/** All services: each environment, and then those under its paths. */
export function servicesOf(environments: readonly EnvironmentConfig[]): readonly ServiceConfig[] {
  return environments.flatMap((one) => [one, ...one.services]);
}
