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

export type DiskCopyOptions = {
  /**
   * The gateways of one machine may share the file: each writes the same content, one at a time.
   */
  readonly lockWaitMs?: number;
  /** How soon records that could not be written are tried again. */
  readonly retryMs?: number;
};

/** Changes nothing on disk. Rejects if there is a copy that cannot be read at all. */
export async function openDiskCopy(
  file: string,
  report: Reporter,
  { lockWaitMs = 5_000, retryMs = 5_000 }: DiskCopyOptions = {},
): Promise<DiskCopy> {
  const { found, damaged } = await read(file);
  const writer = new CopyWriter(file, report, {
    ...{ lockWaitMs, retryMs },
    isDamaged: damaged !== undefined,
  });
  const aside = new SerialQueue();
  return {
    found,
    damaged,
    write: (records, id) => writer.write({ records, id }),
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
      await writer.close();
      await aside.idle();
    },
  };
}

/** `isDamaged`: there is a damaged copy, which is to be kept. */
type WriterOptions = Required<DiskCopyOptions> & { readonly isDamaged: boolean };
type NamedRecords = NonNullable<DiskCopy["found"]>;

/** Writes the newest records, and tries again until they are written. */
class CopyWriter {
  readonly #file: string;
  readonly #report: Reporter;
  readonly #options: WriterOptions;
  #isDamaged: boolean;
  #wanted: NamedRecords | undefined;
  #writing: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #trouble = false;
  #closed = false;

  constructor(file: string, report: Reporter, options: WriterOptions) {
    this.#file = file;
    this.#report = report;
    this.#options = options;
    this.#isDamaged = options.isDamaged;
  }

  write(records: NamedRecords): void {
    this.#wanted = records;
    this.#start();
  }

  /** Tries once more what is not written yet. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await this.#writing;
    if (this.#wanted === undefined) return;
    this.#start();
    await this.#writing;
  }

  #start(): void {
    clearTimeout(this.#retry);
    this.#writing ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    let failed = false;
    while (this.#wanted !== undefined && !failed) {
      const tried = this.#wanted;
      this.#wanted = undefined;
      const isWritten = await this.#writeOne(tried);
      failed = !isWritten && this.#wanted === undefined;
      if (failed) this.#wanted = tried;
    }
    this.#writing = undefined;
    if (!failed || this.#closed) return;
    this.#retry = setTimeout(() => this.#start(), this.#options.retryMs).unref();
  }

  async #writeOne({ records, id }: NamedRecords): Promise<boolean> {
    const file = this.#file;
    try {
      await withLock(file, this.#options.lockWaitMs, async () => {
        // Another gateway of this machine may have replaced it.
        if (this.#isDamaged && (await read(file)).damaged !== undefined) await moveAside(file);
        this.#isDamaged = false;
        await replaceFile(file, encodeKeyFile(records, [], id));
      });
      if (this.#trouble) this.#report("info", "keys_copy_written", { file });
      this.#trouble = false;
      return true;
    } catch (cause) {
      if (!this.#trouble) {
        const why = `Cannot write the copy of the keys to ${file}: ${fileErrorMessage(cause)}`;
        this.#report("error", "keys_copy_unwritten", { file, why });
      }
      this.#trouble = true;
      return false;
    }
  }
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
