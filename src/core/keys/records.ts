import { isIP } from "node:net";
import { memoize } from "../../base/memoize.ts";
import { addressGroup, addressMatcher, networkOf, normalizeAddress } from "../address.ts";
import type { Calendar } from "../quota/calendar.ts";
import type { MeterWindow } from "../quota/meters.ts";
import { type Limit, WINDOW_NAMES, type WindowName } from "../quota/windows.ts";
import { accept, type Result, refuse } from "../refusal.ts";

/**
 * The record of a key as it is stored (docs/reference/keys.md#key-records): never the key, only its
 * SHA-256 in hex. The secret is 178 random bits, so a slow hash would add nothing. Instants are
 * Unix milliseconds.
 */
export type KeyRecord = {
  readonly id: string;
  readonly digest: string;
  readonly name: string;
  readonly environment: string;
  readonly account: string;
  readonly scopes: readonly string[];
  /** Networks in CIDR notation; the key works only from there. Empty: it works from anywhere. */
  readonly from: readonly string[];
  readonly createdMs: number;
  readonly expiresMs?: number;
  /** If set, the key is revoked, even if a clock has not reached that instant yet. */
  readonly revokedMs?: number;
  /** Limits of this key alone; undefined if there are none. */
  readonly caps?: KeyCaps;
  /** The id of the key that replaced this one in a rotation. This one works until `expiresMs`. */
  readonly replacedBy?: string;
  /** The id of the import that brought this record, or that last ended it sooner. */
  readonly importId?: string;
};

/** A limit of one key inside its account (docs/reference/keys.md#caps). */
export type Cap = Pick<Limit, "window" | "limit">;

/**
 * The caps of a key, shortest window first, and the number under which they are counted. It is
 * unique in the account, except that a rotated key and its successor share it and its counts. A key
 * whose caps were dropped, at `droppedMs`, has no limits and keeps its number.
 */
export type KeyCaps = {
  readonly number: number;
  readonly limits: readonly Cap[];
  readonly droppedMs?: number;
};

/**
 * The record of an account (docs/reference/keys.md#accounts): the terms of all of its keys.
 * Instants are Unix milliseconds.
 */
export type AccountRecord = {
  readonly id: string;
  /** Never changes, because its counters are kept in this environment. */
  readonly environment: string;
  readonly plan: string;
  /** Limits agreed for this account. Each replaces that of the plan. */
  readonly limits: readonly AccountLimit[];
  /** Sent to the backend as X-Consumer-Meta-NAME. */
  readonly meta: Readonly<Record<string, string>>;
  readonly createdMs: number;
  readonly suspended?: Suspension;
  /** The id of the import that brought this record. */
  readonly importId?: string;
  /** The days on which its months begin; undefined if that is the first day. */
  readonly calendar?: Calendar;
};

/**
 * A limit of an account's own: of a window, of its concurrent requests, or of a window of a meter,
 * such as `tokens.month`.
 */
export type AccountLimit = {
  readonly window: WindowName | "concurrent" | MeterWindow;
  readonly limit: number;
};

/** Without `untilMs` a suspension lasts until the account is resumed. */
export type Suspension = {
  readonly sinceMs: number;
  readonly untilMs?: number;
  readonly reason: string;
};

/** All stored records. The account of each key is among them. Ids and digests are unique. */
export type Records = {
  readonly keys: readonly KeyRecord[];
  readonly accounts: readonly AccountRecord[];
};

export const NO_RECORDS: Records = { keys: [], accounts: [] };

