import { quoteValue } from "../../base/messages.ts";
import { anchorDays, newCalendar } from "../quota/calendar.ts";
import { capsError } from "./caps.ts";
import {
  anchorError,
  conflictRefusal,
  type EditRefusal,
  expiryError,
  type KeyContext,
  keyTagOf,
  limitsError,
  limitsText,
  metaError,
  missingLimitsError,
  nameError,
  networksError,
  planError,
  scopesError,
  sortLimits,
  storedMeta,
  usageRefusal,
} from "./edit-rules.ts";
import { freshId, type TakenIds } from "./new-ids.ts";
import { findById } from "./record-index.ts";
import { type AccountLimit, type AccountRecord, type Cap, isId, type Records } from "./records.ts";

/**
 * A request for `count` keys. An existing `account` determines environment, plan and limits.
 * Without `account` each key starts an account of its own.
 */
export type NewKeys = {
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly name?: string | undefined;
  readonly account?: string | undefined;
  readonly expiresInMs?: number | undefined;
  readonly limits?: readonly AccountLimit[] | undefined;
  readonly meta?: Readonly<Record<string, string>> | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly from?: readonly string[] | undefined;
  /** Limits of each key alone. */
  readonly caps?: readonly Cap[] | undefined;
  /** The day of the month on which months of a new account begin. */
  readonly anchor?: number | undefined;
  readonly count?: number | undefined;
};

export const COUNT_MAX = 1000;

/** The mistake in the request itself, independent of any records; undefined if there is none. */
export function newKeysError(wanted: NewKeys, context: KeyContext): string | undefined {
  const { environment, plan, account, expiresInMs, count = 1 } = wanted;
  if (environment !== undefined && keyTagOf(context, environment) === undefined) {
    const known = context.environments.map(({ name }) => name).join(", ");
    const unknown = `Cannot issue a key for environment ${quoteValue(environment)} as it is unknown: expected ${known}`;
    const also = planError(plan, context);
    return also === undefined ? unknown : `${unknown}. ${also}`;
  }
  if (account !== undefined && !isId(account)) {
    return `Cannot use the account ${quoteValue(account)}: an ID is 1 to 64 of A-Z a-z 0-9 . _ -, and not . or ..`;
  }
  if (!Number.isInteger(count) || count < 1 || count > COUNT_MAX) {
    return `Cannot issue ${quoteValue(count)} keys: the count must be a whole number from 1 to ${COUNT_MAX}`;
  }
  return (
    planError(plan, context) ??
    limitsError(wanted.limits ?? [], context) ??
    capsError(wanted.caps ?? []) ??
    anchorError(wanted.anchor) ??
    metaError(Object.entries(wanted.meta ?? {})) ??
    nameError(wanted.name) ??
    scopesError(wanted.scopes ?? []) ??
    networksError(wanted.from ?? []) ??
    expiryError(expiresInMs)
  );
}

/** The accounts of the new keys, one for all or one for each. `fresh` are not stored yet. */
export type Owners = {
  readonly of: readonly AccountRecord[];
  readonly fresh: readonly AccountRecord[];
};

export function ownersFor(
  records: Records,
  wanted: NewKeys,
  context: KeyContext,
  taken: TakenIds,
): Owners | EditRefusal {
  const { account, environment, plan } = wanted;
  const present = account === undefined ? undefined : findById(records.accounts, account);
  if (present !== undefined) {
    const clash = accountConflict(present, wanted, context.nowMs);
    return clash === undefined ? { of: [present], fresh: [] } : conflictRefusal(clash);
  }
  const limits = sortLimits(wanted.limits ?? []);
  if (environment === undefined || plan === undefined) {
    const missing = [environment ?? "--env", plan ?? "--plan"].filter((t) => t.startsWith("--"));
    return usageRefusal(
      `Missing ${missing.join(" and ")}: a new account needs an environment and a plan`,
    );
  }
  const lacking = missingLimitsError(plan, limits, context);
  if (lacking !== undefined) return usageRefusal(lacking);
  const isKey = account === undefined ? undefined : idTakenByKey(records, account);
  if (isKey !== undefined) return conflictRefusal(isKey);
  const count = account === undefined ? (wanted.count ?? 1) : 1;
  const of = Array.from({ length: count }, (): AccountRecord => {
    const id = account ?? freshId("a_", context, taken);
    taken.add(id);
    const calendar = wanted.anchor === undefined ? undefined : newCalendar(wanted.anchor);
    const meta = storedMeta(wanted.meta ?? {});
    return {
      ...{ id, environment, plan, limits, meta, createdMs: context.nowMs },
      ...(calendar && { calendar }),
    };
  });
  return { of, fresh: of };
}

/**
 * The reason why an existing account cannot take a key on these terms. The account has its own
 * terms, which are changed in place, for all of its keys.
 */
function accountConflict(
  account: AccountRecord,
  wanted: NewKeys,
  nowMs: number,
): string | undefined {
  const { environment, plan, limits, meta, anchor } = wanted;
  if (environment !== undefined && environment !== account.environment) {
    return `Cannot add a key for ${environment} to account ${account.id}, which lives in ${account.environment}: use another account`;
  }
  const otherPlan = plan !== undefined && plan !== account.plan;
  const otherLimits =
    limits !== undefined && limits.length > 0 && limitsText(limits) !== limitsText(account.limits);
  if (otherPlan || otherLimits) {
    const asked = terms(plan ?? account.plan, limits ?? account.limits);
    return `Cannot add a key on ${asked} to account ${account.id}, which is on ${terms(account.plan, account.limits)}: name that or none, or change it for all of its keys with \`accounts set ${account.id}\``;
  }
  if (Object.entries(meta ?? {}).some(([name, value]) => (account.meta[name] ?? "") !== value)) {
    return `Cannot add a key with other metadata to account ${account.id}: change that with \`accounts set ${account.id} --meta\``;
  }
  const { day, next } = anchorDays(account.calendar, nowMs);
  if (anchor !== undefined && anchor !== (next?.day ?? day)) {
    return `Cannot add a key with the anchor ${anchor} to account ${account.id}, whose anchor is ${next?.day ?? day}: change that with \`accounts set ${account.id} --anchor ${anchor}\``;
  }
  return undefined;
}

/** The reason why an id cannot be that of a new account: an id means one thing. */
function idTakenByKey({ keys }: Records, account: string): string | undefined {
  const owner = findById(keys, account);
  if (owner === undefined) return undefined;
  return `Cannot name an account ${account}, as that is a key of account ${owner.account}`;
}

function terms(plan: string, limits: readonly AccountLimit[]): string {
  return limits.length === 0 ? `plan ${plan}` : `plan ${plan} with ${limitsText(limits)}`;
}
