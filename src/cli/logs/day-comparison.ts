import { dayOf, formatDay } from "../../core/quota/days.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { Ledger } from "./ledger.ts";

/** One day of an account that is over, as the log, the history and the gateways tell it. */
export type DayBalance = {
  readonly account: string;
  readonly environment: string;
  /** The day, such as 2026-10-21. */
  readonly window: string;
  readonly charged: number;
  readonly counted: number;
  readonly reset: 0;
  readonly open: number;
  readonly drift: number;
};

type Counted = {
  readonly account: string;
  readonly environment: string;
  readonly day: number;
  readonly units: number;
};

/** A day as a row of the history has it. */
type Row = Omit<Counted, "day"> & { readonly day: string };

/**
 * Compares the days of a history with a log, row by row as they are read, and keeps those that differ
 * (docs/reference/commands.md#audit). The running day is kept for what was charged late: it is compared
 * by its windows.
 */
export class DayComparison {
  readonly #ledger: Ledger;
  readonly #today: number;
  readonly #differing: Counted[] = [];
  #compared = new Set<string>();
  #first = Number.POSITIVE_INFINITY;

  constructor(ledger: Ledger, today: number) {
    this.#ledger = ledger;
    this.#today = today;
  }

  /** Rows of the days since the log began, whatever their order. */
  compare(rows: readonly Row[]): void {
    for (const { account, environment, day: text, units } of rows) {
      const day = dayOf(Date.parse(text));
      this.#first = Math.min(this.#first, day);
      if (units !== this.#ledger.chargedOn(environment, account, day)) {
        this.#differing.push({ account, environment, day, units });
      }
      this.#compared.add(`${environment}:${account} ${day}`);
    }
  }

  /** All rows are read. `has` says whether an account has a history at all. */
  end(has: (account: string) => boolean): void {
    for (const { account, environment, days } of this.#ledger.accounts) {
      if (!has(account)) continue;
      for (const day of days.keys()) {
        if (this.#compared.has(`${environment}:${account} ${day}`)) continue;
        this.#differing.push({ account, environment, day, units: 0 });
      }
    }
    this.#compared = new Set();
  }

  /** In words, the days of the log that the history does not reach back to. */
  missing(): string[] {
    const { firstDay } = this.#ledger;
    if (firstDay === undefined || !(firstDay < this.#first) || this.#first > this.#today) return [];
    const from = formatDay(this.#first);
    return [`there is no usage by day before ${from}: the days before it are not compared`];
  }

  /** The days that differ by a log that was read later, and by what is under way. */
  balances(ledger: Ledger, openCharges: readonly OpenCharge[]): DayBalance[] {
    const from = this.#first === Number.POSITIVE_INFINITY ? 0 : this.#first;
    const all = this.#differing
      .filter(({ day }) => day >= from)
      .map(({ account, environment, day, units: counted }) => {
        const charged = ledger.chargedOn(environment, account, day);
        const open = openCharges
          .filter((one) => one.account === account && one.environment === environment)
          .filter(({ decidedAt }) => dayOf(decidedAt) === day)
          .reduce((sum, { units }) => sum + units, 0);
        return { account, environment, day, charged, counted, open, late: 0 };
      });
    settleLate(all);
    return all
      .filter(({ day }) => day < this.#today)
      .map(({ day, late, ...one }) => {
        const drift = one.counted + late - one.charged - one.open;
        return { ...one, window: formatDay(day), reset: 0 as const, drift };
      });
  }
}

type Day = Omit<Counted, "units"> &
  Pick<DayBalance, "charged" | "counted" | "open"> & { late: number };

/** A late charge goes to the day on which it was made: the day before lacks it, and the next has it. */
function settleLate(days: readonly Day[]): void {
  const byDay = new Map(days.map((one) => [`${one.environment}:${one.account} ${one.day}`, one]));
  const driftOf = ({ counted, late, charged, open }: Day) => counted + late - charged - open;
  for (const one of [...days].sort((a, b) => a.day - b.day)) {
    const next = byDay.get(`${one.environment}:${one.account} ${one.day + 1}`);
    if (next === undefined) continue;
    const units = Math.min(-driftOf(one), driftOf(next));
    if (units <= 0) continue;
    one.late += units;
    next.late -= units;
  }
}
