import { BASE62, digestKey, formKey, type KeyRecord } from "./key.ts";
import {
  clashIn,
  inOrder,
  isPeriod,
  isWorking,
  type Keyring,
  mistakeIn,
  shown,
  tagOf,
  type WantedKeys,
} from "./keyring-rules.ts";

/** The raw key exists here and in what the editor is told, once; the record has its digest. */
export type IssuedKey = { readonly key: string; readonly record: KeyRecord };

/** usage: wrong input (exit 64, HTTP 400); unknown: no such ID (1, 404); refused: not now (1, 409). */
export type KeyringRefusal = {
  readonly ok: false;
  readonly because: "usage" | "unknown" | "refused";
  readonly message: string;
};

/** `records` is the whole set after the edit. */
type Edited<T> =
  | ({ readonly ok: true; readonly records: readonly KeyRecord[] } & T)
  | KeyringRefusal;

/**
 * Issues keys. Refuses unknown plans and environments, malformed input, a custom plan without a
 * limit, and a further key of an account with another environment, plan or limits
 * (docs/reference/keys.md#accounts).
 */
export function issueKeys(
  records: readonly KeyRecord[],
  wanted: WantedKeys,
  ring: Keyring,
): Edited<{ readonly issued: readonly IssuedKey[] }> {
  const tag = tagOf(ring, wanted.environment);
  if (tag === undefined) {
    const known = ring.environments.map(({ name }) => name).join(", ");
    return usage(
      `Cannot issue a key for environment ${shown(wanted.environment)} as it is unknown: expected ${known}`,
    );
  }
  const mistake = mistakeIn(wanted, ring);
  if (mistake !== undefined) return usage(mistake);
  const { environment, plan, account, expiresInMs, count = 1 } = wanted;
  const limits = inOrder(wanted.limits ?? []);
  if (account !== undefined) {
    const clash = clashIn(records, { environment, plan, account, limits }, ring.nowMs);
    if (clash !== undefined) return refused(clash);
  }

  const taken = takenIds(records);
  if (account !== undefined) taken.add(account);
  const issued = Array.from({ length: count }, () => {
    const template = {
      name: wanted.name ?? "",
      plan,
      environment,
      account,
      scopes: [...new Set(wanted.scopes ?? [])],
      limits,
      createdMs: ring.nowMs,
      ...(expiresInMs === undefined ? {} : { expiresMs: ring.nowMs + expiresInMs }),
    };
    return make(template, tag, ring, taken);
  });
  return { ok: true, records: [...records, ...issued.map(({ record }) => record)], issued };
}

/**
 * Rotates a key: a new id and secret with the same account, plan, limits, scopes, name and expiry;
 * the old one works on for the grace (or until its own expiry, if that is sooner). Refuses a key
 * that no longer works or was rotated before: its successor is the one to rotate.
 */
export function rotateKey(
  records: readonly KeyRecord[],
  id: string,
  options: Keyring & { readonly graceMs: number },
): Edited<{ readonly issued: IssuedKey; readonly previous: KeyRecord }> {
  const { graceMs, nowMs } = options;
  if (!isPeriod(graceMs, 0)) return usage("Cannot use this grace: it must be from 0s to 36525d");
  const found = pickKey(records, id, nowMs);
  if (!found.ok) return found;
  const old = found.key;
  if (!isWorking(old, nowMs)) {
    const state = old.revokedMs === undefined ? "expired" : "revoked";
    return refused(`Cannot rotate key ${old.id} as it is ${state}: issue a new key`);
  }
  if (old.replacedBy !== undefined) {
    return refused(
      `Cannot rotate key ${old.id} as it was rotated before: rotate ${old.replacedBy}`,
    );
  }
  const tag = tagOf(options, old.environment);
  if (tag === undefined) {
    return refused(
      `Cannot rotate key ${old.id}: its environment ${JSON.stringify(old.environment)} is no longer configured`,
    );
  }

  const { id: _, digest: __, ...kept } = old;
  const issued = make({ ...kept, createdMs: nowMs }, tag, options, takenIds(records));
  const previous: KeyRecord = {
    ...old,
    expiresMs: Math.min(old.expiresMs ?? Number.POSITIVE_INFINITY, nowMs + graceMs),
    replacedBy: issued.record.id,
  };
  const edited = records.map((record) => (record === old ? previous : record));
  return { ok: true, records: [...edited, issued.record], issued, previous };
}

