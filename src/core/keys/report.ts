import type { Ban, Verdict } from "../quota/decide.ts";
import type { Limit } from "../quota/windows.ts";
import type { KeyRecord } from "./key.ts";

/**
 * The shapes in which keys, usage and bans are shown to people and programs, made here once for the
 * command line and the admin listener (docs/reference/commands.md#json). Instants are Unix seconds.
 */
export type UsageReport = {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
  readonly windows: readonly WindowReport[];
  readonly strikes: number;
  readonly ban: { readonly until: number; readonly offences: number } | null;
};

export type WindowReport = {
  readonly window: string;
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  readonly reset: number;
};

export type BanReport = {
  readonly account: string;
  readonly environment: string;
  readonly until: number;
  readonly offences: number;
};

export type KeyReport = {
  readonly id: string;
  readonly name: string;
  readonly plan: string;
  readonly environment: string;
  readonly account: string;
  readonly scopes: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
  readonly created: number;
  readonly expires: number | null;
  readonly revoked: number | null;
};

/**
 * The owner of a usage report: an account with its one environment, plan and set of limits
 * (docs/reference/keys.md#accounts).
 */
export type Holder = {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
  readonly limits: readonly Limit[];
};

/**
 * The account that `id` names: an account, or one of its keys. Its plan and limits are those of its
 * newest key, preferring keys that were not revoked. Undefined for an unknown id.
 */
export function findHolder(records: readonly KeyRecord[], id: string): Holder | undefined {
  const named = records.some((record) => record.account === id)
    ? id
    : records.find((record) => record.id === id)?.account;
  const own = records.filter((record) => record.account === named);
  const live = own.filter((record) => record.revokedMs === undefined);
  const newest = [...(live.length > 0 ? live : own)].sort((a, b) => b.createdMs - a.createdMs)[0];
  if (newest === undefined) return undefined;
  const { account, environment, plan, limits } = newest;
  return { account, environment, plan, limits };
}

/** `verdict` is what the store answered to a look at the account. */
export function usageReport(holder: Omit<Holder, "limits">, verdict: Verdict): UsageReport {
  const { account, environment, plan } = holder;
  const windows = verdict.windows.map(({ window, limit, used, resetMs }) => {
    return { window, limit, used, remaining: Math.max(0, limit - used), reset: seconds(resetMs) };
  });
  const { ban, strikes } = verdict;
  const told = ban === undefined ? null : { until: seconds(ban.untilMs), offences: ban.offences };
  return { account, environment, plan, windows, strikes, ban: told };
}

type AccountBan = { readonly account: string; readonly environment: string; readonly ban: Ban };

/** Bans in force, the one that ends last first. */
export function bansReport(bans: readonly AccountBan[]): BanReport[] {
  return [...bans]
    .sort((a, b) => b.ban.untilMs - a.ban.untilMs || (a.account < b.account ? -1 : 1))
    .map(({ account, environment, ban }) => {
      return { account, environment, until: seconds(ban.untilMs), offences: ban.offences };
    });
}

/** A key without its digest: nothing here helps to guess or to find it. */
export function keyReport(record: KeyRecord): KeyReport {
  const { id, name, plan, environment, account, scopes, limits } = record;
  return {
    id,
    name,
    plan,
    environment,
    account,
    scopes,
    limits: Object.fromEntries(limits.map(({ window, limit }) => [window, limit])),
    created: Math.floor(record.createdMs / 1000),
    expires: record.expiresMs === undefined ? null : seconds(record.expiresMs),
    revoked: record.revokedMs === undefined ? null : seconds(record.revokedMs),
  };
}

/**
 * Rounded up, as X-RateLimit-Reset is: waiting until then is always enough
 * (docs/reference/http.md#rate-limit-fields).
 */
function seconds(instantMs: number): number {
  return Math.ceil(instantMs / 1000);
}
