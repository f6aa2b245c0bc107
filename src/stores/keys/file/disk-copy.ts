import { nextTurn } from "../../../base/event-loop.ts";
import { SerialQueue } from "../../../base/serial-queue.ts";
import { NO_RECORDS, type Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { DamagedFileError, damagedFileError } from "../../files/damaged-file.ts";
import { takeLock } from "../../files/file-lock.ts";
import {
  fileErrorMessage,
  moveAside,
  readTextIfAny,
  replaceFile,
} from "../../files/replace-file.ts";
import { isCounters, keepCounters } from "../../quotas/memory/left-state.ts";
import { keepRevocations } from "../records/keep-revocations.ts";
import { LostRecords } from "../records/lost-records.ts";
import { decodeKeyFile, encodeKeyFile } from "./file-format.ts";

/** The last copy on disk of records that live in Redis. */
export type DiskCopy = {
  /** The records that were there at the start, and their id; undefined when there was no copy. */
  readonly found: { readonly records: Records; readonly id: string | undefined } | undefined;
  /**
   * The same of a copy of another store: nothing of it is in force. It is moved aside before the
   * first write, unless `takeOther` says that its store is this one under another address.
   */
  readonly other: DiskCopy["found"];
  takeOther(): void;
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
  /** Whether a copy with this id is of another store. By default none is. */
  readonly isOther?: (id: string | undefined) => boolean;
  /** Gateways of one machine may share the file: each writes the same content, one at a time. */
  readonly lockWaitMs?: number;
  /** How soon records that could not be written are tried again. */
  readonly retryMs?: number;
  /** The longest rest between two copies: one of 150,000 records takes half a second of processor. */
  readonly pauseMs?: number;
};

/** Changes nothing on disk. Rejects if there is a copy that cannot be read at all. */
export async function openDiskCopy(
  file: string,
  report: Reporter,
  {
    lockWaitMs = 5_000,
    retryMs = 5_000,
    pauseMs = 1_000,
    isOther = () => false,
  }: DiskCopyOptions = {},
): Promise<DiskCopy> {
  const { found, damaged, hasCounters } = await read(file);
  const other = found !== undefined && isOther(found.id) ? found : undefined;
  const writer = new CopyWriter(file, report, {
    ...{ lockWaitMs, retryMs, pauseMs, isOther },
    keepsFound: hasCounters || damaged !== undefined || other !== undefined,
  });
  const aside = new SerialQueue();
  return {
    found: other === undefined ? found : undefined,
    ...{ other, damaged },
    takeOther: () => writer.overwrite(),
    write: (records, id) => writer.write({ records, id }),
    setAside: (records) => {
      void aside.run(() => setAsideLost(`${file}.lost`, records, { report, lockWaitMs }));
    },
    close: async () => {
      await writer.close();
      await aside.idle();
    },
  };
}

/**
 * A copy is followed by this rest for each record in it: few records are on disk at once, and many
 * take a tenth of the processor.
 */
const REST_MS = 0.03;

/** `keepsFound`: the file has a damaged copy, one of another store, or counts, which are kept. */
type WriterOptions = Required<DiskCopyOptions> & { readonly keepsFound: boolean };
type NamedRecords = NonNullable<DiskCopy["found"]>;

/** Writes the newest records, with a rest after each copy, and tries again until they are written. */
class CopyWriter {
  readonly #file: string;
  readonly #report: Reporter;
  readonly #options: WriterOptions;
  #keepsFound: boolean;
  #wanted: NamedRecords | undefined;
  #writing: Promise<void> | undefined;
  #next: NodeJS.Timeout | undefined;
  #trouble = false;
  #closed = false;

  constructor(file: string, report: Reporter, options: WriterOptions) {
    this.#file = file;
    this.#report = report;
    this.#options = options;
    this.#keepsFound = options.keepsFound;
  }

  /** The copy that is there need not be kept. */
  overwrite(): void {
    this.#keepsFound = false;
  }

  write(records: NamedRecords): void {
    this.#wanted = records;
    if (this.#next === undefined || this.#trouble) this.#start();
  }

  /** Tries once more what is not written yet. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#next);
    await this.#writing;
    this.#start();
    await this.#writing;
  }

  #start(): void {
    clearTimeout(this.#next);
    this.#next = undefined;
    if (this.#wanted !== undefined) this.#writing ??= this.#writeNewest(this.#wanted);
  }

  async #writeNewest(newest: NamedRecords): Promise<void> {
    this.#wanted = undefined;
    const isWritten = await this.#writeOne(newest);
    this.#writing = undefined;
    const { pauseMs, retryMs } = this.#options;
    const { keys, accounts } = newest.records;
    const restMs = Math.min(pauseMs, REST_MS * (keys.length + accounts.length));
    const waitMs = isWritten || this.#wanted !== undefined ? restMs : retryMs;
    if (!isWritten) this.#wanted ??= newest;
    if (this.#closed) return;
    this.#next = setTimeout(() => this.#start(), waitMs).unref();
  }

  async #writeOne({ records, id }: NamedRecords): Promise<boolean> {
    const file = this.#file;
    try {
      await withLock(file, this.#options.lockWaitMs, async () => {
        if (this.#keepsFound) await this.#keepFound();
        this.#keepsFound = false;
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

  /** Another gateway of this machine may have replaced it: then nothing is left to keep. */
  async #keepFound(): Promise<void> {
    const { found, damaged, hasCounters } = await read(this.#file);
    if (damaged !== undefined) await moveAside(this.#file, "damaged");
    if (hasCounters) await keepCounters(this.#file, this.#report);
    if (found === undefined || !this.#options.isOther(found.id)) return;
    const file = await moveAside(this.#file, "elsewhere");
    const why = `The key records that were kept here are of another store, and none of their keys is accepted. If they belong into this one: tollgate keys import ${file}`;
    this.#report("warn", "keys_copy_elsewhere", { file, why });
  }
}

/**
 * Keeps lost records in a file of theirs, together with those that it has from an earlier loss. Never
 * fails: trouble is reported.
 */
export async function setAsideLost(
  file: string,
  records: Records,
  { report, lockWaitMs }: { readonly report: Reporter; readonly lockWaitMs: number },
): Promise<void> {
  try {
    await withLock(file, lockWaitMs, () => addLost(file, records, report));
    report("info", "keys_set_aside", { file });
  } catch (cause) {
    report("error", "keys_copy_unwritten", { file, why: fileErrorMessage(cause) });
  }
}

async function addLost(file: string, records: Records, report: Reporter): Promise<void> {
  const { found, damaged } = await read(file);
  if (damaged !== undefined) {
    await moveAside(file, "damaged");
    report("error", "keys_copy_damaged", { file, why: damaged.message });
  }
  await replaceFile(file, encodeKeyFile(await withEarlier(records, found?.records)));
}

/** The records, and of an earlier loss the further ones and the revocations. */
async function withEarlier(records: Records, earlier = NO_RECORDS): Promise<Records> {
  const lost = new LostRecords();
  await lost.add(earlier);
  const all = await lost.with(records);
  const find = (digest: string) => lost.find(digest);
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

type Read = Pick<DiskCopy, "found" | "damaged"> & {
  /** Whether the file is that of a memory store. */
  readonly hasCounters: boolean;
};

async function read(file: string): Promise<Read> {
  const none = { found: undefined, damaged: undefined, hasCounters: false };
  const text = await readTextIfAny(file, "the state file");
  if (text === undefined) return none;
  if (isCounters(text)) return { ...none, hasCounters: true };
  // Many megabytes became a text in this turn, and become bytes again in the next.
  await nextTurn();
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
