import { quoteValue } from "../../base/messages.ts";
import { isCidr } from "../address.ts";
import { ANCHOR_DAY_MAX } from "../quota/calendar.ts";
import { DAY_MS } from "../quota/days.ts";
import { isMeterWindow, PLAN_METERS_MAX } from "../quota/meters.ts";
import { type Limit, WINDOW_NAMES } from "../quota/windows.ts";
import type { AccountLimit, AccountRecord, KeyRecord, Records } from "./records.ts";
import { type LimitChange, windowLimitsError } from "./window-limits.ts";

/** The means of making keys. `random` gives cryptographic whole numbers below `max`. */
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

/** Text for people on one line, as it may be stored. */
export const NAME_PATTERN = /^\P{Cc}{0,200}$/u;
/** Text as it may be entered: no character reorders or hides text next to it (Unicode UTS 55). */
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

/** The mistake of a key whose account, `owner`, is not there or lives in another environment. */
export function ownerError(
  { account, environment }: Pick<KeyRecord, "account" | "environment">,
  owner: AccountRecord | undefined,
): string | undefined {
  if (owner === undefined) return `there is no account ${account}`;
  if (owner.environment === environment) return undefined;
  return `account ${account} lives in ${owner.environment}, not in ${environment}`;
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
