import { anchorDays } from "../quota/calendar.ts";
import { formatDay } from "../quota/days.ts";
import { roundUpToSeconds } from "../quota/whole-seconds.ts";
import type { IssuedKey } from "./edit-keys.ts";
import { maskKeys } from "./key.ts";
import { findById, isIndexed } from "./record-index.ts";
import {
  type AccountRecord,
  isSuspended,
  isWorking,
  type KeyRecord,
  type Records,
} from "./records.ts";
import { limitsByWindow } from "./window-limits.ts";

/**
 * The shapes in which keys and accounts are shown to people and programs, made here once for the
 * command line and the admin listener (docs/reference/commands.md#json). Instants are Unix seconds.
 */
export type KeyReport = {
  readonly id: string;
  readonly name: string;
  readonly plan: string;
  readonly environment: string;
  readonly account: string;
  readonly scopes: readonly string[];
  readonly from: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
  /** Limits of this key alone, by window. */
  readonly caps: Readonly<Record<string, number>>;
  readonly created: number;
  readonly expires: number | null;
  readonly revoked: number | null;
  /** The last day of UTC on which it was used, such as 2026-10-21; null if none is known. */
  readonly lastUsed?: string | null;
};

/** A key without its digest: nothing here helps to guess or to find the key. */
export function keyReport(record: KeyRecord, account: AccountRecord): KeyReport {
  const { id, name, environment, scopes, from } = record;
  return {
    id,
    name: maskKeys(name),
    plan: account.plan,
    environment,
    account: record.account,
    scopes,
    from,
    limits: limitsByWindow(account.limits),
    caps: limitsByWindow(record.caps?.limits ?? []),
    created: Math.floor(record.createdMs / 1000),
    expires: secondsOrNull(record.expiresMs),
    revoked: secondsOrNull(record.revokedMs),
  };
}

/** A report with the key itself: shown once, in the response that issues it, and never again. */
export function issuedReport({
  key,
  record,
  account,
}: IssuedKey): KeyReport & { readonly key: string } {
  const { id, ...rest } = keyReport(record, account);
  return { id, key, ...rest };
}

/** Keys with the terms of their accounts, in the order given. */
export function keyReports(
  keys: readonly KeyRecord[],
  { accounts }: Pick<Records, "accounts">,
): KeyReport[] {
  if (isIndexed(accounts)) {
    return keys.map((key) => keyReport(key, findById(accounts, key.account) as AccountRecord));
  }
  const wanted = new Set(keys.map(({ account }) => account));
  const named = new Map<string, AccountRecord>();
  for (const account of accounts) if (wanted.has(account.id)) named.set(account.id, account);
  return keys.map((key) => keyReport(key, named.get(key.account) as AccountRecord));
}

/** The same, with the last day on which each key was used, if it is known. */
export function keyReportsWithLastUse(
  keys: readonly KeyRecord[],
  records: Pick<Records, "accounts">,
  lastUsed: ReadonlyMap<string, number>,
): KeyReport[] {
  return keyReports(keys, records).map((report) => {
    const day = lastUsed.get(report.id);
    return { ...report, lastUsed: day === undefined ? null : formatDay(day) };
  });
}

export type AccountReport = {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
  readonly limits: Readonly<Record<string, number>>;
  readonly meta: Readonly<Record<string, string>>;
  /** The day on which its months begin, and when they begin to; null if they do already. */
  readonly anchor: number;
  readonly anchorFrom: number | null;
  readonly state: "active" | "suspended";
  readonly suspended: {
    readonly since: number;
    readonly until: number | null;
    readonly reason: string;
  } | null;
  readonly created: number;
  /** Ids of its keys that work. */
  readonly keys: readonly string[];
  /** Names of its keys, also of those that no longer work; each once, at most ten. */
  readonly names: readonly string[];
};

const NAMES_MAX = 10;

/** Accounts with their working keys, in the order given. */
export function accountReports(
  accounts: readonly AccountRecord[],
  { keys }: Pick<Records, "keys">,
  nowMs: number,
): AccountReport[] {
  const held = new Map(
    accounts.map(({ id }) => [id, { working: [] as string[], names: new Set<string>() }]),
  );
  for (const key of keys) {
    const of = held.get(key.account);
    if (of === undefined) continue;
    if (isWorking(key, nowMs)) of.working.push(key.id);
    if (key.name !== "" && of.names.size < NAMES_MAX) of.names.add(maskKeys(key.name));
  }
  return accounts.map((account) => {
    const { id, environment, plan, meta, suspended, createdMs } = account;
    const ended = suspended === undefined || !isSuspended(account, nowMs);
    const { day, next } = anchorDays(account.calendar, nowMs);
    return {
      account: id,
      environment,
      plan,
      limits: limitsByWindow(account.limits),
      meta,
      anchor: next?.day ?? day,
      anchorFrom: secondsOrNull(next?.fromMs),
      state: ended ? "active" : "suspended",
      suspended: ended
        ? null
        : {
            since: Math.floor(suspended.sinceMs / 1000),
            until: secondsOrNull(suspended.untilMs),
            reason: maskKeys(suspended.reason),
          },
      created: Math.floor(createdMs / 1000),
      keys: held.get(id)?.working ?? [],
      names: [...(held.get(id)?.names ?? [])],
    };
  });
}

function secondsOrNull(instantMs: number | undefined): number | null {
  return instantMs === undefined ? null : roundUpToSeconds(instantMs);
}
