import { inSlices } from "../../../base/event-loop.ts";
import { findById } from "../../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";
import type { ReadRecords } from "./record-collector.ts";

type Named = { readonly id: string };

/** How one list became another. */
type ListChanges<T> = {
  /** Records that are not there any more as they were. */
  readonly old: readonly T[];
  /** Records that were not there before. */
  readonly made: readonly T[];
  /** Records whose id none has any more. */
  readonly gone: readonly T[];
};

export type RecordChanges = {
  readonly keys: ListChanges<KeyRecord>;
  readonly accounts: ListChanges<AccountRecord>;
};

/**
 * Compares records by what they are and not by what is in them: an edit leaves those alone that it
 * does not change, and nearly always their places too. Undefined where they differ in more than
 * `max` places.
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

async function listChanges<T extends Named>(
  before: readonly T[],
  after: readonly T[],
  max: number,
): Promise<ListChanges<T> | undefined> {
  const [made, old]: [T[], T[]] = [[], []];
  const longer = after.length > before.length ? after : before;
  const isCompared = await inSlices(before === after ? [] : longer, (_, i) => {
    const [was, is] = [before[i], after[i]];
    if (was === is) return true;
    if (was !== undefined) old.push(was);
    if (is !== undefined) made.push(is);
    return made.length <= max && old.length <= max;
  });
  if (!isCompared) return undefined;
  if (old.length === 0) return { old, made, gone: old };
  const [known, stays] = [new Set(old), new Set(made)];
  const left = new Set(made.map(({ id }) => id));
  return {
    old: old.filter((record) => !stays.has(record)),
    made: made.filter((record) => !known.has(record)),
    gone: old.filter(({ id }) => !left.has(id)),
  };
}

/**
 * The changes of an edit. Throws where that breaks the records, which is an editor's own mistake and
 * never that of a person: ids and digests are unique, accounts are there.
 */
export async function checkedChanges(
  before: Records,
  after: Records,
  findDigest: (digest: string) => KeyRecord | undefined,
): Promise<RecordChanges> {
  const changes = await compareRecords(before, after);
  const { keys, accounts } = changes;
  const isWhole =
    accounts.gone.length > 0
      ? isSound(after)
      : isSoundBeside(before, changes, findDigest) &&
        hasNoTwins(before.keys, keys, after.keys) &&
        hasNoTwins(before.accounts, accounts, after.accounts);
  if (isWhole) return changes;
  throw new RangeError(
    "Cannot keep these records: an id or a digest comes twice, or an account is missing",
  );
}

/** A new record must not take the place of one that cannot be read. */
export function refuseOverDamaged(
  { damaged, records: before }: Pick<ReadRecords, "damaged" | "records">,
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
  { keys, accounts }: RecordChanges,
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
      const hasAccount = fresh.has(account) || findById(before.accounts, account) !== undefined;
      return hasAccount && !stays(findDigest(digest));
    })
  );
}

/** Each new record with the id of one before has taken its place. */
function hasNoTwins<T extends Named>(
  before: readonly T[],
  { made, gone }: ListChanges<T>,
  after: readonly T[],
): boolean {
  const added = made.filter(({ id }) => findById(before, id) === undefined);
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
