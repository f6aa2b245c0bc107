import { createHash } from "node:crypto";
import { counterName, type Limit } from "../../core/quota/windows.ts";
import type { Config } from "../config.ts";
import { operationsIn } from "./services.ts";

type CountingTerms = Pick<
  Config,
  "store" | "storePrefix" | "stateFile" | "historyMs" | "plans" | "planBounds" | "environments"
>;

/** Lines of the log have so much of it. */
const DIGITS = 16;

/**
 * Two hashes are the same exactly if the same units are counted under the same names in the same
 * store: limits may differ. It tells `audit` whether a change can have taken a window away.
 */
export function countingHash(config: CountingTerms): string {
  const { store, storePrefix, stateFile, historyMs, planBounds } = config;
  const place = store.kind === "memory" ? stateFile : [store.shown, storePrefix];
  const plans = [...config.plans].map(([name, limits]) => {
    const { observe = [], meters = [] } = planBounds.get(name) ?? {};
    const own = limits === "custom" ? [] : limits;
    const metered = meters.map((meter) => [meter.name, ...countersOf(meter.limits)]);
    return [name, countersOf([...own, ...observe]), metered.toSorted()];
  });
  const operations = config.environments.flatMap((environment) => {
    return operationsIn(environment).flatMap(({ method, template, limits }) => {
      return limits ? [[environment.name, method, template, countersOf(limits.windows)]] : [];
    });
  });
  const terms = [place, historyMs !== undefined, plans.toSorted(), operations.toSorted()];
  return createHash("sha256").update(JSON.stringify(terms)).digest("hex").slice(0, DIGITS);
}

/** The names under which the units of limits are counted. */
function countersOf(limits: readonly Limit[]): readonly string[] {
  return [...new Set(limits.map(counterName))].toSorted();
}
