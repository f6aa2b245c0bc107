import type { Records } from "../../../core/keys/records.ts";
import { keepRevocations } from "../records/keep-revocations.ts";
import type { RecordFinder } from "../records/lost-records.ts";
import { compareRecords, type RecordChanges } from "../records/record-changes.ts";
import { versionAfter } from "./change-log.ts";
import type { RecordReports } from "./record-reports.ts";
import type { RedisRecords } from "./redis-records.ts";
import type { Snapshot } from "./snapshot.ts";

/** The records in Redis, and those to use: with the ends that it lacked, `ended` in number. */
export type WholeRecords = {
  readonly snapshot: Snapshot;
  readonly records: Records;
  readonly ended: number;
};

/** Records with ends that Redis lacks. `isOlder`: its records are older than those known here. */
type UnwrittenEnds = {
  readonly records: Records;
  readonly changes: RecordChanges;
  readonly isOlder: boolean;
};

/**
 * Revocations and expiries that are known here and that Redis has lost: they hold, and are written
 * there again as soon as it takes them.
 */
export class MissingEnds {
  readonly #redisRecords: RedisRecords;
  readonly #reports: RecordReports;
  #unwritten: (UnwrittenEnds & { readonly cause: unknown }) | undefined;

  constructor(redisRecords: RedisRecords, reports: RecordReports) {
    this.#redisRecords = redisRecords;
    this.#reports = reports;
  }

  /** Why Redis has not taken them yet; undefined if it lacks none. */
  get cause(): unknown {
    return this.#unwritten?.cause;
  }

  /**
   * The records with the ends that are known here, which are written to Redis if it has lost them.
   * Keys that Redis no longer has are not written. `isBehind`: the snapshot is older than `known`.
   */
  async keep(
    snapshot: Snapshot,
    known: RecordFinder & { readonly records: Records },
    isBehind: boolean,
  ): Promise<WholeRecords | "raced"> {
    const isOlder = isBehind || this.#unwritten?.isOlder === true;
    const { keys, changed } = await keepRevocations(snapshot.records.keys, known, isOlder);
    if (changed === 0) {
      this.#unwritten = undefined;
      return { snapshot, records: snapshot.records, ended: 0 };
    }
    const records = { ...snapshot.records, keys };
    const changes = await compareRecords(snapshot.records, records);
    const after = await this.#put(snapshot, { records, changes, isOlder });
    return after === "raced" ? after : { snapshot: after, records, ended: changed };
  }

  /** Tries again to write those that wait. The snapshot as Redis then has it. */
  async write(snapshot: Snapshot): Promise<Snapshot | "raced"> {
    return this.#unwritten === undefined ? snapshot : this.#put(snapshot, this.#unwritten);
  }

  /** The snapshot with the ends; as it is if Redis does not take them now. */
  async #put(snapshot: Snapshot, missing: UnwrittenEnds): Promise<Snapshot | "raced"> {
    const { records, changes, isOlder } = missing;
    const { length } = changes.keys.made;
    try {
      const to = versionAfter(snapshot.version);
      const after = await this.#redisRecords.put(snapshot, { records, changes, to });
      if (typeof after === "string") return "raced";
      this.#unwritten = undefined;
      this.#reports.ended(length);
      return after;
    } catch (cause) {
      if (this.#unwritten === undefined) this.#reports.ended(length, cause);
      this.#unwritten = { records, changes, isOlder, cause };
      return snapshot;
    }
  }
}
