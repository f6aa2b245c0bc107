import { rename } from "node:fs/promises";
import { SerialQueue } from "../../../base/serial-queue.ts";
import { NO_RECORDS, type Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { DamagedFileError, damagedFileError } from "../../files/damaged-file.ts";
import { takeLock } from "../../files/file-lock.ts";
import { fileErrorMessage, readRegularFile, replaceFile } from "../../files/replace-file.ts";
import { keepRevocations } from "../records/keep-revocations.ts";
import { LostRecords } from "../records/lost-records.ts";
import { decodeKeyFile, encodeKeyFile } from "./file-format.ts";

/** The last copy on disk of records that live in Redis. */
export type DiskCopy = {
  /** The records that were there at the start, and their id; undefined when there was no copy. */
  readonly found: { readonly records: Records; readonly id: string | undefined } | undefined;
  /** Why there is a copy and it cannot be used. It is moved aside before the first write. */
  readonly damaged: DamagedFileError | undefined;
  /**
   * Writes in the background; of several calls, the newest is written. `id` names these records.
   * Never fails: trouble is reported once.
   */
  write(records: Records, id?: string): void;
  /**
   * Keeps records that Redis has lost in a file next to the copy, together with those that the file
   * has from an earlier loss. An operator can restore them.
   */
  setAside(records: Records): void;
  close(): Promise<void>;
};

/** The gateways of one machine may share the file: each writes the same content, one at a time. */
const LOCK_WAIT_MS = 5_000;

/** Changes nothing on disk. Rejects if there is a copy that cannot be read at all. */
export async function openDiskCopy(
  file: string,
  report: Reporter,
  lockWaitMs = LOCK_WAIT_MS,
): Promise<DiskCopy> {
  const { found, damaged } = await read(file);
  let isDamaged = damaged !== undefined;
  let wanted: { readonly records: Records; readonly id: string | undefined } | undefined;
  let writing: Promise<void> | undefined;
  const aside = new SerialQueue();
  let trouble = false;

  async function writeAll(): Promise<void> {
    while (wanted !== undefined) {
      const text = encodeKeyFile(wanted.records, [], wanted.id);
      wanted = undefined;
      try {
        await withLock(file, lockWaitMs, async () => {
          // Another gateway of this machine may have replaced it.
          if (isDamaged && (await read(file)).damaged !== undefined) await moveAside(file);
          isDamaged = false;
          await replaceFile(file, text);
        });
        if (trouble) report("info", "keys_copy_written", { file });
        trouble = false;
      } catch (cause) {
        if (!trouble) {
          const why = `Cannot write the copy of the keys to ${file}: ${fileErrorMessage(cause)}`;
          report("error", "keys_copy_unwritten", { file, why });
        }
        trouble = true;
      }
    }
    writing = undefined;
  }

  return {
    found,
    damaged,
    write: (records, id) => {
      wanted = { records, id };
      writing ??= writeAll();
    },
    setAside: (records) => {
      const lost = `${file}.lost`;
      const written = aside.run(() =>
        withLock(lost, lockWaitMs, () => addLost(lost, records, report)),
      );
      written.then(
        () => report("info", "keys_set_aside", { file: lost }),
        (cause) =>
          report("error", "keys_copy_unwritten", { file: lost, why: fileErrorMessage(cause) }),
      );
    },
    close: async () => {
      await writing;
      await aside.idle();
    },
  };
}

/** Writes lost records to their file, together with those that it has. */
async function addLost(file: string, records: Records, report: Reporter): Promise<void> {
  const { found, damaged } = await read(file);
  if (damaged !== undefined) {
    await moveAside(file);
    report("error", "keys_copy_damaged", { file, why: damaged.message });
  }
  await replaceFile(file, encodeKeyFile(await withEarlier(records, found?.records)));
}

/** The records, and of an earlier loss the further ones and the revocations. */
async function withEarlier(records: Records, earlier = NO_RECORDS): Promise<Records> {
  const lost = new LostRecords();
  lost.add(earlier);
  const all = lost.with(records);
  const byDigest = new Map(earlier.keys.map((key) => [key.digest, key]));
  const find = (digest: string) => byDigest.get(digest);
  const { keys } = await keepRevocations(all.keys, { records: earlier, find }, false);
  return { ...all, keys };
}

async function withLock(
  file: string,
  lockWaitMs: number,
  write: () => Promise<void>,
): Promise<void> {
  const lock = await takeLock(file, lockWaitMs);
  if (lock === undefined) throw new Error("another process keeps it locked");
  try {
    await write();
  } finally {
    lock.release();
  }
}

/** Renames a damaged file, so that what is left in it is kept. */
function moveAside(file: string): Promise<void> {
  return rename(file, `${file}.damaged.${Date.now()}`);
}

async function read(file: string): Promise<Pick<DiskCopy, "found" | "damaged">> {
  const none = { found: undefined, damaged: undefined };
  let text: string;
  try {
    text = (await readRegularFile(file)).toString();
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return none;
    throw new Error(`Cannot read the state file ${file}: ${fileErrorMessage(cause)}`, { cause });
  }
  if (isCounters(text)) return none;
  try {
    const { records, damaged, id } = await decodeKeyFile(file, text, { nowMs: Date.now() });
    const mistakes = damaged.flatMap((one) => one.mistakes);
    if (mistakes.length > 0) throw damagedFileError(file, text, mistakes);
    return { ...none, found: { records, id } };
  } catch (cause) {
    if (!(cause instanceof DamagedFileError)) throw cause;
    return { ...none, damaged: cause };
  }
}

/**
 * Whether this is a state file that the memory store left here before the configuration named
 * Redis. Such a file holds no keys.
 */
function isCounters(text: string): boolean {
  return /^\{"version":\d+,"accounts":/.test(text);
}
