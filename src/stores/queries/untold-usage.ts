import type { AccountRecord } from "../../core/keys/records.ts";
import { DAY_MS, type DayUsage } from "../../core/quota/days.ts";
import { windowStart } from "../../core/quota/windows.ts";
import type { MissingPart, QuotaStore } from "../quotas/quota-store.ts";
import { type MonthDays, overageUnknown } from "./lost-days.ts";
import type { HistoryFilter } from "./read-history.ts";

/** The usage of a closed day. `plan` is that of the account now if the day has none. */
export type ClosedDay = DayUsage & {
  readonly plan: string;
  /** See DayReport; absent if the plan includes no units of a month. */
  readonly overage?: number;
  /** See DayReport. */
  readonly overageUnknown?: string;
};

/** Closed days of an account that no usage event was acknowledged for, the oldest first. */
export type UntoldUsage = {
  readonly accountRef: { readonly environment: string; readonly account: string };
  readonly days: readonly ClosedDay[];
  /** No further day up to and including this one has any usage. */
  readonly throughDay: number;
};

/** Some accounts. `missing` counts those that could not be read; days up to `closedDay` are closed for all. */
export type UntoldPage = {
  readonly accounts: readonly UntoldUsage[];
  readonly missing: number;
  readonly closedDay: number;
};

export type UntoldOptions = {
  /** How long days are kept. Older days are not read. */
  readonly historyMs: number;
  /** Units of a month that are in the price of a plan; undefined if no plan includes any. */
  readonly includedOf: HistoryFilter["includedOf"];
};

/** Accounts and days that are read together: some ten thousand rows at most are in memory. */
const ACCOUNTS_TOGETHER = 1_000;
const DAYS_TOGETHER = 31;

type MarkedAccount = { readonly account: AccountRecord; readonly from: number };

/**
 * The closed days of accounts that no usage event was acknowledged for, in pages: accounts in their
 * order, and in each page a part of the days, the older ones first. The caller raises the marks of
 * a page before it asks for the next one. Days close by the clock of the store. Rejects if the store
 * is unreachable. Accounts in a part of it that is unreachable are counted as missing.
 */
export async function* readUntoldUsage(
  quotas: Pick<QuotaStore, "history" | "oldestDay" | "partOf" | "usageMarks">,
  accounts: readonly AccountRecord[],
  options: UntoldOptions,
): AsyncGenerator<UntoldPage> {
  for (let at = 0; at < accounts.length; at += ACCOUNTS_TOGETHER) {
    const some = accounts.slice(at, at + ACCOUNTS_TOGETHER);
    const marks = await quotas.usageMarks.read(some.map(nameOf));
    const known = marks.filter((mark) => mark !== undefined);
    // The nodes of a Cluster have clocks of their own.
    const closedDay = Math.min(...known.map((mark) => mark.closedDay));
    const oldest = closedDay - Math.ceil(options.historyMs / DAY_MS);
    const untold = some.flatMap((account, i): MarkedAccount[] => {
      const mark = marks[i];
      if (mark === undefined) return [];
      const from = Math.max(oldest, (mark.day ?? oldest) + 1);
      return from > closedDay ? [] : [{ account, from }];
    });
    const first = Math.min(...untold.map(({ from }) => from));
    let missing = some.length - known.length;
    for (let from = first; from <= closedDay; from += DAYS_TOGETHER) {
      const to = Math.min(from + DAYS_TOGETHER - 1, closedDay);
      const due = untold.filter((one) => one.from <= to);
      const page = await readDays(quotas, due, { from, to }, options);
      missing = Math.max(missing, some.length - known.length + due.length - page.length);
      yield { accounts: page, missing, closedDay };
    }
    if (untold.length === 0) yield { accounts: [], missing, closedDay };
  }
}

async function readDays(
  quotas: Pick<QuotaStore, "history" | "oldestDay" | "partOf">,
  due: readonly MarkedAccount[],
  { from, to }: { readonly from: number; readonly to: number },
  { includedOf }: UntoldOptions,
): Promise<UntoldUsage[]> {
  const away = new Set<string>();
  const onMissing = ({ node }: MissingPart) => away.add(node);
  const accountRefs = due.map(({ account }) => nameOf(account));
  // The overage of a day depends on the days before it in its month.
  const months = due.map(({ account }) => firstOfMonth(account, from));
  const since = includedOf === undefined ? from : Math.min(...months);
  const rows = await quotas.history(accountRefs, { from: since, to }, onMissing);
  // Asked afterwards: a day that went in between counts as missing.
  const oldestDay = await quotas.oldestDay();
  return due.flatMap(({ account, from: first }, i) => {
    const accountRef = accountRefs[i] as (typeof accountRefs)[number];
    const node = quotas.partOf(accountRef)?.node;
    // Without its part the account seems to have no days.
    if (node !== undefined && away.has(node)) return [];
    const days = withOverage(account, rows[i] ?? [], { includedOf, oldestDay });
    return [
      { accountRef, days: days.filter(({ day }) => day >= first && day >= from), throughDay: to },
    ];
  });
}

/** Each day by its own plan: an event that was sent cannot follow a plan that changes later. */
function withOverage(
  account: AccountRecord,
  rows: readonly DayUsage[],
  { includedOf, oldestDay }: Pick<UntoldOptions, "includedOf"> & { readonly oldestDay: number },
): ClosedDay[] {
  let month: MonthDays = { first: Number.NaN, firstUsed: Number.NaN };
  let used = 0;
  return rows.map((row) => {
    const plan = row.plan ?? account.plan;
    const included = includedOf?.(plan);
    const first = includedOf === undefined ? month.first : firstOfMonth(account, row.day);
    if (first !== month.first) [month, used] = [{ first, firstUsed: row.day }, 0];
    const before = used;
    used += row.units;
    if (included === undefined) return { ...row, plan };
    const unknown = overageUnknown(account, month, oldestDay);
    if (unknown !== undefined) return { ...row, plan, overageUnknown: unknown };
    return { ...row, plan, overage: Math.max(0, used - Math.max(before, included)) };
  });
}

/** The first day of the month of the account that holds the day. */
function firstOfMonth({ calendar }: AccountRecord, day: number): number {
  return windowStart("month", day * DAY_MS, calendar) / DAY_MS;
}

function nameOf({ environment, id }: AccountRecord): UntoldUsage["accountRef"] {
  return { environment, account: id };
}
