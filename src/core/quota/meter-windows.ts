import { effectiveMeters, type MeteredAccount } from "./meters.ts";
import type { Limit } from "./windows.ts";

/** The windows of all meters of an account, whichever operations take from them. */
export function meterWindows({ plan, own, calendar }: MeteredAccount): readonly Limit[] {
  return effectiveMeters(plan, own).flatMap(({ limits }) => {
    return limits.map((limit) => {
      return calendar !== undefined && limit.window === "month" ? { ...limit, calendar } : limit;
    });
  });
}
