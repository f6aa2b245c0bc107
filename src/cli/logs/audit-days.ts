import { formatCount } from "../../base/messages.ts";
import { closesMs, DAY_MS, dayOf, formatDay } from "../../core/quota/days.ts";
import { DAYS_MAX } from "../../stores/queries/read-history.ts";
import { isAddressAccount } from "../../stores/quotas/account-ref.ts";
import type { AccountOperations } from "../access/account-operations.ts";
import { type AskedPeriod, type AuditInputs, evidenceIn } from "./audit-periods.ts";
import type { AuditReport } from "./audit-report.ts";
import { type Balance, fewerByChanges, judge, unitsWere } from "./balance.ts";
import { DayBalances, type DayRow, lateUnits } from "./day-balances.ts";
import type { Ledger } from "./ledger.ts";

export type Days = Pick<DayBalances, "rows" | "matched"> & {
  readonly notCompared: AuditReport["notCompared"];
  /** Whether the period that was asked for has no units, neither in the logs nor in the history. */
  readonly isIdle: boolean;
};

type DayAuditInputs = Pick<AuditInputs, "config" | "ledger" | "span"> & {
  readonly asked: AskedPeriod | undefined;
  readonly nowMs: number;
};

/** The days that are over: those of the period that was asked for, else since the logs begin. */
export async function readDays(
  { config, asked, ledger, span, nowMs }: DayAuditInputs,
  accounts: Pick<AccountOperations, "history">,
): Promise<Days> {
  const today = dayOf(nowMs);
  const from = asked?.from ?? ledger.firstDay ?? today;
  const to = Math.min(asked?.to ?? today, today);
  const isIn = (day: number) => day >= from && day <= to;
  const nothing: Days = { rows: [], matched: 0, notCompared: [], isIdle: false };
  if (from >= today) return nothing;
  const lacking = (name: string, why: string): Days => {
    return { ...nothing, notCompared: [{ window: name, why }] };
  };
  const window = asked?.name ?? "days that are over";
  if (config.historyMs === undefined) return lacking(window, "there is no history");
  const days = new DayBalances(ledger);
  const period = { days: Math.min(today - from + 2, DAYS_MAX) };
  const told = await accounts.history({ period }, (rows) => {
    days.add(rows.filter(({ day }) => isIn(dayOf(Date.parse(day)))));
  });
  if (!told.ok) return lacking(window, told.message);
  // A part of the store that did not answer may have what no other part has.
  if (!told.missing?.length) addLoggedDays(days, ledger, isIn);
  // Days before the first day of the history are not compared: all of them if it has none.
  const { firstDay } = days;
  const rows = days.rows.filter(({ day }) => day >= firstDay);
  const before = Number.isFinite(firstDay) ? `days before ${formatDay(firstDay)}` : window;
  const why = "there is no history of them";
  const notCompared = rows.length === days.rows.length ? [] : [{ window: before, why }];
  const { matched } = days;
  const isOver = (asked?.to ?? today) < today;
  const isEmpty = isOver && days.rows.length === 0 && matched === 0;
  const whole = { fromMs: from * DAY_MS, toMs: (to + 1) * DAY_MS };
  const gap = isEmpty ? span.gapIn(whole, null, false) : undefined;
  if (gap !== undefined) return lacking(window, gap);
  return { rows, matched, notCompared, isIdle: isEmpty };
}

/** Adds the days of the logs, of the accounts whose days the history has. */
function addLoggedDays(days: DayBalances, ledger: Ledger, isIn: (day: number) => boolean): void {
  for (const known of ledger.accounts) {
    if (known.counts === undefined || isAddressAccount(known)) continue;
    const { environment, account, meters } = known;
    const metered = [...meters.values()].flatMap((meter) => [...meter.days.keys()]);
    for (const day of [...known.days.keys(), ...metered]) {
      if (isIn(day)) days.addLogged({ environment, account, day });
    }
  }
}

/** Judges days that are over: those whose units differ between history and logs. */
export function dayBalances(
  inputs: AuditInputs,
  rows: readonly DayRow[],
  nowMs: number,
): Balance[] {
  const { incidents } = inputs;
  const late = lateUnits(rows, (row) => incidents.isReturnDay(row));
  const over = rows.filter(({ day }) => day < dayOf(nowMs));
  return over.map((row): Balance => {
    const { account, environment, day, sum, meter, lost } = row;
    const accountRef = { account, environment };
    const period = { fromMs: day * DAY_MS, toMs: (day + 1) * DAY_MS };
    const moved = late.get(row) ?? 0;
    const judged = judge({
      ...evidenceIn(inputs, { accountRef, meter, period, runs: false, sum }),
      counted: row.counted + lost - moved,
      fewer: incidents.hasForgotten(accountRef, period)
        ? []
        : fewerByChanges(sum, () => true, incidents.configs.recountsIn(period), false),
    });
    const window = meter === undefined ? formatDay(day) : `${formatDay(day)} ${meter}`;
    const told = { ...accountRef, window, ...judged, counted: row.counted };
    if (nowMs < closesMs(day) && judged.verdict === "drift") {
      const why = "the day closes 15 minutes after its end";
      return { ...told, drift: 0, verdict: "not compared", why };
    }
    if (lost !== 0 && judged.verdict === "matched") {
      const why = `${formatCount(Math.abs(lost), "unit")} ${lost > 0 ? "fewer" : "more"}: told as settlement_lost`;
      return { ...told, verdict: "explained", why };
    }
    if (moved === 0 || judged.verdict !== "matched") return told;
    const why = `${unitsWere(Math.abs(moved))} charged late, on the ${moved < 0 ? "next day" : "day after"}`;
    return { ...told, verdict: "explained", why };
  });
}
