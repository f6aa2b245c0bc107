import type { KeyRecord } from "../../core/keys/key.ts";

/** One edit of the set of records: gives the new set, and a value for the editor. */
export type Edit<T> = (records: readonly KeyRecord[]) => {
  readonly records: readonly KeyRecord[];
  readonly result: T;
};

/**
 * Knows the keys. Holds all records in memory: a lookup costs no I/O, and an unknown key none.
 * Every implementation passes test/stores/keys-contract.ts unchanged.
 *
 * - `find` is by digest; the key itself never gets here.
 * - A change by any writer, in any process, is seen by every reader within one second.
 * - Several writers never lose each other's change.
 * - Damaged or unreadable records never replace good ones.
 */
export interface KeyStore {
  find(digest: string): KeyRecord | undefined;
  list(): readonly KeyRecord[];
  /** False until there is a copy of the records: then a key is neither valid nor invalid. */
  readonly ready: boolean;
  /** Applies the edit to the newest records, atomically against all other writers. */
  change<T>(edit: Edit<T>): Promise<T>;
  /** Called after each change of the records that `find` sees. */
  onChange(listener: () => void): void;
  health(): { readonly ok: boolean; readonly why?: string };
  close(): Promise<void>;
}
