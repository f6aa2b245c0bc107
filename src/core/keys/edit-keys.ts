import { DAY_MS } from "../quota/days.ts";
import { CAP_NUMBER_MAX } from "../quota/windows.ts";
import { type CapChange, capsError, freeCapNumbers, holdsNumber, mergeCaps } from "./caps.ts";
import {
  conflictRefusal,
  type EditResult,
  expiryError,
  isValidPeriod,
  type KeyContext,
  keyTagOf,
  nameError,
  networksError,
  scopesError,
  usageRefusal,
} from "./edit-rules.ts";
import { findKeys, pickKey } from "./find-records.ts";
import { digestKey, makeKey } from "./key.ts";
import { freshId, type TakenIds, takenIds } from "./new-ids.ts";
import { type NewKeys, newKeysError, ownersFor } from "./new-keys.ts";
import { findById, replaceById } from "./record-index.ts";
import {
  type AccountRecord,
  isWorking,
  type KeyCaps,
  type KeyRecord,
  keyState,
  type Records,
} from "./records.ts";

/** The raw key is only here and in the output that shows it once; the record has its digest. */
export type IssuedKey = {
  readonly key: string;
  readonly record: KeyRecord;
  readonly account: AccountRecord;
};

/**
 * Issues keys. Refuses unknown plans and environments, malformed input, a custom plan without a
 * limit, and a further key of an account on terms other than the account's
 * (docs/reference/keys.md#accounts).
 */
export function issueKeys(
  records: Records,
  wanted: NewKeys,
  context: KeyContext,
): EditResult<{ readonly issued: readonly IssuedKey[] }> {
  const mistake = newKeysError(wanted, context);
  if (mistake !== undefined) return usageRefusal(mistake);
  const taken = takenIds(records, wanted.count ?? 1);
  const owners = ownersFor(records, wanted, context, taken);
  if ("reason" in owners) return owners;
  const { of, fresh } = owners;
  const first = of[0] as AccountRecord;
  const tag = keyTagOf(context, first.environment);
  if (tag === undefined) {
    return conflictRefusal(
      `Cannot issue a key: the environment ${JSON.stringify(first.environment)} of its account is no longer configured`,
    );
  }
  const { expiresInMs, caps = [], count = 1 } = wanted;
  // A key without a given account starts a new account, in which its cap number is the first.
  const capNumbers =
    caps.length === 0 || of.length > 1
      ? []
      : freeCapNumbers(records.keys, first.id, { count, nowMs: context.nowMs });
  if (capNumbers === undefined) return conflictRefusal(tooManyCaps(first.id));
  const issued = Array.from({ length: count }, (_, i): IssuedKey => {
    const account = of[i] ?? first;
    const template = {
      name: wanted.name ?? "",
      environment: account.environment,
      account: account.id,
      scopes: [...new Set(wanted.scopes ?? [])],
      from: [...new Set(wanted.from ?? [])],
      createdMs: context.nowMs,
      ...(expiresInMs === undefined ? {} : { expiresMs: context.nowMs + expiresInMs }),
      ...(caps.length === 0
        ? {}
        : { caps: { number: capNumbers[i] ?? 0, limits: mergeCaps([], caps) } }),
    };
    return { ...make(template, tag, context, taken), account };
  });
  const keys = [...records.keys, ...issued.map(({ record }) => record)];
  const accounts = fresh.length === 0 ? records.accounts : [...records.accounts, ...fresh];
  return { ok: true, records: { keys, accounts }, issued };
}

/** A rotated key keeps working for this long by default (docs/reference/keys.md#rotation). */
export const ROTATION_GRACE_MS = DAY_MS;

/**
 * Rotates a key: issues a new id and secret with the same account, scopes, networks, name and
 * expiry. The old key keeps working for the grace, or until its own expiry if that is sooner.
 * Refuses a key that no longer works. Refuses a key that was rotated before: its successor is the
 * one to rotate.
 */
export function rotateKey(
  records: Records,
  id: string,
  options: KeyContext & { readonly graceMs: number },
): EditResult<{ readonly issued: IssuedKey; readonly previous: KeyRecord }> {
  const { graceMs, nowMs } = options;
  if (!isValidPeriod(graceMs, 0))
    return usageRefusal("Cannot use this grace: it must be from 0s to 36525d");
  const found = pickKey(records, id, nowMs);
  if (!found.ok) return found;
  const old = found.key;
  const state = keyState(old, nowMs);
  if (state !== "works") {
    return conflictRefusal(`Cannot rotate key ${old.id} as it is ${state}: issue a new key`);
  }
  if (old.replacedBy !== undefined) {
    const isHere = findById(records.keys, old.replacedBy) !== undefined;
    return conflictRefusal(
      isHere
        ? `Cannot rotate key ${old.id} as it was rotated before: rotate ${old.replacedBy}`
        : `Cannot rotate key ${old.id} as it was replaced by ${old.replacedBy}, which is not here: issue a new key`,
    );
  }
  const tag = keyTagOf(options, old.environment);
  if (tag === undefined) {
    return conflictRefusal(
      `Cannot rotate key ${old.id}: its environment ${JSON.stringify(old.environment)} is no longer configured`,
    );
  }
  const account = findById(records.accounts, old.account) as AccountRecord;
  const { id: _, digest: __, importId: ___, ...kept } = old;
  const made = make({ ...kept, createdMs: nowMs }, tag, options, takenIds(records, 1));
  const previous: KeyRecord = {
    ...old,
    expiresMs: Math.min(old.expiresMs ?? Number.POSITIVE_INFINITY, nowMs + graceMs),
    replacedBy: made.record.id,
  };
  const keys = [...replaceById(records.keys, [previous]), made.record];
  return { ok: true, records: { ...records, keys }, issued: { ...made, account }, previous };
}

