import { randomBytes, randomInt } from "node:crypto";
import type { Config } from "../../config/config.ts";
import { meterNames } from "../../config/queries/meter-names.ts";
import { conflictRefusal, type EditResult, type KeyContext } from "../../core/keys/edit-rules.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import { StoreFailure } from "../redis/store-failure.ts";

/** One edit of all records: the new records, and the result for the editor. */
export type RecordEdit<T> = (records: Records) => {
  readonly records: Records;
  readonly result: T;
};

/**
 * Finds the keys and their accounts. Holds all records in memory, so a lookup costs no I/O, even
 * for an unknown key. Every implementation passes test/stores/keys/key-store.ts unchanged.
 *
 * - `find` is by digest; the key itself never gets here.
 * - A change by any writer, in any process, is seen by every reader within one second.
 * - Several writers never lose each other's change.
 * - A damaged record never replaces a good one, and never blocks the others. A change that is
 *   written next to it leaves it as it was.
 */
export interface KeyStore {
  find(digest: string): KeyRecord | undefined;
  account(id: string): AccountRecord | undefined;
  /** All records as they are known now. */
  records(): Records;
  /** False until there is a copy of the records: then a key is neither valid nor invalid. */
  readonly ready: boolean;
  /** Applies the edit to the newest records, atomically against all other writers. */
  change<T>(edit: RecordEdit<T>): Promise<T>;
  /** Throws DamagedRecordError if a change to these records would, so far as it is known here. */
  refuseOverDamaged(after: Records): void;
  /** Reads the newest records now. Rejects if they cannot be read. */
  refresh(): Promise<void>;
  /**
   * Runs the work between two changes by this process: changes that were begun are made before, and
   * later ones wait. `reread` is `refresh` for the work.
   */
  betweenChanges<T>(work: (reread: () => Promise<void>) => Promise<T>): Promise<T>;
  /** Called after each change of the records that `find` sees. */
  onChange(listener: () => void): void;
  /** One line for each damaged record, with its place; empty if all can be read. */
  damage(): readonly string[];
  /**
   * `why` repeats nothing of a record. `lost` is set if records that were known here are gone from
   * the store though no command deleted them. It says how to restore them, in words that hold
   * no secret.
   */
  health(): { readonly ok: boolean; readonly why?: string; readonly lost?: string };
  /** The trouble with the records, in numbers. */
  troubles(): RecordTroubles;
  /**
   * Which set of records this is: two stores with the same `id` hold the same records. A gateway
   * gives the records an id when it is asked for one. `id` is undefined if the gateway has no right
   * to write there, and for a command if no gateway was asked yet. Rejects if the id cannot be
   * read.
   */
  identity(): Promise<RecordsIdentity>;
  close(): Promise<void>;
}

/** The records as commands use them. */
export type CommandKeys = Omit<
  KeyStore,
  "find" | "account" | "ready" | "health" | "troubles" | "betweenChanges"
>;

/** Records that cannot be used now, and what happened since the start of this process. */
export type RecordTroubles = {
  /** Records that are gone from the store though no command deleted them. */
  readonly lost: number;
  readonly damaged: number;
  /** How often the records could not be read although their store answers. */
  readonly unreadable: number;
  /** How often the store had older records than before. */
  readonly older: number;
};

/** `place`: the file, or the address and prefix in Redis without its password. */
export type RecordsIdentity = { readonly id: string | undefined; readonly place: string };

/** The end of the message of DamagedRecordError, by which a command knows it. */
export const IS_DAMAGED = "the record that has it is damaged, repair it";

/** A change that the damaged record forbids until it is repaired. The message has its ID alone. */
export class DamagedRecordError extends Error {}

/** An id for a set of records: 96 random bits. */
export function newRecordsId(): string {
  return randomBytes(12).toString("hex");
}

/** The means of making keys: names of the configuration, randomness of the system, the clock. */
export function keyContextOf(
  config: Pick<Config, "keyPrefix" | "environments" | "plans" | "planBounds">,
  nowMs: number,
): KeyContext {
  const { keyPrefix, environments, plans } = config;
  const meters = meterNames(config);
  return { keyPrefix, environments, plans, meters, random: (max) => randomInt(max), nowMs };
}

/**
 * Applies an edit of core/keys to the newest records. An edit that is refused leaves them as they
 * are. One that a damaged record forbids is refused too: trying it again is of no use.
 */
export function applyKeyEdit<T>(
  keys: Pick<KeyStore, "change">,
  edit: (records: Records) => EditResult<T>,
): Promise<EditResult<T>> {
  return refusedOverDamaged(
    keys.change((records) => {
      const result = edit(records);
      return { records: result.ok ? result.records : records, result };
    }),
  );
}

/** The file of the records cannot be written. The message holds no part of a record. */
export class UnwrittenFileError extends Error {}

/**
 * Why Redis or the file did not take a change, for the one who asked for it. Undefined for any other
 * error: its message may repeat a part of a record.
 */
export function publicReason(error: unknown): string | undefined {
  const isPublic = error instanceof StoreFailure || error instanceof UnwrittenFileError;
  return isPublic ? error.message : undefined;
}

/** The result that applyKeyEdit would have with the records as they are known now. Changes nothing. */
export function judgeKeyEdit<T>(
  keys: Pick<KeyStore, "records" | "refuseOverDamaged">,
  edit: (records: Records) => EditResult<T>,
): Promise<EditResult<T>> {
  const judge = async () => {
    const result = edit(keys.records());
    if (result.ok) keys.refuseOverDamaged(result.records);
    return result;
  };
  return refusedOverDamaged(judge());
}

async function refusedOverDamaged<T>(edited: Promise<EditResult<T>>): Promise<EditResult<T>> {
  try {
    return await edited;
  } catch (error) {
    if (error instanceof DamagedRecordError) return conflictRefusal(error.message);
    throw error;
  }
}
