import { findById, type HasId, idsOf } from "../../../core/keys/record-index.ts";
import type { KeyRecord, Records } from "../../../core/keys/records.ts";
import { DamagedRecordError, IS_DAMAGED } from "../key-store.ts";
import type { RecordFinder } from "./lost-records.ts";
import { joinOrphans } from "./orphans.ts";
import { compareRecords, type ListChanges, type RecordChanges } from "./record-changes.ts";
import type { ReadRecords } from "./record-collector.ts";

/** An edit as it is to be written. */
export type CheckedEdit = {
  /** The edited records, with the keys that were damaged for nothing but the lack of their account. */
  readonly records: Records;
  readonly changes: RecordChanges;
  /** The records that stay damaged. */
  readonly damaged: ReadRecords["damaged"];
};

/**
 * Checks an edit of records that were read. Throws DamagedRecordError as `refuseOverDamaged` does,
 * and any other error if the edit breaks the records. `known` finds keys of the records before.
 */
export async function checkEdit(
  before: Pick<ReadRecords, "damaged" | "records">,
  edited: Records,
  known: Pick<RecordFinder, "find">,
): Promise<CheckedEdit> {
  const { records, damaged } = joinOrphans(before.damaged, edited);
  const changes = await checkedChanges(before.records, records, known);
  refuseOver(damaged, before.records, records);
  return { records, changes, damaged };
}

/**
 * The changes of an edit. Throws if the edit breaks the records: ids and digests are unique, and
 * every key's account exists. Breaking that is a fault of the editing code, never of a person.
 */
async function checkedChanges(
  before: Records,
  after: Records,
  known: Pick<RecordFinder, "find">,
): Promise<RecordChanges> {
  const changes = await compareRecords(before, after);
  const { keys, accounts } = changes;
  const isWhole =
    accounts.gone.length > 0
      ? isSound(after)
      : isSoundBeside(before, changes, known) &&
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
  { damaged, records }: Pick<ReadRecords, "damaged" | "records">,
  after: Records,
): void {
  refuseOver(joinOrphans(damaged, after).damaged, records, after);
}

function refuseOver(damaged: ReadRecords["damaged"], before: Records, after: Records): void {
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

function digestOf(value: unknown): unknown {
  return (value as { readonly digest?: unknown } | null | undefined)?.digest;
}

/** Checks the new records alone: the records before were sound, and `known` has them. */
function isSoundBeside(
  before: Records,
  { keys, accounts }: RecordChanges,
  known: Pick<RecordFinder, "find">,
): boolean {
  const fresh = idsOf(accounts.made);
  const ids = idsOf(keys.made);
  const digests = new Set(keys.made.map(({ digest }) => digest));
  const isGone = idsOf(keys.gone);
  const stays = (key: KeyRecord | undefined) =>
    key !== undefined && !ids.has(key.id) && !isGone.has(key.id);
  return (
    fresh.size === accounts.made.length &&
    ids.size === keys.made.length &&
    digests.size === keys.made.length &&
    keys.made.every(({ digest, account }) => {
      const hasAccount = fresh.has(account) || findById(before.accounts, account) !== undefined;
      return hasAccount && !stays(known.find(digest));
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
  const ids = idsOf(keys);
  const digests = new Set(keys.map(({ digest }) => digest));
  const names = idsOf(accounts);
  return (
    ids.size === keys.length &&
    digests.size === keys.length &&
    names.size === accounts.length &&
    keys.every(({ account }) => names.has(account))
  );
}