/** Ids of keys and accounts as they are stored (docs/reference/keys.md#ids). */
export const ID_PATTERN = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * Whether requests without a key are counted under this name: `addr:192.0.2.1`. No account has such
 * an id (docs/reference/plans.md#public-operations).
 */
export function isAddressName(account: string): boolean {
  return account.startsWith("addr:");
}

/** The account of requests without a key from this address. IPv6 addresses of one /64 share it. */
export function addressAccount(address: string): string {
  return `addr:${addressGroup(address)}`;
}

/**
 * The account of a name such as `addr:192.0.2.1`, whatever the spelling of the address, as people
 * paste it from a log line. Undefined if the name has no address.
 */
export function parseAddressName(name: string): string | undefined {
  if (name === "addr:other") return name;
  const [, text = "", network] = /^addr:([^/]*)(\/64)?$/.exec(name) ?? [];
  if (network !== undefined) return isIP(text) === 6 ? `addr:${networkOf(text)}` : undefined;
  const address = normalizeAddress(text);
  return isIP(address) === 0 ? undefined : addressAccount(address);
}

/** Whether an id may be chosen. "." and ".." are folders to software that makes a path of it. */
export function isId(text: string): boolean {
  return ID_PATTERN.test(text) && text !== "." && text !== "..";
}

/** Whether a key works at `nowMs`, and if not, why. This is the only definition. */
export function keyState(
  { revokedMs, expiresMs }: Pick<KeyRecord, "revokedMs" | "expiresMs">,
  nowMs: number,
): "works" | "expired" | "revoked" {
  if (revokedMs !== undefined) return "revoked";
  return expiresMs !== undefined && expiresMs <= nowMs ? "expired" : "works";
}

/** Whether a key is neither revoked nor expired at `nowMs`. */
export function isWorking(key: KeyRecord, nowMs: number): boolean {
  return keyState(key, nowMs) === "works";
}

/** Whether an account is suspended at `nowMs`. */
export function isSuspended({ suspended }: AccountRecord, nowMs: number): boolean {
  return suspended !== undefined && (suspended.untilMs ?? Number.POSITIVE_INFINITY) > nowMs;
}

/**
 * Checks a key record. Unknown, revoked, expired and wrong environment look the same to the client;
 * the log tells them apart.
 */
export function checkKeyRecord(
  record: KeyRecord | undefined,
  environment: string,
  nowMs: number,
): Result<KeyRecord> {
  if (record === undefined) return refuse("key_invalid", "unknown key");
  if (record.environment !== environment) return refuse("key_invalid", "another environment");
  const state = keyState(record, nowMs);
  return state === "works" ? accept(record) : refuse("key_invalid", `${state} key`);
}

/** A plan's windows, replaced by the account's own. "custom" has only the account's. */
export function effectiveLimits(
  plan: readonly Limit[] | "custom",
  own: readonly AccountLimit[],
): Limit[] {
  const base = plan === "custom" ? [] : plan;
  const kept = base.filter(({ window }) => !own.some((mine) => mine.window === window));
  const windows = own.flatMap(({ window: text, limit }) => {
    const window = WINDOW_NAMES.find((name) => name === text);
    return window === undefined ? [] : [{ window, limit }];
  });
  return [...kept, ...windows].sort(
    (a, b) => WINDOW_NAMES.indexOf(a.window) - WINDOW_NAMES.indexOf(b.window),
  );
}

/** The most concurrent requests of an account, if a number is agreed for it. */
export function accountConcurrency({ limits }: AccountRecord): number | undefined {
  return limits.find(({ window }) => window === "concurrent")?.limit;
}

/**
 * Merges two records of one key. The earlier of two ends applies, so that news that arrives late
 * never restores a revoked key (docs/reference/keys.md#copies). A rotation that only one of them knows
 * counts too, or the key could be rotated twice. Returns `key` itself if `other` adds nothing.
 */
export function earliestEnd(key: KeyRecord, other: KeyRecord): KeyRecord {
  const revokedMs = earlier(key.revokedMs, other.revokedMs);
  const expiresMs = earlier(key.expiresMs, other.expiresMs);
  const replacedBy = key.replacedBy ?? other.replacedBy;
  if (revokedMs === key.revokedMs && expiresMs === key.expiresMs && replacedBy === key.replacedBy) {
    return key;
  }
  return {
    ...key,
    ...(replacedBy === undefined ? {} : { replacedBy }),
    ...(revokedMs === undefined ? {} : { revokedMs }),
    ...(expiresMs === undefined ? {} : { expiresMs }),
  };
}

function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

/** Built once for each list, because a record is replaced, never changed. */
const matcherOf = memoize((from: readonly string[]) => addressMatcher(from));

/** Whether the key works from the client's address (docs/reference/keys.md#networks). */
export function isKeyAllowedFrom({ from }: Pick<KeyRecord, "from">, client: string): boolean {
  return from.length === 0 || matcherOf(from)(client);
}
