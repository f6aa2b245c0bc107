import { LIMIT_MAX, type Limit, WINDOWS } from "../quota/windows.ts";
import { ID_PATTERN, type KeyRecord } from "./key.ts";

/**
 * The means to make keys. `random` gives cryptographic whole numbers below `max`, as for formKey.
 */
export type Keyring = {
  readonly keyPrefix: string;
  readonly environments: readonly { readonly name: string; readonly keyTag: string }[];
  readonly plans: ReadonlyMap<string, readonly Limit[] | "custom">;
  readonly random: (max: number) => number;
  readonly nowMs: number;
};

/** `count` keys; without `account` each starts an account of its own, named by the key's id. */
export type WantedKeys = {
  readonly environment: string;
  readonly plan: string;
  readonly name?: string | undefined;
  readonly account?: string | undefined;
  readonly expiresInMs?: number | undefined;
  readonly limits?: readonly Limit[] | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly count?: number | undefined;
};

const COUNT_MAX = 1000;
/** Any text for people on one line. */
export const NAME_PATTERN = /^\P{Cc}{0,200}$/u;
/** A hundred years: the longest expiry and grace. */
export const PERIOD_MS_MAX = 36_525 * 86_400_000;
const SCOPES_MAX = 20;
/** A key has such scopes, and a description can ask for no others. */
export const SCOPE_PATTERN = /^[a-z0-9._:/-]{1,64}$/;

/** Works: neither revoked nor expired at `nowMs`. */
export function isWorking({ revokedMs, expiresMs }: KeyRecord, nowMs: number): boolean {
  return revokedMs === undefined && (expiresMs === undefined || expiresMs > nowMs);
}

/** The middle part of an environment's keys; undefined when there is no such environment. */
export function tagOf({ environments }: Keyring, environment: string): string | undefined {
  return environments.find(({ name }) => name === environment)?.keyTag;
}

/** The mistake in a request for keys, whatever keys there are; undefined when there is none. */
export function mistakeIn(wanted: WantedKeys, ring: Keyring): string | undefined {
  const { plan, name = "", account, expiresInMs, limits = [], scopes = [] } = wanted;
  const windows = ring.plans.get(plan);
  if (windows === undefined) {
    return `Cannot issue a key on plan ${shown(plan)} as it is unknown: expected ${[...ring.plans.keys()].join(", ")}`;
  }
  if (windows === "custom" && limits.length === 0) {
    return `Cannot issue a key on plan ${plan} without a limit, as its limits are agreed per key: give at least one, as in --limit minute=500`;
  }
  for (const { window, limit } of limits) {
    if (!WINDOWS.includes(window)) {
      return `Cannot limit the window ${shown(window)} as it is unknown: expected ${WINDOWS.join(", ")}`;
    }
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
      return `Cannot use the limit ${shown(limit)} per ${window}: it must be a whole number from 1 to 10^12`;
    }
  }
  if (new Set(limits.map(({ window }) => window)).size < limits.length) {
    return "Cannot use two limits for one window: give each window once";
  }
  if (account !== undefined && !ID_PATTERN.test(account)) {
    return `Cannot use the account ${shown(account)}: an ID is 1 to 64 of A-Z a-z 0-9 . _ -`;
  }
  if (!NAME_PATTERN.test(name)) {
    return `Cannot use this name: it must be at most 200 characters, without control characters`;
  }
  const scope = scopes.find((text) => !SCOPE_PATTERN.test(text));
  if (scope !== undefined || scopes.length > SCOPES_MAX) {
    return `Cannot use the scopes ${shown(scopes.join(" "))}: at most ${SCOPES_MAX}, each 1 to 64 of a-z 0-9 . _ : / - such as orders:read`;
  }
  if (expiresInMs !== undefined && !isPeriod(expiresInMs, 1)) {
    return "Cannot use this expiry: it must be from 1ms to 36525d";
  }
  const { count = 1 } = wanted;
  if (!Number.isInteger(count) || count < 1 || count > COUNT_MAX) {
    return `Cannot issue ${shown(count)} keys: the count must be a whole number from 1 to ${COUNT_MAX}`;
  }
  return undefined;
}

/**
 * Why an account cannot take a further key. Its environment is for ever, since its counters live
 * there. Its plan and limits are those of its keys that still work: when none does, the account
 * may take another plan, with counts and bans kept. That is the way to upgrade a plan.
 */
export function clashIn(
  records: readonly KeyRecord[],
  wanted: Pick<KeyRecord, "environment" | "plan" | "account" | "limits">,
  nowMs: number,
): string | undefined {
  const { account, environment, plan, limits } = wanted;
  const owner = records.find((record) => record.id === account && record.account !== account);
  if (owner !== undefined) {
    return `Cannot name an account ${account}, as that is a key of account ${owner.account}`;
  }
  const own = records.filter((record) => record.account === account);
  const elsewhere = own.find((record) => record.environment !== environment);
  if (elsewhere !== undefined) {
    return `Cannot add a key for ${environment} to account ${account}, which lives in ${elsewhere.environment}: use another account`;
  }
  const other = own.find((record) => isWorking(record, nowMs) && !sameTerms(record, plan, limits));
  if (other === undefined) return undefined;
  return `Cannot add a key on ${terms(plan, limits)} to account ${account}, which is on ${terms(other.plan, other.limits)}: give the same, or revoke its keys first to change them`;
}

function sameTerms(record: KeyRecord, plan: string, limits: readonly Limit[]): boolean {
  return terms(record.plan, record.limits) === terms(plan, limits);
}

function terms(plan: string, limits: readonly Limit[]): string {
  const own = inOrder(limits).map(({ window, limit }) => `${window}=${limit}`);
  return own.length === 0 ? `plan ${plan}` : `plan ${plan} with ${own.join(" ")}`;
}

/** Limits in the order of WINDOWS, nothing else inside. */
export function inOrder(limits: readonly Limit[]): Limit[] {
  return limits
    .map(({ window, limit }) => ({ window, limit }))
    .sort((a, b) => WINDOWS.indexOf(a.window) - WINDOWS.indexOf(b.window));
}

/** A length of time that may be asked for. */
export function isPeriod(periodMs: number, leastMs: number): boolean {
  return Number.isFinite(periodMs) && periodMs >= leastMs && periodMs <= PERIOD_MS_MAX;
}

/** Values of a stranger, in a message: quoted, and never long. */
export function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 80);
}
