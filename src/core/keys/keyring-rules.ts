import { isNetwork } from "../networks.ts";
import { LIMIT_MAX, type Limit, WINDOWS } from "../quota/windows.ts";
import { byId } from "./record-index.ts";
import { type AccountRecord, isId, type OwnLimit, type Records } from "./records.ts";

/** The means of making keys. `random` as for formKey: cryptographic whole numbers below `max`. */
export type Keyring = {
  readonly keyPrefix: string;
  readonly environments: readonly { readonly name: string; readonly keyTag: string }[];
  readonly plans: ReadonlyMap<string, readonly Limit[] | "custom">;
  readonly random: (max: number) => number;
  readonly nowMs: number;
};

/**
 * `count` keys. `account` that is there says environment, plan and limits; without `account` each
 * key starts an account of its own.
 */
export type WantedKeys = {
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly name?: string | undefined;
  readonly account?: string | undefined;
  readonly expiresInMs?: number | undefined;
  readonly limits?: readonly OwnLimit[] | undefined;
  readonly meta?: Readonly<Record<string, string>> | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly from?: readonly string[] | undefined;
  readonly count?: number | undefined;
};

/** usage: wrong input (exit 64, HTTP 400); unknown: no such ID (1, 404); refused: not now (1, 409). */
export type KeyringRefusal = {
  readonly ok: false;
  readonly because: "usage" | "unknown" | "refused";
  readonly message: string;
};

/** `records` is the whole set after the edit. */
export type Edited<T> = ({ readonly ok: true; readonly records: Records } & T) | KeyringRefusal;

const COUNT_MAX = 1000;
/** Text for people on one line, as it may rest. */
export const NAME_PATTERN = /^\P{Cc}{0,200}$/u;
/** As it may be given: nothing that reorders or hides what stands beside it (Unicode UTS 55). */
const GIVEN_NAME = /^(?:[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|[\u200c\u200d]){0,200}$/u;
/** A hundred years: the longest expiry and grace. */
export const PERIOD_MS_MAX = 36_525 * 86_400_000;
const SCOPES_MAX = 20;
/** A key has such scopes, and a description can ask for no others. */
export const SCOPE_PATTERN = /^[a-z0-9._:/-]{1,64}$/;
export const META_MAX = 16;
export const META_NAME_PATTERN = /^[a-z0-9-]{1,32}$/;
export const META_VALUE_PATTERN = /^[\x21-\x7e]{1,256}$/;
const NETWORKS_MAX = 64;

/** The middle part of an environment's keys; undefined when there is no such environment. */
export function tagOf({ environments }: Keyring, environment: string): string | undefined {
  return environments.find(({ name }) => name === environment)?.keyTag;
}

/** The mistake in the wish itself, whatever records there are; undefined when it has none. */
export function mistakeIn(wanted: WantedKeys, ring: Keyring): string | undefined {
  const { environment, plan, account, expiresInMs, count = 1 } = wanted;
  if (environment !== undefined && tagOf(ring, environment) === undefined) {
    const known = ring.environments.map(({ name }) => name).join(", ");
    return `Cannot issue a key for environment ${shown(environment)} as it is unknown: expected ${known}`;
  }
  if (account !== undefined && !isId(account)) {
    return `Cannot use the account ${shown(account)}: an ID is 1 to 64 of A-Z a-z 0-9 . _ -, and not . or ..`;
  }
  if (!Number.isInteger(count) || count < 1 || count > COUNT_MAX) {
    return `Cannot issue ${shown(count)} keys: the count must be a whole number from 1 to ${COUNT_MAX}`;
  }
  return (
    mistakeInPlan(plan, ring) ??
    mistakeInLimits(wanted.limits ?? []) ??
    mistakeInMeta(Object.entries(wanted.meta ?? {})) ??
    mistakeInName(wanted.name) ??
    mistakeInScopes(wanted.scopes ?? []) ??
    mistakeInNetworks(wanted.from ?? []) ??
    mistakeInExpiry(expiresInMs)
  );
}

export function mistakeInPlan(plan: string | undefined, { plans }: Keyring): string | undefined {
  if (plan === undefined || plans.has(plan)) return undefined;
  return `Cannot use plan ${shown(plan)} as it is unknown: expected ${[...plans.keys()].join(", ")}`;
}

/** A plan whose limits are agreed for each account needs at least one of them. */
export function withoutLimits(
  plan: string,
  limits: readonly OwnLimit[],
  { plans }: Keyring,
): string | undefined {
  const isAgreed = limits.some(({ window }) => window !== "concurrent");
  if (plans.get(plan) !== "custom" || isAgreed) return undefined;
  return `Cannot use plan ${plan} without a limit, as its limits are agreed for each account: give at least one, as in --limit minute=500`;
}

/** The windows in their order, and behind them the requests under way at once. */
export const LIMITED: readonly OwnLimit["window"][] = [...WINDOWS, "concurrent"];

export function mistakeInLimits(limits: readonly OwnLimit[]): string | undefined {
  for (const { window, limit } of limits) {
    if (!LIMITED.includes(window)) {
      return `Cannot limit the window ${shown(window)} as it is unknown: expected ${LIMITED.join(", ")}`;
    }
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
      return `Cannot use the limit ${shown(limit)} per ${window}: it must be a whole number from 1 to 10^12`;
    }
  }
  if (new Set(limits.map(({ window }) => window)).size < limits.length) {
    return "Cannot use two limits for one window: give each window once";
  }
  return undefined;
}

