import { isObject } from "../../base/is-object.ts";
import type { OperationMeter } from "../../core/quota/meters.ts";
import type { Config } from "../config.ts";
import type { YamlMap } from "../file/mistake.ts";
import { servicesOf } from "./services.ts";

/** The meters of all plans and then those of operations, each once, in the order of the file. */
export function meterNames({
  planBounds,
  environments,
}: Pick<Config, "planBounds" | "environments">): readonly string[] {
  const ofPlans = [...planBounds.values()].flatMap(({ meters }) => meters);
  return [...new Set([...ofPlans, ...metersOfOperations(environments)].map(({ name }) => name))];
}

/** The meters of all operations, described or with `costs`. */
export function metersOfOperations(
  environments: Config["environments"],
): readonly OperationMeter[] {
  return servicesOf(environments).flatMap(({ routes: { operations = [], costs = [] } }) => {
    return [...operations, ...costs].flatMap(({ meters = [] }) => meters);
  });
}

/** The same, of a running gateway, from its GET /api/config. */
export function runningMeterNames({ plans, environments }: YamlMap): readonly string[] {
  const services = mapsIn(environments).flatMap((one) => [one, ...mapsIn(one.backends)]);
  const rules = services.flatMap((one) => [...mapsIn(one.operations), ...mapsIn(one.costs)]);
  const meters = [...mapsIn(plans), ...rules].flatMap((one) => {
    return isObject(one.meters) ? Object.keys(one.meters) : [];
  });
  return [...new Set(meters)];
}

/** The maps in a map or a list. */
function mapsIn(value: unknown): readonly YamlMap[] {
  return typeof value === "object" && value !== null ? Object.values(value).filter(isObject) : [];
}
