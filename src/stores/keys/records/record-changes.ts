import { differingIndexes, inSlices } from "../../../base/event-loop.ts";
import { type HasId, idsOf } from "../../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";

/** The difference between two versions of one list. */
export type ListChanges<T> = {
  /** Records that were removed or changed, as they were before. */
  readonly old: readonly T[];
  /** Records that were added or changed, as they are now. */
  readonly made: readonly T[];
  /** Records whose id is in the list no longer. */
  readonly gone: readonly T[];
};

export type RecordChanges = {
  readonly keys: ListChanges<KeyRecord>;
  readonly accounts: ListChanges<AccountRecord>;
};

/**
 * Compares records by identity and not by content: an edit keeps the objects that it does not
 * change, and nearly always their places too. Undefined if the lists differ in more than `max`
 * places.
 */
export async function compareRecords(before: Records, after: Records): Promise<RecordChanges>;
export async function compareRecords(
  before: Records,
  after: Records,
  max: number,
): Promise<RecordChanges | undefined>;
export async function compareRecords(
  before: Records,
  after: Records,
  max = Number.POSITIVE_INFINITY,
): Promise<RecordChanges | undefined> {
  const keys = await listChanges(before.keys, after.keys, max);
  const accounts = await listChanges(before.accounts, after.accounts, max);
  return keys === undefined || accounts === undefined ? undefined : { keys, accounts };
}

async function listChanges<T extends HasId>(
  before: readonly T[],
  after: readonly T[],
  max: number,
): Promise<ListChanges<T> | undefined> {
  const [made, old]: [T[], T[]] = [[], []];
  const indexes = await differingIndexes(before, after, max);
  if (indexes === undefined) return undefined;
  await inSlices(indexes, (i) => {
    const [was, is] = [before[i], after[i]];
    if (was !== undefined) old.push(was);
    if (is !== undefined) made.push(is);
  });
  if (old.length === 0) return { old, made, gone: old };
  const [known, stays] = [new Set(old), new Set(made)];
  const left = idsOf(made);
  return {
    old: old.filter((record) => !stays.has(record)),
    made: made.filter((record) => !known.has(record)),
    gone: old.filter(({ id }) => !left.has(id)),
  };
}
