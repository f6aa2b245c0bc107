import { quoteValue } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { AccountRecord } from "../../core/keys/records.ts";
import { monthsIn } from "../../core/quota/calendar.ts";
import {
  type DaySpan,
  type DayUsage,
  dayOf,
  formatDay,
  monthRange,
} from "../../core/quota/days.ts";
import type { OnMissing, QuotaAdmin } from "../quotas/quota-store.ts";
import { overageUnknown } from "./lost-days.ts";

/** The usage of an account on one day, as it is shown (docs/reference/history.md#days). */
export type DayReport = {
  readonly account: string;
  readonly environment: string;
  /** The plan of its last request of that day; the plan of the account now if the day has none. */
  readonly plan: string;
  /** `2026-10-21`, in UTC. */
  readonly day: string;
  readonly admitted: number;
  readonly units: number;
  readonly refused: number;
  /** Units above those in a month's price, as far as this day used them; of whole months only. */
  readonly overage?: number;
  /** Why there is no `overage` although the plan includes units. */
  readonly overageUnknown?: string;
  /** Units of each meter; absent if the account used none. */
  readonly meters?: Readonly<Record<string, number>>;
};

/** The last `days` days including today, or a month such as `2026-10`. */
export type Period = { readonly days: number } | { readonly month: string };

/**
 * The days of a period for an account, in order: of a month those of every month of the account that
 * begins in it. The accounts that have no anchor share one list.
 */
export type AccountSpans = (account: Pick<AccountRecord, "calendar">) => readonly DaySpan[];

/** An undefined environment or plan matches any. `after` names an earlier row. */
export type HistoryFilter = {
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly account?: string | undefined;
  readonly after?: Pick<DayReport, "account" | "day"> | undefined;
  /** Units of a month that are in the price of a plan; present if the spans are whole months. */
  readonly includedOf?: ((plan: string) => number | undefined) | undefined;
};

export const DAYS_MAX = 3_660;
/** Accounts that are read together: a few thousand rows at most are in memory. */
const ACCOUNTS_TOGETHER = 500;

/** The period of options or a query, or why it is invalid. `named` names the option. */
export function parsePeriod(
  { days, month }: { readonly days?: string | undefined; readonly month?: string | undefined },
  named: (name: "days" | "month") => string,
): Period | string {
  if (days !== undefined && month !== undefined) {
    return `${named("days")} and ${named("month")} are two periods: give one of them`;
  }
  if (month !== undefined) {
    if (monthRange(month) !== undefined) return { month };
    return `Cannot read ${named("month")} as a month such as 2026-10: the value is ${quoteValue(month)}`;
  }
  const text = days ?? "30";
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= DAYS_MAX) return { days: count };
  return `Cannot read ${named("days")} as a number of days from 1 to ${DAYS_MAX}: the value is ${quoteValue(text)}`;
}

/** Why usage by day cannot be read; undefined if it can. */
export function historyDisabledError({ historyMs }: Pick<Config, "historyMs">): string | undefined {
  if (historyMs !== undefined) return undefined;
  return "Usage by day is not counted: history is off in the configuration. Set history: 400d: days are counted from then on, and days of before that are kept can be read again";
}

/**
 * The rows of all accounts that match, account by account and day by day, in pieces: never more
 * than a few thousand are in memory. Rejects if the store is unreachable. If only a part of it is,
 * rejects unless `onMissing` is given and all accounts are wanted: of one account there is no rest.
 */
