import { differingIndexes, inSlices } from "../../../base/event-loop.ts";
import { findById, type HasId } from "../../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";
import { DamagedRecordError, IS_DAMAGED } from "../key-store.ts";
import { joinOrphans } from "./orphans.ts";
import type { ReadRecords } from "./record-collector.ts";

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
  const left = new Set(made.map(({ id }) => id));
  return {
    old: old.filter((record) => !stays.has(record)),
    made: made.filter((record) => !known.has(record)),
    gone: old.filter(({ id }) => !left.has(id)),
  };
}

/**
 * The changes of an edit. Throws if the edit breaks the records: ids and digests are unique, and
 * every key's account exists. Breaking that is a fault of the editing code, never of a person.
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

/**
 * Throws DamagedRecordError if a new record would take the place of one that cannot be read: a key
 * that was revoked would work again, and a suspended account be served.
 */
export function refuseOverDamaged(
  { damaged: read, records: before }: Pick<ReadRecords, "damaged" | "records">,
  after: Records,
): void {
  const { damaged } = joinOrphans(read, after);
  if (damaged.length === 0) return;
  refuseCapNumbers(damaged, before.keys, after.keys);
  const taken = new Set(damaged.map(({ kind, id }) => `${kind} ${id}`));
  const digests = new Set(damaged.map(({ value }) => digestOf(value)));
  const [keys, accounts] = [idsOf(before.keys), idsOf(before.accounts)];
  const over = [
    ...after.keys
      .filter(({ id, digest }) => taken.has(`key ${id}`) || digests.has(digest))
      .filter(({ id }) => !keys.has(id)),
    ...after.accounts.filter(({ id }) => taken.has(`account ${id}`) && !accounts.has(id)),
  ][0];
  if (over === undefined) return;
  const part = "digest" in over && !taken.has(`key ${over.id}`) ? "digest of key" : "ID";
  throw new DamagedRecordError(`Cannot use the ${part} ${over.id}: ${IS_DAMAGED}`);
}

/**
 * Throws DamagedRecordError if caps got a number that only a damaged key of the account has: once
 * that is repaired, both keys would be counted as one.
 */
function refuseCapNumbers(
  damaged: ReadRecords["damaged"],
  before: readonly KeyRecord[],
  after: readonly KeyRecord[],
): void {
  const numbers = new Set(damaged.map(({ value }) => numberOf(value)));
  numbers.delete(undefined);
  if (numbers.size === 0) return;
  for (const key of before) numbers.delete(numberOf(key));
  const over = after.find((key) => numbers.has(numberOf(key)));
  if (over === undefined) return;
  throw new DamagedRecordError(`Cannot use the cap number of key ${over.id}: ${IS_DAMAGED}`);
}

/** The account and the cap number of a record; undefined if it has no caps. */
function numberOf(value: unknown): string | undefined {
  const { account, caps } = (value ?? {}) as Partial<KeyRecord>;
  return caps?.number === undefined ? undefined : `${account} ${caps.number}`;
}

function idsOf(records: readonly HasId[]): ReadonlySet<string> {
  return new Set(records.map(({ id }) => id));
}

function digestOf(value: unknown): unknown {
  return (value as { readonly digest?: unknown } | null | undefined)?.digest;
}

/** Checks the new records alone: the records before were sound, and `findDigest` knows them. */
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

/** Whether each new record that has the id of an earlier one has replaced it. */
function hasNoTwins<T extends HasId>(
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