/** The keys that are revoked now; `one`: a key was named, and not its account. */
type Revocation = { readonly revoked: readonly KeyRecord[]; readonly one: boolean };

/**
 * Revokes from `nowMs` on: a key, or every working key of an account. A key that is already revoked
 * keeps its first instant. Refuses a key that no longer works while others of its account do, and
 * names those, because an operator who revokes it means to end something
 * (docs/reference/keys.md#revocation).
 */
export function revokeKeys(records: Records, id: string, nowMs: number): EditResult<Revocation> {
  const one = findById(records.keys, id);
  // Finding the other keys of the account scans all keys, so it is done only if it matters.
  if (one !== undefined && isWorking(one, nowMs))
    return ended(records, [one], { nowMs, one: true });
  const found = findKeys(records, id);
  if (!found.ok) return found;
  const working = found.keys.filter((key) => isWorking(key, nowMs));
  if (one === undefined) {
    if (working.length === 0) {
      return conflictRefusal(`No key of account ${id} works: none is left to revoke`);
    }
    return ended(records, working, { nowMs, one: false });
  }
  const state = keyState(one, nowMs);
  if (working.length > 0) {
    const names = working.map((key) => key.id).join(", ");
    return conflictRefusal(
      `Key ${id} is ${state} already. Of its account ${found.account.id} these still work: ${names}`,
    );
  }
  if (state === "revoked") return { ok: true, records, revoked: [one], one: true };
  return conflictRefusal(`Key ${id} is expired already, and no key of its account works`);
}

function ended(
  records: Records,
  ending: readonly KeyRecord[],
  { nowMs, one }: { readonly nowMs: number; readonly one: boolean },
): EditResult<Revocation> {
  const revoked = ending.map((key): KeyRecord => ({ ...key, revokedMs: nowMs }));
  const keys = replaceById(records.keys, revoked);
  return { ok: true, records: { ...records, keys }, revoked, one };
}

/** `undefined` leaves a member unchanged. `from: []` lets the key work from anywhere again. */
export type KeyChange = {
  readonly name?: string | undefined;
  readonly expiresInMs?: number | "never" | undefined;
  readonly addScopes?: readonly string[] | undefined;
  readonly dropScopes?: readonly string[] | undefined;
  readonly from?: readonly string[] | undefined;
  /** Caps to set or to drop, by window. `dropCaps` removes all caps first. */
  readonly caps?: readonly CapChange[] | undefined;
  readonly dropCaps?: boolean | undefined;
};

/** Changes a key in place. Refuses one that is revoked, because revocation is final. */
export function updateKey(
  records: Records,
  id: string,
  change: KeyChange,
  nowMs: number,
): EditResult<{ readonly changed: KeyRecord }> {
  const { name, expiresInMs, addScopes = [], dropScopes = [], from } = change;
  const found = pickKey(records, id, nowMs);
  if (!found.ok) return found;
  const { key } = found;
  const dropped = new Set(dropScopes);
  const scopes = [...new Set([...key.scopes, ...addScopes])].filter((each) => !dropped.has(each));
  const mistake =
    nameError(name) ??
    scopesError(dropScopes) ??
    scopesError(addScopes) ??
    scopesError(scopes) ??
    networksError(from ?? []) ??
    capsError(change.caps ?? []) ??
    (expiresInMs === "never" ? undefined : expiryError(expiresInMs));
  if (mistake !== undefined) return usageRefusal(mistake);
  if (key.revokedMs !== undefined) {
    return conflictRefusal(`Cannot change key ${key.id} as it is revoked: issue a new key`);
  }
  const caps = changedCaps(records.keys, key, { ...change, nowMs });
  if (caps === "too many") return conflictRefusal(tooManyCaps(key.account));
  const { expiresMs: before, caps: _, ...rest } = key;
  const expiresMs =
    expiresInMs === undefined ? before : expiresInMs === "never" ? undefined : nowMs + expiresInMs;
  const changed: KeyRecord = {
    ...rest,
    name: name ?? key.name,
    scopes,
    from: from === undefined ? key.from : [...new Set(from)],
    ...(expiresMs === undefined ? {} : { expiresMs }),
    ...(caps === undefined ? {} : { caps }),
  };
  return { ok: true, records: { ...records, keys: replaceById(records.keys, [changed]) }, changed };
}

/** Caps that are dropped and set again keep their counts. */
function changedCaps(
  keys: readonly KeyRecord[],
  key: KeyRecord,
  { caps = [], dropCaps = false, nowMs }: KeyChange & { readonly nowMs: number },
): KeyCaps | undefined | "too many" {
  const { caps: old } = key;
  const limits = mergeCaps(dropCaps ? [] : (old?.limits ?? []), caps);
  if (limits.length === 0) return old && { droppedMs: nowMs, ...old, limits };
  const own = old !== undefined && holdsNumber(old, nowMs) ? old.number : undefined;
  const number = own ?? freeCapNumbers(keys, key.account, { count: 1, nowMs })?.[0];
  return number === undefined ? "too many" : { number, limits };
}

function tooManyCaps(account: string): string {
  return `Cannot cap one more key of account ${account}: ${CAP_NUMBER_MAX + 1} of its keys have caps or had some in the last year, those that ended too; a number is free a year after \`keys set ID --no-caps\``;
}

function make(
  template: Omit<KeyRecord, "id" | "digest">,
  tag: string,
  context: KeyContext,
  taken: TakenIds,
): Omit<IssuedKey, "account"> {
  const id = freshId("k_", context, taken);
  const key = makeKey(context.keyPrefix, tag, context.random);
  return { key, record: { id, digest: digestKey(key), ...template } };
}
