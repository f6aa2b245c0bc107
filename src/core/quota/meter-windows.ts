import type { Calendar } from "./calendar.ts";
import { effectiveMeters } from "./meters.ts";
import type { Limit, PlanMeter } from "./windows.ts";

/** The meters of an account's plan, its own limits, and its calendar if it has one. */
export type MeteredTerms = {
  readonly plan: readonly PlanMeter[];
  readonly own: readonly { readonly window: string; readonly limit: number }[];
  readonly calendar: Calendar | undefined;
};

/** The windows of all meters of an account, whichever operations take from them. */
export function meterWindows({ plan, own, calendar }: MeteredTerms): readonly Limit[] {
  return effectiveMeters(plan, own).flatMap(({ limits }) => {
    return limits.map((limit) => {
      return calendar !== undefined && limit.window === "month" ? { ...limit, calendar } : limit;
    });
  });
}
