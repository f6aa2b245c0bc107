import { formatCount } from "../../base/messages.ts";
import { addressHistoryError } from "../../core/keys/find-records.ts";
import { isAddressName } from "../../core/keys/records.ts";
import type { UsageReport } from "../../core/keys/usage-reports.ts";
import { dayOf, monthRange } from "../../core/quota/days.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { type DayReport, parsePeriod } from "../../stores/queries/read-history.ts";
import type { NameError } from "../access/unknown-names.ts";
import { withAccounts } from "../access/with-accounts.ts";
import { formatCsv, formatTable } from "../framework/table.ts";
import type { Terminal } from "../framework/terminal.ts";
import type { Invocation, Option } from "../framework/verb.ts";

export const PERIODS: readonly Option[] = [
  { name: "days", value: "30", summary: "by UTC day, for this many days (needs history)" },
  { name: "month", value: "2026-10", summary: "by day of UTC, in this month (needs history)" },
];

const COLUMNS = ["account", "environment", "plan", "day", "admitted", "units", "refused"] as const;

type Column = (typeof COLUMNS)[number];

/** The name of a meter's column, which no other column has. */
function meterColumn(meter: string): string {
  return [...COLUMNS, "overage"].includes(meter) ? `meter.${meter}` : meter;
}

export function isByDay(invocation: Invocation): boolean {
  return PERIODS.some(({ name }) => invocation.text(name) !== undefined);
}

/** Says that the counts are of more than the key that was named; empty if `id` is no key. */
export function wholeAccountText(
  id: string | undefined,
  { account, windows = [] }: Pick<UsageReport, "account"> & Partial<Pick<UsageReport, "windows">>,
): string {
  if (id === undefined || id === account || isAddressName(account)) return "";
  const caps = windows.map(({ window }) => window).filter((window) => window.startsWith("key."));
  // A key that was rotated shares these with its successor.
  const own = caps.length === 0 ? "" : `, except those of its caps, ${caps.join(", ")}`;
  return `Key ${id} is of account ${account}: the counts are of all its keys${own}\n`;
}

type ByDayTerms = {
  readonly meters: readonly string[];
  /** The error for a plan or environment that has left the file, if it has no rows either. */
  readonly unknown: NameError | undefined;
};

/**
 * `usage --days` and `usage --month`: one row for each account and day, with a column for each of the
 * meters. But for JSON, rows are printed as they are read, so any number of accounts takes the same
 * memory (docs/reference/history.md).
 */
export async function usageByDay(
  invocation: Invocation,
  terminal: Terminal,
  { meters, unknown }: ByDayTerms,
): Promise<number> {
  const given = { days: invocation.text("days"), month: invocation.text("month") };
  const period = parsePeriod(given, (name) => `--${name}`);
  if (typeof period === "string") return fail(terminal, EXIT_USAGE, period);
  const [id] = invocation.args;
  const narrowing = ["over", "top", ...(id === undefined ? [] : ["plan"])].find((name) => {
    return invocation.text(name) !== undefined;
  });
  if (narrowing !== undefined) {
    const message = `--${narrowing} does not go with usage by day${narrowing === "plan" ? " of one account" : ""}: leave it out`;
    return fail(terminal, EXIT_USAGE, message);
  }
  const noHistory = id === undefined ? undefined : addressHistoryError(id);
  if (noHistory !== undefined) return fail(terminal, EXIT_FAILURE, noHistory);
  const asked = { id, environment: invocation.text("env"), plan: invocation.text("plan"), period };
  const json = invocation.flag("json");
  const printer = json ? asJson(terminal) : asRows(invocation, terminal, meters);
  let whole = "";
  let isFound = false;
  const unbilled = new UnknownOverage();
  const onRows = (rows: readonly DayReport[]) => {
    const [first] = rows;
    if (first === undefined) return;
    isFound = true;
    whole = wholeAccountText(id, first);
    unbilled.note(rows);
    printer.rows(rows);
  };
  return withAccounts(invocation, terminal, {
    hasEarlierNames: true,
    printsMeanwhile: !json,
    ask: async (accounts) => {
      const told = await accounts.history(asked, onRows);
      const isWrongUsage = !told.ok && id !== undefined && unknown !== undefined;
      return isWrongUsage ? { ...told, usage: true } : told;
    },
    say: (_, missing) => {
      if (unknown !== undefined && !isFound && missing === 0) {
        const { status, message } = unknown;
        const others = status === EXIT_USAGE ? ", or one with usage on these days" : "";
        return fail(terminal, status, `${message}${others}`);
      }
      printer.end(missing);
      const { month } = given;
      if (!isFound && month !== undefined && isAhead(month, terminal)) {
        terminal.err(`warning: ${month} has not begun\n`);
      }
      if (!json && !invocation.flag("csv")) terminal.out(whole);
      return unbilled.report(terminal);
    },
  });
}

