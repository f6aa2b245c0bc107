import { quoteValue } from "../../base/messages.ts";
import { LIMIT_MAX } from "../quota/windows.ts";

/** The words of a message, and the windows that there are. */
type LimitWords = {
  readonly verb: string;
  readonly noun: string;
  readonly windows: readonly string[];
};

type WindowLimit<W extends string> = { readonly window: W; readonly limit: number };

/** A limit that replaces the one of the same window; null drops that one. */
export type LimitChange<W extends string> = { readonly window: W; readonly limit: number | null };

/** The limits after the change, those that it sets last. */
export function applyLimitChanges<W extends string>(
  before: readonly WindowLimit<W>[],
  changes: readonly LimitChange<W>[],
): WindowLimit<W>[] {
  const kept = before.filter(({ window }) => changes.every((one) => one.window !== window));
  const set = changes.flatMap(({ window, limit }) => (limit === null ? [] : [{ window, limit }]));
  return [...kept, ...set];
}

/** The limits by their windows. */
export function limitsByWindow(limits: readonly WindowLimit<string>[]): Record<string, number> {
  return Object.fromEntries(limits.map(({ window, limit }) => [window, limit]));
}

/** The mistake in limits of windows, in words; undefined if there is none. */
export function windowLimitsError(
  limits: readonly LimitChange<string>[],
  { verb, noun, windows }: LimitWords,
): string | undefined {
  for (const { window, limit } of limits) {
    if (!windows.includes(window)) {
      return `Cannot ${verb} the window ${quoteValue(window)} as it is unknown: expected ${windows.join(", ")}`;
    }
    if (limit === null) continue;
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
      return `Cannot use the ${noun} ${quoteValue(limit)} per ${window}: it must be a whole number from 1 to 10^12`;
    }
  }
  if (new Set(limits.map(({ window }) => window)).size < limits.length) {
    return `Cannot use two ${noun}s for one window: give each window once`;
  }
  return undefined;
}
