import { setIndex } from "../../../core/keys/record-index.ts";
import {
  type AccountRecord,
  type KeyRecord,
  NO_RECORDS,
  type Records,
} from "../../../core/keys/records.ts";
import { LayeredIndex } from "./layered-index.ts";
import { compareRecords, type RecordChanges } from "./record-changes.ts";

/** After more changes than this, the whole set is indexed again. */
const CHANGES_MAX = 4_000;

/** All records that a process knows, found by digest and by id; every key store serves from one. */
export class RecordSet {
  #records: Records = NO_RECORDS;
  #byDigest = LayeredIndex.empty<KeyRecord>(({ digest }) => digest);
  #byId = LayeredIndex.empty<KeyRecord>(({ id }) => id);
  #byAccount = LayeredIndex.empty<AccountRecord>(({ id }) => id);
  readonly #listeners: (() => void)[] = [];

  get records(): Records {
    return this.#records;
  }

  find(digest: string): KeyRecord | undefined {
    return this.#byDigest.get(digest);
  }

  account(id: string): AccountRecord | undefined {
    return this.#byAccount.get(id);
  }

  /**
   * Replaces all records at once when they are indexed, and calls the listeners. `changes` are the
   * changes from the records before, if they are known.
   */
  async replace(records: Records, changes?: RecordChanges): Promise<void> {
    const { keys, accounts } =
      changes ?? (await compareRecords(this.#records, records, CHANGES_MAX)) ?? {};
    const byDigest = await indexed(this.#byDigest, records.keys, keys);
    const byId = await indexed(this.#byId, records.keys, keys);
    const byAccount = await indexed(this.#byAccount, records.accounts, accounts);
    setIndex(records.keys, byId);
    setIndex(records.accounts, byAccount);
    this.#byDigest = byDigest;
    this.#byId = byId;
    this.#byAccount = byAccount;
    this.#records = records;
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }
}

/** The index of the list: that of before with the changes, or a new one if they are many. */
async function indexed<T>(
  index: LayeredIndex<T>,
  list: readonly T[],
  changes: { readonly old: readonly T[]; readonly made: readonly T[] } | undefined,
): Promise<LayeredIndex<T>> {
  if (changes === undefined) return index.of(list);
  const size = index.overSize + changes.old.length + changes.made.length;
  return size > CHANGES_MAX ? index.of(list) : index.with(changes);
}
