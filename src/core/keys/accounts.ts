import { findAccount, unknown } from "./find.ts";
import { replaced } from "./keyring.ts";
import {
  type Edited,
  inOrder,
  isPeriod,
  type Keyring,
  type KeyringRefusal,
  META_MAX,
  mistakeInLimits,
  mistakeInMeta,
  mistakeInName,
  mistakeInPlan,
  refused,
  usage,
  withoutLimits,
} from "./keyring-rules.ts";
import { type AccountRecord, isSuspended, type OwnLimit, type Records } from "./records.ts";

/**
 * A change of an account, for all of its keys. Own limits stay beside another plan; `limits`
 * replace those of their windows, after `dropLimits` has dropped all. Metadata with the value ""
 * goes away.
 */
export type AccountChange = {
  readonly plan?: string | undefined;
  readonly limits?: readonly OwnLimit[] | undefined;
  readonly dropLimits?: boolean | undefined;
  readonly meta?: Readonly<Record<string, string>> | undefined;
};

type Accounts = { readonly accounts: readonly AccountRecord[] };

/** Changes the accounts that the IDs name, all or none. `accounts` are they, as they become. */
export function setAccounts(
  records: Records,
  ids: readonly string[],
  change: AccountChange,
  ring: Keyring,
): Edited<Accounts> {
  const mistake = mistakeInChange(change, ring);
  if (mistake !== undefined) return usage(mistake);
  const named = accountsOf(records, ids);
  if ("because" in named) return named;
  const changed: AccountRecord[] = [];
  for (const account of named) {
    const next = become(account, change, ring);
    if ("because" in next) return next;
    changed.push(next);
  }
  return edited(records, changed);
}

/**
 * The accounts on a plan, for a change of all of them; the plan need not be configured any more.
 * Judges the change of each, so that none is refused half-way.
 */
export function accountsOn(
  { accounts }: Records,
  plan: string,
  change: AccountChange,
  ring: Keyring,
): { readonly ok: true; readonly ids: readonly string[] } | KeyringRefusal {
  const mistake = mistakeInChange(change, ring);
  if (mistake !== undefined) return usage(mistake);
  const on = accounts.filter((account) => account.plan === plan);
  const unknownPlan = on.length === 0 ? mistakeInPlan(plan, ring) : undefined;
  if (unknownPlan !== undefined) return usage(unknownPlan);
  const stuck = on.map((account) => become(account, change, ring)).find((one) => "because" in one);
  if (stuck !== undefined && "because" in stuck) return stuck;
  return { ok: true, ids: on.map(({ id }) => id) };
}

function mistakeInChange(change: AccountChange, ring: Keyring): string | undefined {
  const { plan, limits = [], dropLimits = false, meta = {} } = change;
  if (plan === undefined && limits.length === 0 && !dropLimits && Object.keys(meta).length === 0) {
    return "Nothing to set: give a plan, limits or metadata";
  }
  return (
    mistakeInPlan(plan, ring) ?? mistakeInLimits(limits) ?? mistakeInMeta(Object.entries(meta))
  );
}

function become(
  account: AccountRecord,
  change: AccountChange,
  ring: Keyring,
): AccountRecord | KeyringRefusal {
  const { plan = account.plan, limits: given = [], dropLimits = false } = change;
  const kept = (dropLimits ? [] : account.limits).filter(({ window }) =>
    given.every((limit) => limit.window !== window),
  );
  const limits = inOrder([...kept, ...given]);
  const meta = Object.entries({ ...account.meta, ...change.meta }).filter(([, value]) => value);
  if (meta.length > META_MAX) {
    return usage(`Cannot keep more than ${META_MAX} names of metadata for account ${account.id}`);
  }
  const lacking = withoutLimits(plan, limits, ring);
  if (lacking !== undefined) return usage(`${lacking} (account ${account.id})`);
  return { ...account, plan, limits, meta: Object.fromEntries(meta) };
}

/** `forMs` undefined: until it is resumed. */
export function suspendAccount(
  records: Records,
  id: string,
  how: { readonly forMs?: number | undefined; readonly reason?: string | undefined },
  nowMs: number,
): Edited<Accounts> {
  const { forMs, reason = "" } = how;
  if (forMs !== undefined && !isPeriod(forMs, 1)) {
    return usage(`Cannot use the length ${forMs}ms: it must be from 1ms to 36525d`);
  }
  if (mistakeInName(reason) !== undefined) {
    return usage("Cannot use this reason: it must be at most 200 characters on one line");
  }
  const account = findAccount(records, id);
  if (account === undefined) return unknown(id);
  const until = forMs === undefined ? {} : { untilMs: nowMs + forMs };
  return edited(records, [{ ...account, suspended: { sinceMs: nowMs, ...until, reason } }]);
}

/** Refuses an account that is not suspended. */
export function resumeAccount(records: Records, id: string, nowMs: number): Edited<Accounts> {
  const account = findAccount(records, id);
  if (account === undefined) return unknown(id);
  if (!isSuspended(account, nowMs)) return refused(`Account ${account.id} is not suspended`);
  const { suspended: _, ...resumed } = account;
  return edited(records, [resumed]);
}

function accountsOf(records: Records, ids: readonly string[]): AccountRecord[] | KeyringRefusal {
  const named = new Map<string, AccountRecord>();
  for (const id of ids) {
    const account = findAccount(records, id);
    if (account === undefined) return unknown(id);
    named.set(account.id, account);
  }
  return [...named.values()];
}

function edited(records: Records, accounts: readonly AccountRecord[]): Edited<Accounts> {
  const all = replaced(records.accounts, accounts);
  return { ok: true, records: { ...records, accounts: all }, accounts };
}
