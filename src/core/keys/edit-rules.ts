import { quoteValue } from "../../base/messages.ts";
import { isCidr } from "../address.ts";
import { ANCHOR_DAY_MAX, anchorDays } from "../quota/calendar.ts";
import { DAY_MS } from "../quota/days.ts";
import { isMeterWindow, PLAN_METERS_MAX } from "../quota/meters.ts";
import { type Limit, WINDOW_NAMES } from "../quota/windows.ts";
import { capsError } from "./caps.ts";
import { findById } from "./record-index.ts";
import {
  type AccountLimit,
  type AccountRecord,
  type Cap,
  isId,
  type KeyRecord,
  type Records,
} from "./records.ts";
import { type LimitChange, windowLimitsError } from "./window-limits.ts";

/**
 * The means of making keys. `random` is as for `makeKey`: cryptographic whole numbers below `max`.
 */
export type KeyContext = {
  readonly keyPrefix: string;
  readonly environments: readonly { readonly name: string; readonly keyTag: string }[];
  readonly plans: ReadonlyMap<string, readonly Limit[] | "custom">;
  /** The meters of all plans and operations; undefined if only a part of them could be read. */
  readonly meters?: readonly string[] | undefined;
  readonly random: (max: number) => number;
  readonly nowMs: number;
};

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

/**
 * usage: the input is wrong (exit 64, HTTP 400). unknown: there is no such ID (1, 404). refused:
 * not possible now (1, 409).
 */
export type EditRefusal = {
  readonly ok: false;
  readonly reason: "usage" | "unknown" | "refused";
  readonly message: string;
};

/** `records` is the whole set after the edit. */
export type EditResult<T> = ({ readonly ok: true; readonly records: Records } & T) | EditRefusal;

const COUNT_MAX = 1000;
/** Text for people on one line, as it may be stored. */
export const NAME_PATTERN = /^\P{Cc}{0,200}$/u;
/**
 * Text as it may be entered: no character reorders or hides the text next to it (Unicode UTS 55).
 */
