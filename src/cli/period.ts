import { readDuration } from "../config/schema/units.ts";
import type { Call } from "./frame/verb.ts";

/** The milliseconds of an option such as `--grace 24h`, undefined without it, or what is wrong. */
export function readPeriod(call: Call, option: string): number | string | undefined {
  const text = call.text(option);
  if (text === undefined) return undefined;
  const period = readDuration(text);
  if (period !== undefined) return period;
  return `Cannot read --${option} as a duration such as 10s, 5m, 24h or 90d: the value is ${JSON.stringify(text)}`;
}