/** Revokes a key from `nowMs` on. Revoking twice is fine, and keeps the first instant. */
export function revokeKey(
  records: readonly KeyRecord[],
  id: string,
  nowMs: number,
): Edited<{ readonly revoked: KeyRecord }> {
  const found = pickKey(records, id, nowMs);
  if (!found.ok) return found;
  const { key } = found;
  if (key.revokedMs !== undefined) return { ok: true, records, revoked: key };
  const revoked: KeyRecord = { ...key, revokedMs: nowMs };
  const edited = records.map((record) => (record === key ? revoked : record));
  return { ok: true, records: edited, revoked };
}

/** `key` is set when the ID is that of a key; `keys` are all of its account, oldest first. */
export type FoundKeys = {
  readonly ok: true;
  readonly account: string;
  readonly environment: string;
  readonly key: KeyRecord | undefined;
  readonly keys: readonly KeyRecord[];
};

/** Finds the key or the account that an ID names; where both have it, the key and its account. */
export function findKeys(records: readonly KeyRecord[], id: string): FoundKeys | KeyringRefusal {
  const key = records.find((record) => record.id === id);
  const account = key?.account ?? id;
  const keys = records.filter((record) => record.account === account);
  const environment = (key ?? keys[0])?.environment;
  if (environment === undefined) {
    return {
      ok: false,
      because: "unknown",
      message: `Cannot find ${shown(id)}: no key or account has this ID`,
    };
  }
  return { ok: true, account, environment, key, keys };
}

/** One key to edit: an account stands for its only working key, or its only key. */
function pickKey(
  records: readonly KeyRecord[],
  id: string,
  nowMs: number,
): { readonly ok: true; readonly key: KeyRecord } | KeyringRefusal {
  const found = findKeys(records, id);
  if (!found.ok) return found;
  if (found.key !== undefined) return { ok: true, key: found.key };
  const working = found.keys.filter((record) => isWorking(record, nowMs));
  const [only, ...others] = working.length === 0 ? found.keys.slice(-1) : working;
  if (only !== undefined && others.length === 0) return { ok: true, key: only };
  const names = working.slice(0, 10).map((record) => record.id);
  return refused(
    `Cannot choose a key of account ${id}, as ${working.length} work: name one of ${names.join(", ")}`,
  );
}

/** Ids of keys and names of accounts: a new id is none of them, so an ID means one thing. */
function takenIds(records: readonly KeyRecord[]): Set<string> {
  return new Set(records.flatMap(({ id, account }) => [id, account]));
}

type Template = Omit<KeyRecord, "id" | "digest" | "account"> & {
  readonly account: string | undefined;
};

function make(template: Template, tag: string, ring: Keyring, taken: Set<string>): IssuedKey {
  let id = newId(ring.random);
  while (taken.has(id)) id = newId(ring.random);
  taken.add(id);
  const key = formKey(ring.keyPrefix, tag, ring.random);
  const record = { id, digest: digestKey(key), ...template, account: template.account ?? id };
  return { key, record };
}

/** `k_` and 12 base62 characters: 71 random bits, so ids tell nothing and do not meet. */
function newId(random: (max: number) => number): string {
  let id = "k_";
  for (let i = 0; i < 12; i++) id += BASE62[random(BASE62.length)];
  return id;
}

function usage(message: string): KeyringRefusal {
  return { ok: false, because: "usage", message };
}

function refused(message: string): KeyringRefusal {
  return { ok: false, because: "refused", message };
}
