import { setImmediate as breathe } from "node:timers/promises";
import { indexList } from "../../core/keys/record-index.ts";
import {
  type AccountRecord,
  type KeyRecord,
  NO_RECORDS,
  type Records,
} from "../../core/keys/records.ts";

/** Records indexed before the event loop has its turn: a few milliseconds. */
const AT_ONCE = 5_000;

/** All records that a process knows, found by digest and by id; every key store serves from one. */
export class RecordSet {
  #records: Records = NO_RECORDS;
  #byDigest: ReadonlyMap<string, KeyRecord> = new Map();
  #byAccount: ReadonlyMap<string, AccountRecord> = new Map();
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

  /** Swaps all of them at once, when they are indexed, and tells the listeners. */
  async replace(records: Records): Promise<void> {
    const byDigest = await indexed(records.keys, ({ digest }) => digest);
    const byAccount = await indexed(records.accounts, ({ id }) => id);
    indexList(records.keys, await indexed(records.keys, ({ id }) => id));
    indexList(records.accounts, byAccount);
    this.#byDigest = byDigest;
    this.#byAccount = byAccount;
    this.#records = records;
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }
}

async function indexed<T>(list: readonly T[], nameOf: (record: T) => string) {
  const index = new Map<string, T>();
  for (const [at, record] of list.entries()) {
    index.set(nameOf(record), record);
    if (at % AT_ONCE === AT_ONCE - 1) await breathe();
  }
  return index;
}
