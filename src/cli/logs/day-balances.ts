import { DAY_MS, dayOf } from "../../core/quota/days.ts";
import type { DayReport } from "../../stores/queries/read-history.ts";
import { newSum, type PeriodSum } from "./ledger.ts";

/** A day takes late charges and settlements for so long after its end (docs/reference/history.md#days). */
const CLOSES_MS = 15 * 60_000;

type Named = { readonly account: string; readonly environment: string };
type DayKey = Named & { readonly day: number };

/** The units of one day of an account that is over and closed, by history and by the logs. */
export type DayRow = DayKey & { readonly counted: number; readonly sum: PeriodSum };

/** Whether a day that is over may still change. */
export function isClosed(day: number, nowMs: number): boolean {
  return nowMs >= (day + 1) * DAY_MS + CLOSES_MS;
}

/** Joins the rows of a history with the days of a ledger, in any order, and keeps those that differ. */
export class DayBalances {
  readonly #sumOf: (key: DayKey) => PeriodSum | undefined;
  readonly #known = new Set<string>();
  readonly rows: DayRow[] = [];
  firstDay = Number.POSITIVE_INFINITY;
  matched = 0;

  constructor(sumOf: (key: DayKey) => PeriodSum | undefined) {
    this.#sumOf = sumOf;
  }

  /** Rows of the history, and days of the logs that it has no row of, with 0 units. */
  add(rows: readonly Pick<DayReport, "account" | "environment" | "day" | "units">[]): void {
    for (const { account, environment, day: text, units } of rows) {
      const key = { account, environment, day: dayOf(Date.parse(text)) };
      this.firstDay = Math.min(this.firstDay, key.day);
      this.#known.add(idOf(key));
      this.#compare(key, units);
    }
  }

  /** A day of the logs; it is compared with nothing if the history has no row of it. */
  addLogged(key: DayKey): void {
    if (!this.#known.has(idOf(key))) this.#compare(key, 0);
  }

  #compare(key: DayKey, counted: number): void {
    const sum = this.#sumOf(key);
    const charged = sum === undefined ? 0 : sum.charged + sum.atEdge;
    if (sum !== undefined && charged === counted) this.matched += 1;
    else if (counted > 0 || charged > 0) this.rows.push({ ...key, counted, sum: sum ?? EMPTY });
  }
}

const EMPTY = newSum();

function idOf({ environment, account, day }: DayKey): string {
  return `${environment}:${account} ${day}`;
}

/**
 * Units that an outage over the end of a day moved to the next one, on which they were charged late:
 * for each row, how many more it has by that, or fewer.
 */
export function lateUnits(
  rows: readonly DayRow[],
  isReturnDay: (day: number) => boolean,
): ReadonlyMap<DayRow, number> {
  const byId = new Map(rows.map((row) => [idOf(row), row]));
  const late = new Map<DayRow, number>();
  const over = (row: DayRow) => {
    return row.counted - row.sum.charged - row.sum.atEdge - (late.get(row) ?? 0);
  };
  for (const row of rows.toSorted((a, b) => a.day - b.day)) {
    const next = byId.get(idOf({ ...row, day: row.day + 1 }));
    if (next === undefined || !isReturnDay(next.day)) continue;
    const units = Math.min(-over(row), over(next));
    if (units <= 0) continue;
    late.set(row, (late.get(row) ?? 0) - units);
    late.set(next, (late.get(next) ?? 0) + units);
  }
  return late;
}
