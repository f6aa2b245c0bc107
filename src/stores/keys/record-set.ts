import type { KeyRecord } from "../../core/keys/key.ts";

/** All records that a gateway knows, found by digest; every key store serves from one. */
export class RecordSet {
  #records: readonly KeyRecord[] = [];
  #byDigest: ReadonlyMap<string, KeyRecord> = new Map();
  readonly #listeners: (() => void)[] = [];

  get records(): readonly KeyRecord[] {
    return this.#records;
  }

  find(digest: string): KeyRecord | undefined {
    return this.#byDigest.get(digest);
  }

  /** Swaps all of them at once and tells the listeners. */
  replace(records: readonly KeyRecord[]): void {
    this.#byDigest = new Map(records.map((record) => [record.digest, record]));
    this.#records = records;
    for (const listener of this.#listeners) listener();
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }
}

/** An editor's own mistake, never that of a person: an id or a digest must not come twice. */
export function refuseDuplicates(records: readonly KeyRecord[]): void {
  const ids = new Set(records.map(({ id }) => id));
  const digests = new Set(records.map(({ digest }) => digest));
  if (ids.size < records.length || digests.size < records.length) {
    throw new RangeError("Cannot keep these keys: an id or a digest comes twice");
  }
}
