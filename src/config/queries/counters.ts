import { memoize } from "../../base/memoize.ts";
import { quoteValue } from "../../base/messages.ts";
import { operationWindows } from "../../core/http/route.ts";
import { meterPart } from "../../core/quota/meters.ts";
import { windowLabel } from "../../core/quota/rate-limit-info.ts";
import {
  counterName,
  counterWindow,
  type Limit,
  type LimitPart,
  WINDOW_NAMES,
} from "../../core/quota/windows.ts";
import type { Config } from "../config.ts";
import { meterNames } from "./meter-names.ts";
import { servicesOf } from "./services.ts";

export type CounterNames =
  | { readonly ok: true; readonly counters: readonly string[] }
  | { readonly ok: false; readonly message: string };

/**
 * The counters that windows are kept under, as people name them: `day`, `createPet.minute` for a
 * window of an operation of that environment, `tokens.minute` for one of a meter, or `key.minute` for
 * one of each of the caps.
 */
export function resolveCounters(
  config: Pick<Config, "environments" | "planBounds">,
  { environment, caps }: { readonly environment: string; readonly caps: readonly LimitPart[] },
  windows: readonly string[],
): CounterNames {
  const counters = new Map<string, string[]>(WINDOW_NAMES.map((window) => [window, [window]]));
  const parts = [...meterNames(config).map(meterPart), ...caps];
  const apart = parts.flatMap((part) => WINDOW_NAMES.map((window) => ({ window, part })));
  const own = environmentOperationLimits(config.environments, environment);
  for (const limit of [...own, ...apart]) {
    const label = windowLabel(limit);
    const named = counters.get(label) ?? [];
    named.push(counterName(limit));
    counters.set(label, named);
  }
  const unknown = windows.find((window) => !counters.has(window));
  if (unknown === undefined) {
    return { ok: true, counters: windows.flatMap((window) => counters.get(window) as string[]) };
  }
  const expected = [...counters.keys()].join(", ");
  const message = `Unknown window ${quoteValue(unknown)}: expected ${expected}`;
  return { ok: false, message };
}

/** A counter as people name it; unchanged if no key, meter or operation there has it. */
export function counterLabel(
  { environments }: Pick<Config, "environments">,
  environment: string,
  counter: string,
): string {
  if (counter.startsWith("@")) return `key.${counterWindow(counter)}`;
  if (counter.startsWith("#")) return counter.slice(1);
  const limit = environmentOperationLimits(environments, environment).find(
    (own) => counterName(own) === counter,
  );
  return limit === undefined ? counter : windowLabel(limit);
}

const operationLimitsByName = memoize((environments: Config["environments"]) => {
  return new Map(
    environments.map((one) => {
      return [one.name, operationWindows(servicesOf([one]).map(({ routes }) => routes))] as const;
    }),
  );
});

/** The windows of all operations of an environment. */
export function environmentOperationLimits(
  environments: Config["environments"],
  environment: string,
): readonly Limit[] {
  return operationLimitsByName(environments).get(environment) ?? [];
}
