import { SerialQueue } from "../../../base/serial-queue.ts";
import type { Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { damagedFileError } from "../../files/damaged-file.ts";
import { takeLock } from "../../files/file-lock.ts";
import { fileErrorMessage, readRegularFile, replaceFile } from "../../files/replace-file.ts";
import { decodeKeyFile, encodeKeyFile } from "./file-format.ts";

/** The last copy on disk of records that live in Redis. */
export type DiskCopy = {
  /** The records that were there at the start, and their id; undefined when there was no copy. */
  readonly found: { readonly records: Records; readonly id: string | undefined } | undefined;
  /**
   * Writes in the background; of several calls, the newest is written. `id` names these records.
   * Never fails: trouble is reported once.
   */
  write(records: Records, id?: string): void;
  /** Keeps records that Redis has lost in a file next to the copy. An operator can restore them. */
  setAside(records: Records): void;
  close(): Promise<void>;
};

/** The gateways of one machine may share the file: each writes the same content, one at a time. */
const LOCK_WAIT_MS = 5_000;

/** Rejects with DamagedFileError if there is a copy that cannot be read, and leaves it as it is. */
export async function openDiskCopy(
  file: string,
  report: Reporter,
  lockWaitMs = LOCK_WAIT_MS,
): Promise<DiskCopy> {
  const found = await read(file);
  let wanted: { readonly records: Records; readonly id: string | undefined } | undefined;
  let writing: Promise<void> | undefined;
  const aside = new SerialQueue();
  let trouble = false;

  async function writeAll(): Promise<void> {
    while (wanted !== undefined) {
      const text = encodeKeyFile(wanted.records, [], wanted.id);
      wanted = undefined;
      try {
        await writeOne(file, text, lockWaitMs);
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
    write: (records, id) => {
      wanted = { records, id };
      writing ??= writeAll();
    },
    setAside: (records) => {
      const lost = `${file}.lost`;
      const written = aside.run(() => writeOne(lost, encodeKeyFile(records), lockWaitMs));
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

async function writeOne(file: string, text: Iterable<string>, lockWaitMs: number): Promise<void> {
  const lock = await takeLock(file, lockWaitMs);
  if (lock === undefined) throw new Error("another process keeps it locked");
  try {
    await replaceFile(file, text);
  } finally {
    lock.release();
  }
}

async function read(file: string): Promise<DiskCopy["found"]> {
  let text: string;
  try {
    text = (await readRegularFile(file)).toString();
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined;
    throw new Error(`Cannot read the state file ${file}: ${fileErrorMessage(cause)}`, { cause });
  }
  if (isCounters(text)) return undefined;
  const { records, damaged: found, id } = await decodeKeyFile(file, text, { nowMs: Date.now() });
  if (found.length === 0) return { records, id };
  throw damagedFileError(
    file,
    text,
    found.flatMap(({ mistakes }) => mistakes),
  );
}

/**
 * Whether this is a state file that the memory store left here before the configuration named
 * Redis. Such a file holds no keys.
 */
function isCounters(text: string): boolean {
  return /^\{"version":\d+,"accounts":/.test(text);
}