/** Whether a month has not begun, so that one without usage may be a slip of the year. */
function isAhead(month: string, terminal: Terminal): boolean {
  return (monthRange(month)?.from ?? 0) > dayOf(terminal.now());
}

/** The accounts whose overage cannot be told (docs/reference/history.md#overage). */
class UnknownOverage {
  #accounts = 0;
  #last: DayReport | undefined;

  /** Called with all rows, account by account. */
  note(rows: readonly DayReport[]): void {
    for (const row of rows) {
      if (row.overageUnknown === undefined) continue;
      if (row.account !== this.#last?.account) this.#accounts += 1;
      this.#last = row;
    }
  }

  /** Returns the exit status. */
  report(terminal: Terminal): number {
    if (this.#last === undefined) return EXIT_OK;
    const { account, overageUnknown } = this.#last;
    const others = this.#accounts - 1;
    const and = others === 0 ? "" : ` and ${formatCount(others, "other account")}`;
    terminal.err(
      `Missing: overage of ${account}${and}: ${overageUnknown}. With history of 62d or more a month can be billed while the next one lasts\n`,
    );
    return EXIT_FAILURE;
  }
}

/** Called with one row or more. `missing` is how many parts of the store could not be asked. */
type Printer = { rows(rows: readonly DayReport[]): void; end(missing: number): void };

/** Prints one value when all rows are read: a failure on the way leaves nothing on stdout. */
function asJson(terminal: Terminal): Printer {
  const pieces: string[] = [];
  return {
    rows: (rows) => {
      const separator = pieces.length === 0 ? "[" : ",";
      pieces.push(`${separator}\n${rows.map((row) => JSON.stringify(row)).join(",\n")}`);
    },
    end: () => {
      for (const piece of pieces) terminal.out(piece);
      terminal.out(pieces.length === 0 ? "[]\n" : "\n]\n");
    },
  };
}

function asRows(invocation: Invocation, terminal: Terminal, meters: readonly string[]): Printer {
  const asCsv = invocation.flag("csv");
  let isFirst = true;
  let columns: readonly (Column | "overage")[] = COLUMNS;
  const print = (rows: readonly DayReport[]) => {
    const [first] = rows;
    if (first?.overage !== undefined || first?.overageUnknown !== undefined) {
      columns = [...COLUMNS, "overage"];
    }
    const names = [...columns, ...meters.map(meterColumn)];
    const cells = rows.map((row) => [
      ...columns.map((name) => row[name] ?? ""),
      ...meters.map((name) => row.meters?.[name] ?? 0),
    ]);
    if (asCsv) terminal.out(formatCsv(isFirst ? [names, ...cells] : cells));
    else {
      const heads = names.map((name) => name.toUpperCase());
      terminal.out(formatTable(terminal, heads, cells));
    }
    isFirst = false;
  };
  return {
    rows: print,
    end: (missing) => {
      if (!isFirst) return;
      if (asCsv) print([]);
      else terminal.out(missing > 0 ? "No usage is found\n" : "Nothing was used on these days\n");
    },
  };
}