/** Names and values of metadata; a value "" takes the name away, where that is allowed. */
export function mistakeInMeta(meta: readonly (readonly [string, string])[]): string | undefined {
  const name = meta.find(([each]) => !META_NAME_PATTERN.test(each))?.[0];
  if (name !== undefined) {
    return `Cannot use the metadata name ${shown(name)}: a name is 1 to 32 of a-z 0-9 -`;
  }
  const wrong = meta.find(([, value]) => value !== "" && !META_VALUE_PATTERN.test(value))?.[0];
  if (wrong !== undefined) {
    return `Cannot use the value of metadata ${wrong}: it must be at most 256 visible ASCII characters`;
  }
  if (meta.length > META_MAX) return `Cannot keep more than ${META_MAX} names of metadata`;
  return undefined;
}

export function mistakeInName(name = ""): string | undefined {
  if (GIVEN_NAME.test(name)) return undefined;
  return `Cannot use the name ${shown(name)}: it must be at most 200 characters, without control characters and marks that turn the direction of text`;
}

export function mistakeInScopes(scopes: readonly string[]): string | undefined {
  const wrong = scopes.find((text) => !SCOPE_PATTERN.test(text));
  if (wrong === undefined && scopes.length <= SCOPES_MAX) return undefined;
  return `Cannot use the scopes ${shown(scopes.join(" "))}: at most ${SCOPES_MAX}, each 1 to 64 of a-z 0-9 . _ : / - such as beta`;
}

export function mistakeInNetworks(from: readonly string[]): string | undefined {
  const wrong = from.find((text) => !isNetwork(text));
  if (wrong !== undefined) {
    return `Cannot use ${shown(wrong)} as a network: write 10.0.0.0/8, 2001:db8::/32 or an IP address`;
  }
  return from.length > NETWORKS_MAX
    ? `Cannot use more than ${NETWORKS_MAX} networks for a key`
    : undefined;
}

export function mistakeInExpiry(expiresInMs: number | undefined): string | undefined {
  if (expiresInMs === undefined || isPeriod(expiresInMs, 1)) return undefined;
  return `Cannot use the expiry ${expiresInMs}ms: it must be from 1ms to 36525d`;
}

/**
 * Why an account that is there cannot take a key on these terms: it has its own, and they are
 * changed in place, for all of its keys.
 */
export function clashWith(account: AccountRecord, wanted: WantedKeys): string | undefined {
  const { environment, plan, limits, meta } = wanted;
  if (environment !== undefined && environment !== account.environment) {
    return `Cannot add a key for ${environment} to account ${account.id}, which lives in ${account.environment}: use another account`;
  }
  const otherPlan = plan !== undefined && plan !== account.plan;
  const otherLimits =
    limits !== undefined && limits.length > 0 && limitsText(limits) !== limitsText(account.limits);
  if (otherPlan || otherLimits) {
    const asked = terms(plan ?? account.plan, limits ?? account.limits);
    return `Cannot add a key on ${asked} to account ${account.id}, which is on ${terms(account.plan, account.limits)}: leave them out, or change them for all of its keys with \`accounts set ${account.id}\``;
  }
  if (Object.entries(meta ?? {}).some(([name, value]) => account.meta[name] !== value)) {
    return `Cannot add a key with other metadata to account ${account.id}: change that with \`accounts set ${account.id} --meta\``;
  }
  return undefined;
}

/** Why an id cannot be that of a new account: ids mean one thing. */
export function accountIsKey({ keys }: Records, account: string): string | undefined {
  const owner = byId(keys, account);
  if (owner === undefined) return undefined;
  return `Cannot name an account ${account}, as that is a key of account ${owner.account}`;
}

function terms(plan: string, limits: readonly OwnLimit[]): string {
  return limits.length === 0 ? `plan ${plan}` : `plan ${plan} with ${limitsText(limits)}`;
}

/** "minute=500 day=9", in the order of the windows. */
export function limitsText(limits: readonly OwnLimit[]): string {
  return inOrder(limits)
    .map(({ window, limit }) => `${window}=${limit}`)
    .join(" ");
}

/** Limits in their order, nothing else inside. */
export function inOrder(limits: readonly OwnLimit[]): OwnLimit[] {
  return limits
    .map(({ window, limit }) => ({ window, limit }))
    .sort((a, b) => LIMITED.indexOf(a.window) - LIMITED.indexOf(b.window));
}

/** A length of time that may be asked for. */
export function isPeriod(periodMs: number, leastMs: number): boolean {
  return Number.isFinite(periodMs) && periodMs >= leastMs && periodMs <= PERIOD_MS_MAX;
}

/** Values of a stranger, in a message: quoted, and never long. */
export function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 80);
}

export function usage(message: string): KeyringRefusal {
  return { ok: false, because: "usage", message };
}

export function refused(message: string): KeyringRefusal {
  return { ok: false, because: "refused", message };
}
