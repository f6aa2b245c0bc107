import { dayOf } from "../../core/quota/days.ts";
import type { DayReport } from "../../stores/queries/read-history.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import { type Ledger, newSum, type PeriodSum } from "./ledger.ts";

/** Without a meter it is about the units of the plan. */
type DayKey = AccountRef & { readonly day: number; readonly meter?: string };

/**
 * The units of one closed day of an account, or those of one of its meters, in the history and in the
 * logs. `lost` are units of the logs that the history lacks, below 0 those that it has beyond them.
 */
export type DayRow = DayKey & {
  readonly counted: number;
  readonly sum: PeriodSum;
  readonly lost: number;
};

/** A row of a history, as far as it is compared. */
type HistoryRow = Pick<DayReport, "account" | "environment" | "day" | "units" | "meters">;

/** The days of the accounts in the logs. */
type LedgerDays = {
  of(
    environment: string,
    account: string,
  ): Pick<NonNullable<ReturnType<Ledger["of"]>>, "days" | "meters"> | undefined;
};

/**
 * Joins the rows of a history with the days of a ledger, in any order, and keeps the differences.
 */
export class DayBalances {
  readonly #ledger: LedgerDays;
  readonly #known = new Set<string>();
  readonly rows: DayRow[] = [];
  firstDay = Number.POSITIVE_INFINITY;
  matched = 0;

  constructor(ledger: LedgerDays) {
    this.#ledger = ledger;
  }

  /** Adds rows of the history, and days of the logs without such a row, with 0 units. */
  add(rows: readonly HistoryRow[]): void {
    for (const { account, environment, day: text, units, meters = {} } of rows) {
      const key = { account, environment, day: dayOf(Date.parse(text)) };
      this.firstDay = Math.min(this.firstDay, key.day);
      this.#known.add(idOf(key));
      this.#compare(key, units);
      this.#compareMeters(key, meters);
    }
  }

  /** Adds a day of the logs. If the history has no row of it, it is not compared. */
  addLogged(key: DayKey): void {
    if (this.#known.has(idOf(key))) return;
    this.#known.add(idOf(key));
    this.#compare(key, 0);
    this.#compareMeters(key, {});
  }

  #compareMeters(key: DayKey, counted: Readonly<Record<string, number>>): void {
    const logged = this.#ledger.of(key.environment, key.account)?.meters;
    const names = [...Object.keys(counted), ...(logged?.keys() ?? [])];
    for (const meter of new Set(names)) this.#compare({ ...key, meter }, counted[meter] ?? 0);
  }

  #compare(key: DayKey, counted: number): void {
    const known = this.#ledger.of(key.environment, key.account);
    const meter = key.meter === undefined ? undefined : known?.meters.get(key.meter);
    const sum = (key.meter === undefined ? known : meter)?.days.get(key.day);
    const lost = meter?.lost.get(key.day) ?? 0;
    const charged = sum?.charged ?? 0;
    if (sum !== undefined && charged === counted && lost === 0) this.matched += 1;
    else if (counted > 0 || charged > 0)
      this.rows.push({ ...key, counted, lost, sum: sum ?? EMPTY });
  }
}

const EMPTY = newSum();

function idOf(key: DayKey): string {
  return `${accountId(key)} ${key.day} ${key.meter ?? ""}`;
}

/**
 * Units that an outage across the end of a day moved to the next day, because they were charged
 * late. For each row, how many more or fewer units it has for this reason.
 */
export function lateUnits(
  rows: readonly DayRow[],
  isReturnDay: (row: DayRow) => boolean,
): ReadonlyMap<DayRow, number> {
  const byId = new Map(rows.map((row) => [idOf(row), row]));
  const late = new Map<DayRow, number>();
  const over = (row: DayRow) => row.counted + row.lost - row.sum.charged;
  for (const row of rows) {
    const next = byId.get(idOf({ ...row, day: row.day + 1 }));
    if (next === undefined || !isReturnDay(next)) continue;
    const units = Math.min(-over(row), over(next));
    if (units <= 0) continue;
    // A day that lacks units gives to the next one alone, and one that has too many takes from the one before.
    late.set(row, -units);
    late.set(next, units);
  }
  return late;
}
