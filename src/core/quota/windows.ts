/**
 * Windows are aligned to UTC (docs/reference/http.md#windows): a minute starts at second 0, a day
 * at 00:00:00, a month on its first day. Which window an instant lies in is a pure function of the
 * instant, so a reset never wobbles and never depends on who answers.
 */
export const WINDOWS = ["second", "minute", "hour", "day", "month"] as const;
export type WindowName = (typeof WINDOWS)[number];

/** One window of a plan: at most `limit` requests in each; limits are 1 to LIMIT_MAX. */
export type Limit = { readonly window: WindowName; readonly limit: number };
export const LIMIT_MAX = 1e12;

const LENGTH_MS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/** The first millisecond of the window that holds `nowMs`. */
export function windowStart(window: WindowName, nowMs: number): number {
  if (window !== "month") {
    const sinceMs = nowMs % LENGTH_MS[window];
    return nowMs - (sinceMs < 0 ? sinceMs + LENGTH_MS[window] : sinceMs);
  }
  const date = new Date(nowMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
}

/** The first millisecond after the window that starts at `startMs`. */
export function windowEnd(window: WindowName, startMs: number): number {
  if (window !== "month") return startMs + LENGTH_MS[window];
  const date = new Date(startMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
}
