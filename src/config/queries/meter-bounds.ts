import type { OperationMeter } from "../../core/quota/meters.ts";
import type { WindowName } from "../../core/quota/windows.ts";
import type { Config } from "../config.ts";
import { metersOfOperations } from "./meter-names.ts";

/**
 * By how much a window of a meter may go over its limit, at most (docs/reference/meters.md#bound).
 * `over` is in units, and rounded where it is above 2^53; null where some operation holds 0: then
 * it is `overEach` for each request under way. Both are null where no operation has
 * the meter with a hold that fits.
 */
export type MeterBound = {
  readonly plan: string;
  readonly meter: string;
  readonly window: WindowName;
  readonly limit: number;
  readonly over: number | null;
  readonly overEach: number | null;
};

/** The bounds of all windows of all plans that limit a meter, in the order of the file. */
export function meterBounds({
  plans,
  planBounds,
  environments,
}: Pick<Config, "plans" | "planBounds" | "environments">): MeterBound[] {
  const meters = metersOfOperations(environments);
  return [...plans.keys()].flatMap((plan) => {
    const limited = planBounds.get(plan)?.meters ?? [];
    return limited.flatMap(({ name, limits }) => {
      const own = meters.filter((meter) => meter.name === name);
      return limits
        .filter(({ observed }) => !observed)
        .map(({ window, limit }) => ({ plan, meter: name, window, limit, ...boundOf(own, limit) }));
    });
  });
}

function boundOf(
  all: readonly OperationMeter[],
  limit: number,
): Pick<MeterBound, "over" | "overEach"> {
  // One whose hold is above the limit is always refused.
  const meters = all.filter(({ hold }) => hold <= limit);
  if (meters.length === 0) return { over: null, overEach: null };
  if (meters.some(({ hold }) => hold === 0)) {
    return { over: null, overEach: Math.max(...meters.map(({ max, hold }) => max - hold)) };
  }
  // Exact: limit and max together have more digits than a number.
  const overs = meters.map(({ hold, max }) => (BigInt(limit) * BigInt(max - hold)) / BigInt(hold));
  const most = overs.reduce((one, other) => (one > other ? one : other));
  return { over: Number(most), overEach: null };
}
