import type { Operation } from "../../core/http/route.ts";
import type { EnvironmentConfig, ServiceConfig } from "../config.ts";

/** All services: each environment, and then those under its paths. */
export function servicesOf(environments: readonly EnvironmentConfig[]): readonly ServiceConfig[] {
  return environments.flatMap((one) => [one, ...one.services]);
}

/** The operations of an environment, from its own description and from its backends. */
export function operationsIn(environment: EnvironmentConfig): readonly Operation[] {
  return servicesOf([environment]).flatMap(({ routes: { operations = [] } }) => operations);
}