const GIVEN_NAME = /^(?:[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|[\u200c\u200d]){0,200}$/u;
/** A hundred years: the longest expiry and grace. */
export const PERIOD_MS_MAX = 36_525 * DAY_MS;
const SCOPES_MAX = 20;
/** The form of a scope, both of a key and of a description. */
export const SCOPE_PATTERN = /^[a-z0-9._:/-]{1,64}$/;
export const META_MAX = 16;
export const META_NAME_PATTERN = /^[a-z0-9-]{1,32}$/;
export const META_VALUE_PATTERN = /^[\x21-\x7e]{1,256}$/;
const NETWORKS_MAX = 64;

/** The middle part of an environment's keys; undefined when there is no such environment. */
export function keyTagOf({ environments }: KeyContext, environment: string): string | undefined {
  return environments.find(({ name }) => name === environment)?.keyTag;
}

/** The mistake in the request itself, independent of any records; undefined if there is none. */
export function newKeysError(wanted: NewKeys, context: KeyContext): string | undefined {
  const { environment, plan, account, expiresInMs, count = 1 } = wanted;
  if (environment !== undefined && keyTagOf(context, environment) === undefined) {
    const known = context.environments.map(({ name }) => name).join(", ");
    return `Cannot issue a key for environment ${quoteValue(environment)} as it is unknown: expected ${known}`;
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

export function planError(plan: string | undefined, { plans }: KeyContext): string | undefined {
  if (plan === undefined || plans.has(plan)) return undefined;
  return `Cannot use plan ${quoteValue(plan)} as it is unknown: expected ${[...plans.keys()].join(", ")}`;
}

/** The mistake of a plan whose limits are agreed for each account, if none is given. */
export function missingLimitsError(
  plan: string,
  limits: readonly AccountLimit[],
  { plans }: KeyContext,
): string | undefined {
  const isAgreed = limits.some(({ window }) => WINDOW_NAMES.some((name) => name === window));
  if (plans.get(plan) !== "custom" || isAgreed) return undefined;
  return `Cannot use plan ${plan} without a limit, as its limits are agreed for each account: give at least one, such as minute=500`;
}

/** The windows in their order, followed by the number of concurrent requests. Meters come last. */
export const LIMITED: readonly AccountLimit["window"][] = [...WINDOW_NAMES, "concurrent"];
/** The names of an account's own limits, in words. */
export const LIMITED_WORDS = `${LIMITED.join(", ")}, or a window of a meter such as tokens.month`;

/** Whether an account may have a limit of this name. */
export function isLimited(text: string): text is AccountLimit["window"] {
  return LIMITED.some((known) => known === text) || isMeterWindow(text);
}

/** The mistake in limits of an account's own. A limit gives it a meter that its plan lacks. */
export function limitsError(
  limits: readonly LimitChange<AccountLimit["window"]>[],
  { meters: known }: Pick<KeyContext, "meters">,
): string | undefined {
  // A limit of a meter that the configuration has no more can still be dropped.
  const set = limits.filter(({ limit }) => limit !== null);
  const meters = new Set(set.flatMap(({ window }) => window.match(/^.+(?=\.)/) ?? []));
  const strange = known && [...meters].find((meter) => !known.includes(meter));
  if (strange !== undefined) {
    const there = known?.length
      ? `no plan and no operation has it; the meters are ${known.join(", ")}`
      : "the configuration has no meters";
    return `Cannot limit the meter ${strange}: ${there}`;
  }
  if (meters.size > PLAN_METERS_MAX) {
    return `Cannot limit ${meters.size} meters of an account: at most ${PLAN_METERS_MAX}`;
  }
  const windows = [...LIMITED, ...limits.map(({ window }) => window).filter(isMeterWindow)];
  return windowLimitsError(limits, { verb: "limit", noun: "limit", windows });
}

export function anchorError(anchor: number | undefined): string | undefined {
  const isDay = Number.isInteger(anchor) && Number(anchor) >= 1 && Number(anchor) <= ANCHOR_DAY_MAX;
  if (anchor === undefined || isDay) return undefined;
  return `Cannot use the anchor ${quoteValue(anchor)}: it must be a day of the month from 1 to ${ANCHOR_DAY_MAX}`;
}

/** The mistake in names and values of metadata. The value "" removes a name. */
export function metaError(meta: readonly (readonly [string, string])[]): string | undefined {
  const name = meta.find(([each]) => !META_NAME_PATTERN.test(each))?.[0];
  if (name !== undefined) {
    return `Cannot use the metadata name ${quoteValue(name)}: a name is 1 to 32 of a-z 0-9 -`;
  }
  const wrong = meta.find(([, value]) => value !== "" && !META_VALUE_PATTERN.test(value))?.[0];
  if (wrong !== undefined) {
    return `Cannot use the value of metadata ${wrong}: it must be at most 256 visible ASCII characters`;
  }
  if (meta.length > META_MAX) return `Cannot keep more than ${META_MAX} names of metadata`;
  return undefined;
}

/** Metadata as it is stored: without the names whose value is "". */
export function storedMeta(meta: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(meta).filter(([, value]) => value !== ""));
}

export function nameError(name = ""): string | undefined {
  if (GIVEN_NAME.test(name)) return undefined;
  return `Cannot use the name ${quoteValue(name)}: it must be at most 200 characters, without control characters and marks that turn the direction of text`;
}

/** The mistake in the reason of a ban or of a suspended account. */
export function reasonError(reason = ""): string | undefined {
  if (GIVEN_NAME.test(reason)) return undefined;
  return "Cannot use this reason: it must be at most 200 characters, without control characters and marks that turn the direction of text";
}

export function scopesError(scopes: readonly string[]): string | undefined {
  const wrong = scopes.find((text) => !SCOPE_PATTERN.test(text));
  if (wrong === undefined && scopes.length <= SCOPES_MAX) return undefined;
  return `Cannot use the scopes ${quoteValue(scopes.join(" "))}: at most ${SCOPES_MAX}, each 1 to 64 of a-z 0-9 . _ : / - such as beta`;
}

export function networksError(from: readonly string[]): string | undefined {
  const wrong = from.find((text) => !isCidr(text));
  if (wrong !== undefined) {
    return `Cannot use ${quoteValue(wrong)} as a network: write 10.0.0.0/8, 2001:db8::/32 or an IP address`;
  }
  return from.length > NETWORKS_MAX
    ? `Cannot use more than ${NETWORKS_MAX} networks for a key`
    : undefined;
}

export function expiryError(expiresInMs: number | undefined): string | undefined {
  if (expiresInMs === undefined || isValidPeriod(expiresInMs, 1)) return undefined;
  return `Cannot use the expiry ${expiresInMs}ms: it must be from 1ms to 36525d`;
}

/**
 * The reason why an existing account cannot take a key on these terms. The account has its own
 * terms, which are changed in place, for all of its keys.
 */
export function accountConflict(
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

/** The mistake of a key whose account, `owner`, is not there or lives in another environment. */
export function ownerError(
  { account, environment }: Pick<KeyRecord, "account" | "environment">,
  owner: AccountRecord | undefined,
): string | undefined {
  if (owner === undefined) return `there is no account ${account}`;
  if (owner.environment === environment) return undefined;
  return `account ${account} lives in ${owner.environment}, not in ${environment}`;
}

/** The reason why an id cannot be that of a new account: an id means one thing. */
export function idTakenByKey({ keys }: Records, account: string): string | undefined {
  const owner = findById(keys, account);
  if (owner === undefined) return undefined;
  return `Cannot name an account ${account}, as that is a key of account ${owner.account}`;
}

function terms(plan: string, limits: readonly AccountLimit[]): string {
  return limits.length === 0 ? `plan ${plan}` : `plan ${plan} with ${limitsText(limits)}`;
}

/** "minute=500 day=9", in the order of the windows. */
export function limitsText(limits: readonly AccountLimit[]): string {
  return sortLimits(limits)
    .map(({ window, limit }) => `${window}=${limit}`)
    .join(" ");
}

/** Limits in their order, without other members. */
export function sortLimits(limits: readonly AccountLimit[]): AccountLimit[] {
  return limits
    .map(({ window, limit }) => ({ window, limit }))
    .sort((a, b) => placeOf(a) - placeOf(b) || (a.window < b.window ? -1 : 1));
}

function placeOf({ window }: AccountLimit): number {
  const place = LIMITED.indexOf(window);
  return place < 0 ? LIMITED.length : place;
}

/** Whether a length of time is in the range that may be asked for. */
export function isValidPeriod(periodMs: number, leastMs: number): boolean {
  return Number.isFinite(periodMs) && periodMs >= leastMs && periodMs <= PERIOD_MS_MAX;
}

export function usageRefusal(message: string): EditRefusal {
  return { ok: false, reason: "usage", message };
}

export function conflictRefusal(message: string): EditRefusal {
  return { ok: false, reason: "refused", message };
}
