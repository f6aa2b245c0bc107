import { formatCount } from "../../../base/messages.ts";
import { type HasId, idsOf } from "../../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";

/** The most ids in one line of the log. */
const IDS_MAX = 20;

/** Finds records by the parts of them that do not change. */
export type RecordFinder = {
  find(digest: string): KeyRecord | undefined;
  account(id: string): AccountRecord | undefined;
};

/** Records that disappeared from the store though no command deleted them, and are not back yet. */
export class LostRecords {
  /** By the digest. */
  readonly #keys = new Map<string, KeyRecord>();
  readonly #accounts = new Map<string, AccountRecord>();

  get count(): number {
    return this.#keys.size + this.#accounts.size;
  }

  /** For a line of the log. */
  get details() {
    const ids = [...idsOf([...this.#keys.values(), ...this.#accounts.values()])].slice(0, IDS_MAX);
    return { keys: this.#keys.size, accounts: this.#accounts.size, ids };
  }

  find(digest: string): KeyRecord | undefined {
    return this.#keys.get(digest);
  }

  add({ keys, accounts }: Records): void {
    for (const key of keys) this.#keys.set(key.digest, key);
    for (const account of accounts) this.#accounts.set(account.id, account);
  }

  /** Drops the records that are present again. Returns true if those were the last. */
  dropFound(present: RecordFinder): boolean {
    if (this.count === 0) return false;
    for (const digest of this.#keys.keys()) if (present.find(digest)) this.#keys.delete(digest);
    for (const id of this.#accounts.keys()) if (present.account(id)) this.#accounts.delete(id);
    return this.count === 0;
  }

  /** These records, together with those that were lost before them. */
  with({ keys, accounts }: Records): Records {
    return { keys: union(this.#keys, keys), accounts: union(this.#accounts, accounts) };
  }

  /** Says how many records are gone and how to restore them, without any content of a record. */
  words(store: string, file: string | undefined): string {
    const [keys, accounts] = [this.#keys.size, this.#accounts.size];
    const parts = [
      ...(keys === 0 ? [] : [formatCount(keys, "key")]),
      ...(accounts === 0 ? [] : [formatCount(accounts, "account")]),
    ];
    const verb = this.count === 1 ? "is" : "are";
    const source = file ?? "FILE, with an export or a backup";
    return `${parts.join(" and ")} ${verb} gone from ${store}, and no command deleted them. This brings them back: tollgate keys import ${source}`;
  }
}

function union<T extends HasId>(lost: ReadonlyMap<string, T>, records: readonly T[]): readonly T[] {
  const known = idsOf(records);
  return [...records, ...[...lost.values()].filter(({ id }) => !known.has(id))];
}
