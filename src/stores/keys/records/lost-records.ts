import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";

/** So many ids stand in a line of the log. */
const IDS_MAX = 20;

/** Finds records by what does not change in them. */
type Present = {
  find(digest: string): KeyRecord | undefined;
  account(id: string): AccountRecord | undefined;
};

/** Records that are gone from the store though no command deleted them, and have not come back yet. */
export class LostRecords {
  readonly #keys = new Map<string, KeyRecord>();
  readonly #accounts = new Map<string, AccountRecord>();

  get count(): number {
    return this.#keys.size + this.#accounts.size;
  }

  /** For a line of the log. */
  get details() {
    const ids = [...this.#keys.keys(), ...this.#accounts.keys()].slice(0, IDS_MAX);
    return { keys: this.#keys.size, accounts: this.#accounts.size, ids };
  }

  add({ keys, accounts }: Records): void {
    for (const key of keys) this.#keys.set(key.id, key);
    for (const account of accounts) this.#accounts.set(account.id, account);
  }

  /** Drops those that are there again; true when that was the last of them. */
  dropFound(present: Present): boolean {
    if (this.count === 0) return false;
    for (const [id, { digest }] of this.#keys) if (present.find(digest)) this.#keys.delete(id);
    for (const id of this.#accounts.keys()) if (present.account(id)) this.#accounts.delete(id);
    return this.count === 0;
  }

  /** These records, and those that were lost before them. */
  with({ keys, accounts }: Records): Records {
    return { keys: union(this.#keys, keys), accounts: union(this.#accounts, accounts) };
  }

  /** Says how many records are gone and how they come back, without a byte of a record. */
  words(file: string | undefined): string {
    const [keys, accounts] = [this.#keys.size, this.#accounts.size];
    const parts = [
      ...(keys === 0 ? [] : [keys === 1 ? "1 key" : `${keys} keys`]),
      ...(accounts === 0 ? [] : [accounts === 1 ? "1 account" : `${accounts} accounts`]),
    ];
    const verb = this.count === 1 ? "is" : "are";
    const source = file ?? "FILE, with an export or a backup";
    return `${parts.join(" and ")} ${verb} gone from Redis, and no command deleted them. This brings them back: tollgate keys import ${source}`;
  }
}

function union<T extends { readonly id: string }>(
  lost: ReadonlyMap<string, T>,
  records: readonly T[],
): readonly T[] {
  const known = new Set(records.map(({ id }) => id));
  return [...records, ...[...lost.values()].filter(({ id }) => !known.has(id))];
}
