import { byId } from "../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import type { Reading } from "./reading.ts";

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

/** An editor's own mistake, never that of a person: ids and digests are unique, accounts are there. */
export function refuseBroken(
  before: Records,
  after: Records,
  findDigest: (digest: string) => KeyRecord | undefined,
): void {
  const keys = changedRecords(before.keys, after.keys);
  const accounts = changedRecords(before.accounts, after.accounts);
  const isWhole =
    accounts.gone.length > 0
      ? isSound(after)
      : isSoundBeside(before, keys, accounts, findDigest) &&
        hasNoTwins(before.keys, keys, after.keys) &&
        hasNoTwins(before.accounts, accounts, after.accounts);
  if (isWhole) return;
  throw new RangeError(
    "Cannot keep these records: an id or a digest comes twice, or an account is missing",
  );
}

/** A new record must not take the place of one that cannot be read. */
export function refuseOverDamaged(
  { damaged, records: before }: Pick<Reading, "damaged" | "records">,
  after: Records,
): void {
  if (damaged.length === 0) return;
  const known = new Set([...before.keys, ...before.accounts].map(({ id }) => id));
  const taken = new Set(damaged.map(({ kind, id }) => `${kind} ${id}`));
  const over = [
    ...after.keys.filter(({ id }) => taken.has(`key ${id}`)),
    ...after.accounts.filter(({ id }) => taken.has(`account ${id}`)),
  ].find(({ id }) => !known.has(id));
  if (over === undefined) return;
  throw new Error(`Cannot use the ID ${over.id}: the record that has it is damaged, repair it`);
}

/** Looks at the new records alone: those before were sound, and `findDigest` knows them. */
function isSoundBeside(
  before: Records,
  keys: ChangedRecords<KeyRecord>,
  accounts: ChangedRecords<AccountRecord>,
  findDigest: (digest: string) => KeyRecord | undefined,
): boolean {
  const fresh = new Set(accounts.made.map(({ id }) => id));
  const ids = new Set(keys.made.map(({ id }) => id));
  const digests = new Set(keys.made.map(({ digest }) => digest));
  const isGone = new Set(keys.gone.map(({ id }) => id));
  const stays = (key: KeyRecord | undefined) =>
    key !== undefined && !ids.has(key.id) && !isGone.has(key.id);
  return (
    fresh.size === accounts.made.length &&
    ids.size === keys.made.length &&
    digests.size === keys.made.length &&
    keys.made.every(({ digest, account }) => {
      const hasAccount = fresh.has(account) || byId(before.accounts, account) !== undefined;
      return hasAccount && !stays(findDigest(digest));
    })
  );
}

/** Each new record with the id of one before has taken its place. */
function hasNoTwins<T extends Named>(
  before: readonly T[],
  { made, gone }: ChangedRecords<T>,
  after: readonly T[],
): boolean {
  const added = made.filter(({ id }) => byId(before, id) === undefined);
  return after.length === before.length - gone.length + added.length;
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
