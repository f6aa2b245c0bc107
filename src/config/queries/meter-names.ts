import type { Config } from "../config.ts";

/** The meters of all plans, each once, in the order of the file. */
export function meterNames({ planBounds }: Pick<Config, "planBounds">): readonly string[] {
  return [
    ...new Set([...planBounds.values()].flatMap(({ meters }) => meters.map(({ name }) => name))),
  ];
}