export async function* readHistory(
  quotas: Pick<QuotaAdmin, "history" | "oldestDay">,
  accounts: readonly AccountRecord[],
  spansOf: AccountSpans,
  { environment, plan, account, after, includedOf }: HistoryFilter,
  onMissing?: OnMissing,
): AsyncGenerator<readonly DayReport[]> {
  const missing = account === undefined ? onMissing : undefined;
  const chosen = accounts.filter(
    (one) => (environment ?? one.environment) === one.environment && (account ?? one.id) === one.id,
  );
  const first = Math.max(0, after ? chosen.findIndex(({ id }) => id === after.account) : 0);
  for (let from = first; from < chosen.length; from += ACCOUNTS_TOGETHER) {
    const some = chosen.slice(from, from + ACCOUNTS_TOGETHER);
    const days = await readDays(quotas, some, spansOf, missing);
    // Asked afterwards: a day that went in between counts as missing.
    const oldestDay = includedOf && (await quotas.oldestDay());
    const rows = some.flatMap((one) => {
      return spansOf(one).flatMap((span) => {
        const own = (days.get(one) ?? []).filter(({ day }) => day >= span.from && day <= span.to);
        const reports = own.map((counted) => reportOf(one, counted));
        if (includedOf === undefined || oldestDay === undefined) return reports;
        const month = { first: span.from, firstUsed: own[0]?.day ?? span.to };
        return withOverage(reports, includedOf, overageUnknown(one, month, oldestDay));
      });
    });
    yield rows.filter((row) => {
      const isAfter = row.account !== after?.account || row.day > after.day;
      return isAfter && (plan ?? row.plan) === row.plan;
    });
  }
}

/** The days of accounts: one question for all without an anchor, and one for all others. */
async function readDays(
  quotas: Pick<QuotaAdmin, "history">,
  accounts: readonly AccountRecord[],
  spansOf: AccountSpans,
  onMissing: OnMissing | undefined,
): Promise<ReadonlyMap<AccountRecord, readonly DayUsage[]>> {
  const found = new Map<AccountRecord, readonly DayUsage[]>();
  for (const isAnchored of [false, true]) {
    const some = accounts.filter(({ calendar }) => (calendar !== undefined) === isAnchored);
    if (some.length === 0) continue;
    const spans = some.flatMap(spansOf);
    const from = Math.min(...spans.map((span) => span.from));
    const to = Math.max(...spans.map((span) => span.to));
    const accountRefs = some.map(({ environment, id: account }) => ({ environment, account }));
    const days = await quotas.history(accountRefs, { from, to }, onMissing);
    for (const [i, one] of some.entries()) found.set(one, days[i] ?? []);
  }
  return found;
}

/** The plan of the last day prices the units of the month (docs/reference/history.md#overage). */
function withOverage(
  reports: readonly DayReport[],
  includedOf: (plan: string) => number | undefined,
  unknown: string | undefined,
): readonly DayReport[] {
  const included = includedOf(reports.at(-1)?.plan ?? "");
  if (included === undefined) return reports.map((report) => ({ ...report, overage: 0 }));
  if (unknown !== undefined) return reports.map((row) => ({ ...row, overageUnknown: unknown }));
  let used = 0;
  return reports.map((report) => {
    const before = Math.max(used, included);
    used += report.units;
    return { ...report, overage: Math.max(0, used - before) };
  });
}

/** Units in the price of a month, by plan; undefined for another period, or if no plan has any. */
export function monthlyIncluded(
  period: Period,
  config: Pick<Config, "planBounds">,
): HistoryFilter["includedOf"] {
  return "month" in period ? includedOfMonth(config) : undefined;
}

/** The units of a month that are in the price of a plan; undefined if no plan includes any. */
export function includedOfMonth({
  planBounds,
}: Pick<Config, "planBounds">): HistoryFilter["includedOf"] {
  const includedOf = (plan: string) => {
    return planBounds.get(plan)?.included.find(({ window }) => window === "month")?.limit;
  };
  return [...planBounds.keys()].some((plan) => includedOf(plan)) ? includedOf : undefined;
}

/**
 * `nowMs` is of the store's clock. The clocks of a Cluster's nodes differ, and one that is ahead may
 * have begun the next day, which is shown too.
 */
export function spansOf(period: Period, nowMs: number): AccountSpans {
  if ("month" in period) {
    const span = monthRange(period.month) as DaySpan;
    const shared = [span];
    return ({ calendar }) => (calendar === undefined ? shared : monthsIn(calendar, span));
  }
  const today = dayOf(nowMs);
  const shared = [{ from: today - period.days + 1, to: today + 1 }];
  return () => shared;
}

function reportOf(
  { id, environment, plan: planNow }: AccountRecord,
  { day, plan = planNow, admitted, units, refused, meters }: DayUsage,
): DayReport {
  const report = { account: id, environment, plan, day: formatDay(day), admitted, units, refused };
  return meters === undefined ? report : { ...report, meters };
}
