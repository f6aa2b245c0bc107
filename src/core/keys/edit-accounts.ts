import { type Anchor, changeAnchor } from "../quota/calendar.ts";
import { dayOf, formatDay } from "../quota/days.ts";
import { effectiveMeters } from "../quota/meters.ts";
import {
  anchorError,
  conflictRefusal,
  type EditRefusal,
  type EditResult,
  isValidPeriod,
  type KeyContext,
  limitsError,
  META_MAX,
  metaError,
  missingLimitsError,
  planError,
  reasonError,
  sortLimits,
  storedMeta,
  usageRefusal,
} from "./edit-rules.ts";
import { findAccount, unknownIdRefusal } from "./find-records.ts";
import { replaceById } from "./record-index.ts";
import type { AccountLimit, AccountRecord, Records } from "./records.ts";
import { applyLimitChanges, type LimitChange } from "./window-limits.ts";

/**
 * A change of an account, for all of its keys. Its own limits stay when the plan changes. `limits`
 * set or drop those of the same windows, after `dropLimits` has dropped all. Metadata with the value
 * "" is removed. `anchor` is the day on which months begin, from the end of the running month on.
 */
export type AccountChange = {
  readonly plan?: string | undefined;
  readonly limits?: readonly LimitChange<AccountLimit["window"]>[] | undefined;
  readonly dropLimits?: boolean | undefined;
  readonly meta?: Readonly<Record<string, string>> | undefined;
  readonly anchor?: number | undefined;
};

type Accounts = { readonly accounts: readonly AccountRecord[] };

/** Changes the accounts that the IDs name, all or none. `accounts` are the changed accounts. */
export function updateAccounts(
  records: Records,
  ids: readonly string[],
  change: AccountChange,
  context: KeyContext,
): EditResult<Accounts> {
  const mistake = mistakeInChange(change, context);
  if (mistake !== undefined) return usageRefusal(mistake);
  const named = accountsOf(records, ids);
  if ("reason" in named) return named;
  const changed: AccountRecord[] = [];
  for (const account of named) {
    const next = become(account, change, context);
    if ("reason" in next) return next;
    changed.push(next);
  }
  return edited(records, changed);
}

/**
 * The accounts on a plan that a change of all of them would make different. The plan need not be configured any more.
 * Checks the change of each account first, so that the edit cannot fail half-way.
 */
export function accountsOnPlan(
  { accounts }: Records,
  plan: string,
  change: AccountChange,
  context: KeyContext,
): { readonly ok: true; readonly ids: readonly string[] } | EditRefusal {
  const mistake = mistakeInChange(change, context);
  if (mistake !== undefined) return usageRefusal(mistake);
  const on = accounts.filter((account) => account.plan === plan);
  const unknownPlan = on.length === 0 ? planError(plan, context) : undefined;
  if (unknownPlan !== undefined) return usageRefusal(unknownPlan);
  const ids: string[] = [];
  for (const account of on) {
    const next = become(account, change, context);
    if ("reason" in next) return next;
    if (JSON.stringify(next) !== JSON.stringify(account)) ids.push(account.id);
  }
  return { ok: true, ids };
}

function mistakeInChange(change: AccountChange, context: KeyContext): string | undefined {
  const { plan, limits = [], dropLimits = false, meta = {}, anchor } = change;
  const lists = limits.length + Object.keys(meta).length;
  if (plan === undefined && lists === 0 && !dropLimits && anchor === undefined) {
    return "Nothing to set: give a plan, limits, an anchor or metadata";
  }
  return (
    planError(plan, context) ??
    limitsError(limits, context) ??
    anchorError(anchor) ??
    metaError(Object.entries(meta))
  );
}

function become(
  account: AccountRecord,
  change: AccountChange,
  context: KeyContext,
): AccountRecord | EditRefusal {
  const { plan = account.plan, limits: given = [], dropLimits = false } = change;
  const limits = sortLimits(applyLimitChanges(dropLimits ? [] : account.limits, given));
  const meta = storedMeta({ ...account.meta, ...change.meta });
  if (Object.keys(meta).length > META_MAX) {
    return usageRefusal(
      `Cannot keep more than ${META_MAX} names of metadata for account ${account.id}`,
    );
  }
  // An account of an earlier version may have more meters, and stays as changeable as it was.
  const hasMore = meterCount(limits) > meterCount(account.limits);
  const mistake =
    (hasMore ? limitsError(limits, {}) : undefined) ?? missingLimitsError(plan, limits, context);
  if (mistake !== undefined) return usageRefusal(`${mistake} (account ${account.id})`);
  const next = { ...account, plan, limits, meta };
  if (change.anchor === undefined) return next;
  const changed = changeAnchor(account.calendar, change.anchor, context.nowMs);
  if ("next" in changed) return conflictRefusal(secondAnchorMessage(account.id, changed.next));
  return changed.calendar.length === 0 ? next : { ...next, calendar: changed.calendar };
}

function meterCount(limits: readonly AccountLimit[]): number {
  return effectiveMeters([], limits).length;
}

function secondAnchorMessage(account: string, { day, fromMs }: Anchor): string {
  return `Cannot change the anchor of account ${account} again in this month: its months begin on day ${day} from ${formatDay(dayOf(fromMs))} on, and from then on it can be changed`;
}

/** Suspends an account. If `forMs` is undefined, it stays suspended until it is resumed. */
export function suspendAccount(
  records: Records,
  id: string,
  how: { readonly forMs?: number | undefined; readonly reason?: string | undefined },
  nowMs: number,
): EditResult<Accounts> {
  const { forMs, reason = "" } = how;
  if (forMs !== undefined && !isValidPeriod(forMs, 1)) {
    return usageRefusal(`Cannot use the length ${forMs}ms: it must be from 1ms to 36525d`);
  }
  const wrong = reasonError(reason);
  if (wrong !== undefined) return usageRefusal(wrong);
  const account = findAccount(records, id);
  if (account === undefined) return unknownIdRefusal(id);
  const until = forMs === undefined ? {} : { untilMs: nowMs + forMs };
  return edited(records, [{ ...account, suspended: { sinceMs: nowMs, ...until, reason } }]);
}

/**
 * Resumes an account. Refuses one without a suspension. One that is over by this clock is removed
 * too, because another machine's clock may be behind.
 */
export function resumeAccount(records: Records, id: string): EditResult<Accounts> {
  const account = findAccount(records, id);
  if (account === undefined) return unknownIdRefusal(id);
  if (account.suspended === undefined)
    return conflictRefusal(`Account ${account.id} is not suspended`);
  const { suspended: _, ...resumed } = account;
  return edited(records, [resumed]);
}

function accountsOf(records: Records, ids: readonly string[]): AccountRecord[] | EditRefusal {
  const named = new Map<string, AccountRecord>();
  for (const id of ids) {
    const account = findAccount(records, id);
    if (account === undefined) return unknownIdRefusal(id);
    named.set(account.id, account);
  }
  return [...named.values()];
}

function edited(records: Records, accounts: readonly AccountRecord[]): EditResult<Accounts> {
  const all = replaceById(records.accounts, accounts);
  return { ok: true, records: { ...records, accounts: all }, accounts };
}
