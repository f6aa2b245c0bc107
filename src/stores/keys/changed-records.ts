import type { Records } from "../../core/keys/records.ts";

type Named = { readonly id: string };

/** The records of one list that an edit has made, and those that it has taken away. */
export type ChangedRecords<T> = { readonly made: readonly T[]; readonly gone: readonly T[] };

/**
 * Compares two lists by the records themselves: an edit leaves those alone that it does not change,
 * and nearly always their places too, so that 100,000 of them are compared in a millisecond.
 */
export function changedRecords<T extends Named>(
  before: readonly T[],
  after: readonly T[],
): ChangedRecords<T> {
  const made: T[] = [];
  const old: T[] = [];
  for (let i = 0; i < Math.max(before.length, after.length); i++) {
    const [was, is] = [before[i], after[i]];
    if (was === is) continue;
    if (was !== undefined) old.push(was);
    if (is !== undefined) made.push(is);
  }
  if (old.length === 0) return { made, gone: [] };
  const known = new Set(old);
  const left = new Set(made.map(({ id }) => id));
  return {
    made: made.filter((record) => !known.has(record)),
    gone: old.filter(({ id }) => !left.has(id)),
  };
}

/** So many new records are compared with all others one by one; more of them by sets. */
const FEW = 16;

/** An editor's own mistake, never that of a person: ids and digests are unique, accounts are there. */
export function refuseBroken(before: Records, after: Records): void {
  const keys = changedRecords(before.keys, after.keys).made;
  const accounts = changedRecords(before.accounts, after.accounts);
  const isFew = keys.length + accounts.made.length <= FEW && accounts.gone.length === 0;
  if (isFew ? isSoundBy(after, keys, accounts.made) : isSound(after)) return;
  throw new RangeError(
    "Cannot keep these records: an id or a digest comes twice, or an account is missing",
  );
}

function isSoundBy(
  all: Records,
  keys: readonly Records["keys"][number][],
  accounts: readonly Records["accounts"][number][],
): boolean {
  return (
    keys.every((key) => count(all.keys, key) === 1 && has(all.accounts, key.account)) &&
    accounts.every((account) => count(all.accounts, account) === 1)
  );
}

/** How many have the id of `wanted`, or its digest where it has one. */
function count(
  list: readonly { readonly id: string; readonly digest?: string }[],
  { id, digest = "" }: { readonly id: string; readonly digest?: string },
): number {
  let found = 0;
  for (const one of list) if (one.id === id || one.digest === digest) found += 1;
  return found;
}

function has(list: readonly Named[], id: string): boolean {
  for (const one of list) if (one.id === id) return true;
  return false;
}

function isSound({ keys, accounts }: Records): boolean {
  const ids = new Set(keys.map(({ id }) => id));
  const digests = new Set(keys.map(({ digest }) => digest));
  const names = new Set(accounts.map(({ id }) => id));
  return (
    ids.size === keys.length &&
    digests.size === keys.length &&
    names.size === accounts.length &&
    keys.every(({ account }) => names.has(account))
  );
}
