import { findById, type HasId, idsOf } from "../../../core/keys/record-index.ts";
import type { KeyRecord, Records } from "../../../core/keys/records.ts";
import type { ListChanges, RecordChanges } from "../records/record-changes.ts";
import { isEqual } from "../records/record-differences.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";
import { mergeById } from "./snapshot.ts";

/** A write that reached a master shortly before another took its place, which does not have it. */
export type LostWrite = { readonly before: Records; readonly changes: RecordChanges };

/**
 * The records with a lost write in them as it was. Other gateways may have read that write from the
 * old master. If the edit were made again, with other ids, they would take its first keys for lost
 * (docs/operations.md#records-that-are-gone). Returns `now` itself if it has the write after all.
 * Returns undefined if what the write was made from has changed: then the edit has to be made again.
 */
export async function withLostWrite(
  { before, changes }: LostWrite,
  now: Records,
): Promise<Records | undefined> {
  const { keys, accounts } = changes;
  if (hasAll(keys, now.keys, encodeKey) && hasAll(accounts, now.accounts, encodeAccount))
    return now;
  const isSame =
    isUntouched(keys, now.keys, encodeKey) &&
    isUntouched(accounts, now.accounts, encodeAccount) &&
    keys.made.every((key) => hasSameOwner(key, before, now));
  if (!isSame) return undefined;
  return {
    keys: await mergeById(now.keys, keys.made, idsOf(keys.gone)),
    accounts: await mergeById(now.accounts, accounts.made, idsOf(accounts.gone)),
  };
}

/** A key of an account that was there needs that account as it was, and no number for a cap. */
function hasSameOwner(key: KeyRecord, before: Records, now: Records): boolean {
  const was = findById(before.accounts, key.account);
  if (was === undefined) return true;
  return key.caps === undefined && isEqual(was, findById(now.accounts, key.account), encodeAccount);
}

function hasAll<T extends HasId>(
  { made, gone }: ListChanges<T>,
  now: readonly T[],
  encode: (record: T) => string,
): boolean {
  return (
    made.every((record) => isEqual(record, findById(now, record.id), encode)) &&
    gone.every(({ id }) => findById(now, id) === undefined)
  );
}

/** Whether all that was changed is as it was before, and what was added is not there. */
function isUntouched<T extends HasId>(
  { old, made }: ListChanges<T>,
  now: readonly T[],
  encode: (record: T) => string,
): boolean {
  const was = new Map(old.map((record) => [record.id, record]));
  return [...old, ...made].every(({ id }) => isEqual(was.get(id), findById(now, id), encode));
}
