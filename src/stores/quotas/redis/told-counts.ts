import type { WindowTotal } from "../outage-handler.ts";

/** Counts of an account at an instant of the store's clock. */
type ToldCounts = {
  readonly id: string;
  readonly totals: readonly WindowTotal[];
  readonly nowMs: number;
};

/**
 * The counts of an account in a message, "id=now,counter,start,count,...", with "start-end" for a
 * month of an account with a calendar.
 */
export function formatCounts(id: string, totals: readonly WindowTotal[], nowMs: number): string {
  const parts = totals.flatMap(({ counter, startMs, endMs, used }) => {
    return [counter, endMs === undefined ? startMs : `${startMs}-${endMs}`, used];
  });
  return `${id}=${[nowMs, ...parts].join()}`;
}

/** The counts of an account as `formatCounts` writes them; undefined if the text has none. */
export function parseCounts(text: string): ToldCounts | undefined {
  const [id = "", list] = text.split("=");
  if (list === undefined) return undefined;
  const [now, ...parts] = list.split(",");
  const totals: WindowTotal[] = [];
  for (let i = 0; i + 2 < parts.length; i += 3) {
    const [start = "", end] = (parts[i + 1] as string).split("-");
    const endMs = end === undefined ? undefined : Number(end);
    const [startMs, used] = [Number(start), Number(parts[i + 2])];
    totals.push({ counter: parts[i] as string, startMs, endMs, used });
  }
  const isWhole = totals.every(({ startMs, endMs = 0, used }) => {
    return startMs >= 0 && endMs >= 0 && used >= 0;
  });
  return isWhole ? { id, totals, nowMs: Number(now) } : undefined;
}
