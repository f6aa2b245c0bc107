import { formatCount } from "../../base/messages.ts";
import { formatInstant, formatTable } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import type { Balance } from "./balance.ts";
import type { LineSpan } from "./log-span.ts";

/** The findings of an audit (docs/reference/commands.md#audit). */
export type AuditReport = {
  readonly accounts: number;
  readonly charged: number;
  /** The number of periods of accounts that match. */
  readonly matched: number;
  readonly explained: readonly Balance[];
  readonly drift: readonly Balance[];
  /** The periods of one account, or of all accounts. */
  readonly notCompared: readonly (Balance | { readonly window: string; readonly why: string })[];
  readonly open: readonly Balance[];
  readonly missing: readonly string[];
  readonly span: LineSpan | undefined;
  readonly passes: boolean;
};

/** Prints the report, as JSON or for people. */
export function printAudit(report: AuditReport, terminal: Terminal, asJson: boolean): void {
  const { span, passes: _, ...told } = report;
  if (asJson) {
    const [from, to] = [span?.firstMs, span?.lastMs].map((ms) => (ms ?? 0) / 1_000);
    printJson(terminal, {
      ...told,
      ...(span === undefined ? { from: null, to: null } : { from, to }),
    });
    return;
  }
  const { accounts, charged, matched, explained, drift, notCompared, missing } = report;
  const [first, last] = [span?.firstMs, span?.lastMs].map((ms) => formatInstant((ms ?? 0) / 1_000));
  const spanned = span === undefined ? "" : `, from ${first} to ${last}`;
  terminal.out(`${formatCount(charged, "unit")} in the logs${spanned}\n`);
  terminal.out(
    `${formatCount(accounts, "account")}: ${formatCount(matched, "period")} matched, ${explained.length} explained, ${drift.length} with drift, ${notCompared.length} not compared\n`,
  );
  if (drift.length > 0) terminal.out(`Drift:\n${balanceTable(drift, terminal)}`);
  else if (matched + explained.length > 0) {
    const differs = explained.some((one) => one.charged + one.open !== one.counted + one.reset);
    const but = differs ? ", but for what is explained" : "";
    terminal.out(`What was charged is what the store counts${but}\n`);
  }
  if (explained.length > 0) terminal.out(`Explained:\n${reasonTable(explained, terminal)}`);
  if (notCompared.length > 0) terminal.out(`Not compared:\n${reasonTable(notCompared, terminal)}`);
  for (const one of missing) terminal.out(`Missing: ${one}\n`);
}

function balanceTable(balances: readonly Balance[], terminal: Terminal): string {
  const names = [
    "ACCOUNT",
    "ENVIRONMENT",
    "PERIOD",
    "CHARGED",
    "COUNTED",
    "RESET",
    "OPEN",
    "DRIFT",
  ];
  const rows = balances.map(({ account, environment, window, ...units }) => {
    const { charged, counted, reset, open, drift } = units;
    return [account, environment, window, charged, counted, reset, open, drift];
  });
  return formatTable(terminal, names, rows);
}

/** One row for all accounts with the same period and reason. */
function reasonTable(periods: AuditReport["notCompared"], terminal: Terminal): string {
  const groups = Map.groupBy(periods, ({ window, why }) => `${window} ${why}`);
  const rows = [...groups.values()].map((group) => {
    const [first] = group;
    const named = group.flatMap((one) => ("account" in one ? [one.account] : []));
    const who =
      named.length === 0 ? "all" : named.length === 1 ? named[0] : `${named.length} accounts`;
    return [who ?? "", first?.window ?? "", first?.why ?? ""];
  });
  return formatTable(terminal, ["ACCOUNT", "PERIOD", "WHY"], rows);
}
