import type { WindowUsage } from "../../../core/quota/decide.ts";
import type { Limit } from "../../../core/quota/windows.ts";

/**
 * The windows of `limits` in a refusal of the cost, unchanged from `fromMs` of the store's clock
 * until the first one or the ban ends.
 */
export type ToldWindows = {
  readonly limits: readonly Limit[] | undefined;
  readonly cost: number | undefined;
  readonly windows: readonly WindowUsage[];
  readonly fromMs: number;
  readonly untilMs: number;
};

/**
 * The windows as they were told, if the new answer says the same of them. An account that is refused
 * sends a strike in each grace, which changes nothing of what the next refusal tells.
 */
export function stillTold(
  told: ToldWindows | undefined,
  limits: readonly Limit[],
  windows: readonly WindowUsage[],
): ToldWindows | undefined {
  if (told?.limits !== limits) return undefined;
  const isSame = windows.every(({ used, resetMs }, i) => {
    const before = told.windows[i];
    return before?.used === used && before.resetMs === resetMs && !before.isUnknown;
  });
  return isSame ? told : undefined;
}
