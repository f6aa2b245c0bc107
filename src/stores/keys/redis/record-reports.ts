import { cleanText } from "../../../base/messages.ts";
import type { Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { MISTAKES_MAX } from "../../files/damaged-file.ts";
import { toStoreFailure } from "../../redis/store-failure.ts";
import type { DiskCopy } from "../file/disk-copy.ts";
import type { KeyStore, RecordTroubles } from "../key-store.ts";
import { LostRecords, type RecordFinder } from "../records/lost-records.ts";
import { endsWords, reportOlder } from "../records/older-records.ts";
import type { DamagedRecord } from "../records/record-collector.ts";

/** The check of the store reports these, and the copy here stays in use. */
const AWAY: ReadonlySet<string> = new Set([
  ...["unreachable", "late", "LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "MOVED", "ASK"],
  ...["BUSY", "READONLY"],
]);

/** Redis has no records and the copy on disk has some: it is unknown which of them is right. */
export class LostRecordsError extends Error {}

/** Why records in Redis cannot be read or written, in words for people. */
export function wordsOf(cause: unknown): string {
  return cause instanceof LostRecordsError ? cause.message : toStoreFailure(cause).message;
}

/** Without a byte of a record, as the readiness check repeats it. */
const UNWRITTEN_ENDS =
  "Redis does not take revocations and expiries that it had forgotten: they hold here; the log says why";

function endsIn(cause: unknown): string {
  return endsWords("Redis", cause === undefined ? undefined : wordsOf(cause));
}

export type RecordReportsOptions = {
  readonly report: Reporter;
  /** Where lost records are set aside, and the name of its file. */
  readonly copy: DiskCopy | undefined;
  readonly copyFile: string | undefined;
  /** The name of the hash in Redis. */
  readonly key: string;
};

/**
 * Tells people what is wrong with the records in Redis, each trouble once: in the log when it begins
 * and ends, and in `health` and `troubles` as long as it lasts (docs/reference/store.md).
 */
export class RecordReports {
  readonly #options: RecordReportsOptions;
  readonly #lost = new LostRecords();
  /** The file that the lost records are in. */
  #lostFile: string | undefined;
  /** Why the newest records cannot be read. */
  #trouble: string | undefined;
  /** The trouble that was logged last. */
  #told: string | undefined;
  #damaged = 0;
  #unreadable = 0;
  #older = 0;
  /** The lines of the damage that was logged last. */
  #damageLines: readonly string[] = [];

  constructor(options: RecordReportsOptions) {
    this.#options = options;
  }

  /**
   * `isReady`: whether there is a copy of the records. `unwritten`: why ends that Redis had forgotten
   * are not written there yet; undefined if there are none.
   */
  health(isReady: boolean, unwritten: unknown): ReturnType<KeyStore["health"]> {
    if (this.#lost.count > 0) {
      const lost = this.#lost.words("Redis", this.#lostFile);
      return { ok: false, why: lost, lost };
    }
    if (this.#told !== undefined) return { ok: false, why: this.#told };
    if (this.#damaged > 0) {
      const why = `${this.#damaged} key records in Redis are damaged: the log names them`;
      return { ok: false, why };
    }
    if (unwritten !== undefined) {
      return { ok: false, why: endsIn(unwritten), lost: UNWRITTEN_ENDS };
    }
    const why = this.#trouble;
    return why === undefined ? { ok: isReady } : { ok: isReady, why };
  }

  troubles(): RecordTroubles {
    const [damaged, unreadable, older] = [this.#damaged, this.#unreadable, this.#older];
    return { lost: this.#lost.count, damaged, unreadable, older };
  }

  /** Keeps the records that were known before Redis lost some of them, or changes of them. */
  async setAside(before: Records): Promise<void> {
    this.#options.copy?.setAside(await this.#lost.with(before));
  }

  /**
   * Reports lost records. Deleting them or restoring a backup may be intended, but it may be a loss,
   * so operators are told in both cases.
   */
  async gone(gone: Records): Promise<void> {
    const { copy, copyFile } = this.#options;
    await this.#add(gone, copy === undefined ? undefined : `${copyFile}.lost`);
  }

  /** Redis went back to records that it had before. `differing`: those that are other than known. */
  older(keys: number, differing: readonly string[] = []): void {
    this.#older += 1;
    const older =
      "Redis has older key records than it had (restored from a backup, or lost in a failover): they are in use as they are";
    reportOlder(this.#options.report, { older, keys, differing });
  }

  /** Revocations and expiries that Redis had forgotten hold; `cause` if they could not be written. */
  ended(keys: number, cause?: unknown): void {
    this.#options.report("error", "keys_ended", { keys, why: endsIn(cause) });
  }

  /** The records were read: which are damaged, and which are here now. A line for each mistake. */
  async adopted(
    damaged: readonly DamagedRecord[],
    present: RecordFinder,
  ): Promise<readonly string[]> {
    const { key, report } = this.#options;
    if (await this.#lost.dropFound(present)) report("info", "keys_found");
    const lines = linesOf(key, damaged);
    if (lines.join() !== this.#damageLines.join()) {
      if (lines.length > 0) {
        report("error", "keys_damaged", {
          why: `${lines.join("\n")}. The other records are in use`,
        });
      } else report("info", "keys_whole");
    }
    this.#damageLines = lines;
    this.#damaged = damaged.length;
    this.readable();
    return lines;
  }

  readable(): void {
    this.#trouble = undefined;
    if (this.#told !== undefined) this.#options.report("info", "keys_readable");
    this.#told = undefined;
  }

  /** The records cannot be read. Those `inUse` were read before, or are of the copy on disk. */
  async unreadable(cause: unknown, inUse: Records): Promise<void> {
    const { report, copyFile } = this.#options;
    this.#trouble = wordsOf(cause);
    const isAway = !(cause instanceof LostRecordsError) && AWAY.has(toStoreFailure(cause).code);
    if (!isAway) this.#unreadable += 1;
    if (isAway || this.#told === this.#trouble) return;
    this.#told = this.#trouble;
    const stay = "The keys read before stay in use, revoked ones too";
    report("error", "keys_unreadable", { why: `${this.#told}. ${stay}` });
    if (cause instanceof LostRecordsError) await this.#add(inUse, copyFile);
  }

  async #add(lost: Records, file: string | undefined): Promise<void> {
    this.#lostFile = file;
    await this.#lost.add(lost);
    const why = this.#lost.words("Redis", file);
    this.#options.report("error", "keys_lost", { ...this.#lost.details, file, why });
  }
}

function linesOf(key: string, damaged: readonly DamagedRecord[]): readonly string[] {
  return damaged
    .flatMap(({ mistakes }) => mistakes)
    .slice(0, MISTAKES_MAX)
    .map(({ path, why }) => cleanText(`Cannot use ${path.join(".")} in the hash ${key}: ${why}`));
}
