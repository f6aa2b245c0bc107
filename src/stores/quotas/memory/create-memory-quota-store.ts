import { takeLock } from "../../files/file-lock.ts";
import { canReplaceFile } from "../../files/replace-file.ts";
import type { QuotaStore } from "../quota-store.ts";
import { DayCounts } from "./day-counts.ts";
import { DayFiles } from "./day-files.ts";
import { MemoryActivity } from "./memory-activity.ts";
import { MemoryQuotaStore, type MemoryQuotaStoreOptions } from "./memory-quota-store.ts";
import { readState } from "./state-file.ts";

/** How long a gateway that is being replaced has to release the state file. */
const LOCK_WAIT_MS = 2_000;

/**
 * Opens the embedded store and its files. Rejects if the state file is damaged (DamagedFileError,
 * with the place), unreadable, or in use already.
 */
export async function createMemoryQuotaStore(
  options: MemoryQuotaStoreOptions,
): Promise<QuotaStore> {
  const { stateFile, now, historyMs } = options;
  const files = stateFile === undefined ? undefined : new DayFiles(stateFile);
  const days = new DayCounts(files, historyMs);
  const activity = new MemoryActivity(stateFile, days, now);
  if (stateFile === undefined) return new MemoryQuotaStore(options, [], { days, activity });
  const lock = await takeLock(stateFile, LOCK_WAIT_MS);
  if (lock === undefined) {
    throw new Error(
      `Cannot use the state file ${stateFile}: a gateway has it open already. Stop that one, or give this one another stateFile`,
    );
  }
  try {
    await days.load(now());
    await activity.load();
    const { release } = lock;
    const saved = await readState(stateFile, options.report);
    const isWritable = await canReplaceFile(stateFile);
    return new MemoryQuotaStore(options, saved, { days, activity, release, isWritable });
  } catch (cause) {
    lock.release();
    throw cause;
  }
}
