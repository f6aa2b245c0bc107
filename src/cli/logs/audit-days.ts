import type { CountReport } from "../../core/keys/usage-reports.ts";
import { DAY_MS, dayOf, formatDay, monthRange } from "../../core/quota/days.ts";
import { DAYS_MAX } from "../../stores/queries/read-history.ts";
import type { AccountOperations } from "../access/account-operations.ts";
import type { AskedPeriod, AuditInputs } from "./audit-periods.ts";
import type { AuditReport } from "./audit-report.ts";
import { DayBalances } from "./day-balances.ts";

export type Days = Pick<DayBalances, "rows" | "matched"> & {
  readonly notCompared: AuditReport["notCompared"];
  /** Whether the period that was asked for has no units, neither in the logs nor in the history. */
  readonly isIdle: boolean;
};

type DayAuditInputs = Pick<AuditInputs, "config" | "ledger" | "span"> & {
  readonly asked: AskedPeriod;
  readonly counts: readonly CountReport[];
  readonly nowMs: number;
};

/** The days that are over: those of the period that was asked for, else since the logs begin. */
export async function readDays(
  { config, asked, ledger, span, counts, nowMs }: DayAuditInputs,
  accounts: Pick<AccountOperations, "history">,
): Promise<Days> {
  const today = dayOf(nowMs);
  const range = asked.month === undefined ? undefined : monthRange(asked.month);
  const from = asked.day ?? range?.from ?? ledger.firstDay ?? today;
  const to = Math.min(asked.day ?? range?.to ?? today, today);
  const isIn = (day: number) => day >= from && day <= to;
  const nothing: Days = { rows: [], matched: 0, notCompared: [], isIdle: false };
  if (from >= today) return nothing;
  const lacking = (name: string, why: string): Days => {
    return { ...nothing, notCompared: [{ window: name, why }] };
  };
  const window = asked.month ?? (asked.day === undefined ? "days that are over" : formatDay(from));
  if (config.historyMs === undefined) return lacking(window, "there is no history");
  const days = new DayBalances(ledger);
  const period = { days: Math.min(today - from + 2, DAYS_MAX) };
  const told = await accounts.history({ period }, (rows) => {
    days.add(rows.filter(({ day }) => isIn(dayOf(Date.parse(day)))));
  });
  if (!told.ok) return lacking(window, told.message);
  const known = new Set(counts.map(({ environment, account }) => `${environment}:${account}`));
  for (const { environment, account, days: logged, meters } of ledger.accounts) {
    if (
      told.missing?.length ||
      !known.has(`${environment}:${account}`) ||
      account.startsWith("addr:")
    )
      continue;
    const metered = [...meters.values()].flatMap((meter) => [...meter.days.keys()]);
    for (const day of [...logged.keys(), ...metered]) {
      if (isIn(day)) days.addLogged({ environment, account, day });
    }
  }
  // Days before the first day of the history are not compared: all of them if it has none.
  const { firstDay } = days;
  const rows = days.rows.filter(({ day }) => day >= firstDay);
  const before = Number.isFinite(firstDay) ? `days before ${formatDay(firstDay)}` : window;
  const why = "there is no history of them";
  const notCompared = rows.length === days.rows.length ? [] : [{ window: before, why }];
  const { matched } = days;
  const isOver = (asked.day ?? range?.to ?? today) < today;
  const isEmpty = isOver && days.rows.length === 0 && matched === 0;
  const whole = { fromMs: from * DAY_MS, toMs: (to + 1) * DAY_MS };
  const gap = isEmpty ? span.gapIn(whole, null, false) : undefined;
  if (gap !== undefined) return lacking(window, gap);
  return { rows, matched, notCompared, isIdle: isEmpty };
}
