import { counterName, fitsLimit, type Limit, mayStrike } from "./windows.ts";

/**
 * One window of an account. `refusedMs` is the instant of its first refusal, or 0 if there is none
 * yet. `loweredFrom` is the highest count before units were taken back; it is set until the count is
 * as high again. `zeroedMs` is the instant of its last reset.
 */
export type WindowCount = {
  readonly startMs: number;
  readonly count: number;
  readonly refusedMs: number;
  readonly loweredFrom?: number;
  readonly zeroedMs?: number;
};

export type WindowCounts = Readonly<Partial<Record<string, WindowCount>>>;

/**
 * Notes the first refusal of each window of a meter or a cap without room: its count may go down
 * later.
 */
export function noteRefusals(
  usage: Partial<Record<string, WindowCount>>,
  { limits, cost = 1 }: { readonly limits: readonly Limit[]; readonly cost?: number },
  nowMs: number,
): void {
  for (const limit of limits) {
    const stored = usage[counterName(limit)];
    if (mayStrike(limit) || stored === undefined || stored.refusedMs > 0) continue;
    if (fitsLimit(limit, stored.count, cost)) continue;
    usage[counterName(limit)] = { ...stored, refusedMs: nowMs };
  }
}

/** The counts without the marks of windows that count as much as before units were taken back. */
export function withoutMarks(counts: WindowCounts, limits: readonly Limit[]): WindowCounts {
  let usage: Partial<Record<string, WindowCount>> | undefined;
  for (const limit of limits) {
    const counter = counterName(limit);
    const { loweredFrom, ...stored } = counts[counter] ?? {};
    if (loweredFrom === undefined || (stored as WindowCount).count < loweredFrom) continue;
    usage = { ...(usage ?? counts), [counter]: stored as WindowCount };
  }
  return usage ?? counts;
}

/**
 * The count of a window after `units` were added to what a request took from it at `chargedMs`, in
 * the window that starts at `startMs`; units below 0 are given back. The window is left as it is,
 * and undefined is returned, if it is another one by now or was reset since. No count goes below 0
 * (docs/reference/meters.md#settlement). Redis runs late-charge.lua, and a differential test holds
 * the two together.
 */
export function settleWindow(
  stored: WindowCount | undefined,
  {
    startMs,
    units,
    chargedMs,
  }: {
    readonly startMs: number;
    readonly units: number;
    readonly chargedMs: number;
  },
): WindowCount | undefined {
  if (stored?.startMs !== startMs) return undefined;
  if (stored.zeroedMs !== undefined && stored.zeroedMs >= chargedMs) return undefined;
  const count = Math.max(0, stored.count + units);
  if (count >= stored.count) return { ...stored, count };
  return { ...stored, count, loweredFrom: Math.max(stored.loweredFrom ?? 0, stored.count) };
}
