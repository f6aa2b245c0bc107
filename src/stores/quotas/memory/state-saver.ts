import type { Reporter } from "../../../telemetry/log/log.ts";
import { fileErrorMessage, replaceFile } from "../../files/replace-file.ts";
import type { DayCounts } from "./day-counts.ts";
import type { MemoryActivity } from "./memory-activity.ts";
import { encodeState, type SavedAccount } from "./state-file.ts";

export type SaverOptions = {
  /**
   * The state file. Without it only days are handled: days that were kept long enough are dropped.
   */
  readonly stateFile: string | undefined;
  readonly report: Reporter;
  readonly now: () => number;
  readonly days: DayCounts;
  readonly activity: MemoryActivity;
  /** The accounts at the time they are written. */
  readonly accounts: () => Iterable<SavedAccount>;
};

/** Writes the files of a memory store if their content has changed. */
export class StateSaver {
  readonly #options: SaverOptions;
  /** Whether an account has changed since all were written. */
  changed = false;
  /** Whether a file that lacks nothing is written too, to learn whether it can be. */
  isTried = false;
  /** How often the files could not be written. */
  failures = 0;
  /** Why the last write of the files failed; undefined if it did not. */
  trouble: string | undefined;
  #saving: Promise<void> | undefined;
  /** The write that comes after the one in progress. */
  #next: Promise<string | undefined> | undefined;

  constructor(options: SaverOptions) {
    this.#options = options;
  }

  /** Starts to write the changes, unless a write is in progress. Never throws. */
  start(): void {
    if (!(this.isBehind || this.isTried) || this.#saving !== undefined) return;
    this.#saving = this.#save().finally(() => {
      this.#saving = undefined;
    });
  }

  /** Writes all changes in one write. Resolves to why that failed, and never rejects. */
  whyUnsaved(): Promise<string | undefined> {
    this.#next ??= this.#saveNext();
    return this.#next;
  }

  /** The write in progress may have passed the accounts that have changed since it began. */
  async #saveNext(): Promise<string | undefined> {
    await this.#saving;
    this.#next = undefined;
    this.start();
    await this.#saving;
    return this.trouble;
  }

  /** Whether the files lack changes. */
  get isBehind(): boolean {
    const { days, activity } = this.#options;
    return this.changed || days.isChanged || activity.isChanged;
  }

  /** Never rejects: a full disk must not stop the gateway, and the old file stays whole. */
  async #save(): Promise<void> {
    const { stateFile, report, activity, accounts } = this.#options;
    const { changed } = this;
    this.changed = false;
    if (stateFile === undefined) return this.#saveDays();
    try {
      await replaceFile(stateFile, encodeState(accounts()));
      await this.#saveDays();
      await activity.save();
    } catch (cause) {
      this.changed ||= changed || !this.isTried;
      this.failures += 1;
      const trouble = `Cannot write the state file ${stateFile}: ${fileErrorMessage(cause)}`;
      const meaning = "Serving goes on, but a restart would forget what came since";
      if (this.trouble === undefined) {
        report("error", "state_file_unwritten", { stateFile, why: `${trouble}. ${meaning}` });
      }
      this.trouble = trouble;
      return;
    }
    if (this.trouble !== undefined) report("info", "state_file_written", { stateFile });
    this.trouble = undefined;
    this.isTried = false;
  }

  async #saveDays(): Promise<void> {
    const { days, now } = this.#options;
    if (days.isChanged) await days.save(now());
  }
}
