import { inSlices } from "../../../base/event-loop.ts";
import { formatCount } from "../../../base/messages.ts";
import type { HasId } from "../../../core/keys/record-index.ts";
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
    const all = [...this.#keys.values(), ...this.#accounts.values()];
    const ids = all.slice(0, IDS_MAX).map(({ id }) => id);
    return { keys: this.#keys.size, accounts: this.#accounts.size, ids };
  }

  find(digest: string): KeyRecord | undefined {
    return this.#keys.get(digest);
  }

  async add({ keys, accounts }: Records): Promise<void> {
    await inSlices(keys, (key) => this.#keys.set(key.digest, key));
    await inSlices(accounts, (account) => this.#accounts.set(account.id, account));
  }

  /** Drops the records that are present again. Returns true if those were the last. */
  async dropFound(present: RecordFinder): Promise<boolean> {
    if (this.count === 0) return false;
    const [keys, accounts] = [this.#keys, this.#accounts];
    await inSlices(keys.keys(), (digest) => void (present.find(digest) && keys.delete(digest)));
    await inSlices(accounts.keys(), (id) => void (present.account(id) && accounts.delete(id)));
    return this.count === 0;
  }

  /** These records, together with those that were lost before them. */
  async with({ keys, accounts }: Records): Promise<Records> {
    return { keys: await union(this.#keys, keys), accounts: await union(this.#accounts, accounts) };
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

async function union<T extends HasId>(
  lost: ReadonlyMap<string, T>,
  records: readonly T[],
): Promise<readonly T[]> {
  if (lost.size === 0) return records;
  const known = new Set<string>();
  await inSlices(records, ({ id }) => known.add(id));
  const further: T[] = [];
  await inSlices(lost.values(), (record) => void (known.has(record.id) || further.push(record)));
  return [...records, ...further];
}
