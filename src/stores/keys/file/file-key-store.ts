import { stat } from "node:fs/promises";
import { errorCode } from "../../../base/messages.ts";
import type { Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { DamagedFileError, damagedFileError } from "../../files/damaged-file.ts";
import { takeLock } from "../../files/file-lock.ts";
import { fileErrorMessage, readRegularFile, replaceFile } from "../../files/replace-file.ts";
import {
  type KeyStore,
  newRecordsId,
  type RecordEdit,
  type RecordsIdentity,
  type RecordTroubles,
  UnwrittenFileError,
} from "../key-store.ts";
import { CachedKeyStore } from "../records/cached-key-store.ts";
import { checkEdit, refuseOverDamaged } from "../records/check-edit.ts";
import type { ReadRecords } from "../records/record-collector.ts";
import { decodeKeyFile, encodeKeyFile } from "./file-format.ts";
import { FileLosses } from "./file-losses.ts";

export type FileKeyStoreOptions = {
  readonly path: string;
  readonly report: Reporter;
  /** Whether to follow the changes of others: a gateway does, a command need not. */
  readonly watch: boolean;
  /** Records to use until the file can be read, which then need not be there at the start. */
  readonly inForce?: Records | undefined;
  /** How long a change waits for a change by another process to end. */
  readonly lockWaitMs?: number;
};

/** A change by another process is seen within this and the time of reading. */
const POLL_MS = 300;
const LOCK_WAIT_MS = 20_000;
/** Changes of others are not followed, and a gateway does not end, while it waits to write ends. */
const ENDS_WAIT_MS = 1_000;
/** A write of ends that failed, of many megabytes on a full disk say, rests for so long. */
const ENDS_RETRY_MS = 5_000;

/**
 * Keys and accounts in one JSON file, a record per line, digests only. A missing file has no
 * records, and the first change makes it. If the file cannot be read, rejects and leaves the file
 * as it is; DamagedFileError has every place. A command (`watch` false) reads the records that are
 * whole.
 */
export async function openFileKeyStore(options: FileKeyStoreOptions): Promise<KeyStore> {
  const store = new FileKeyStore(options);
  await store.open();
  return store;
}

/** The identity of the content of a file that is not there. */
const MISSING = "";
/** The identity of records that were read by another process: the file has other ones. */
const IN_FORCE = "in force";

class FileKeyStore extends CachedKeyStore implements KeyStore {
  readonly ready = true;
  readonly #options: FileKeyStoreOptions;
  /** The identity of the content that was read last. */
  #seen = MISSING;
  #damaged: ReadRecords["damaged"] = [];
  #id: string | undefined;
  /** The content that was refused last. It is not read again until it changes. */
  #refused: { readonly identity: string; readonly error: DamagedFileError } | undefined;
  /** Why the newest content cannot be read: for the log, and for the readiness check. */
  #trouble: { readonly message: string; readonly why: string } | undefined;
  #unreadable = 0;
  readonly #losses: FileLosses;
  /** On performance.now(). */
  #writeEndsAtMs = 0;

  constructor(options: FileKeyStoreOptions) {
    super();
    this.#options = options;
    this.#losses = new FileLosses(options.path, options.report);
  }

  async open(): Promise<void> {
    const { path, watch, inForce } = this.#options;
    if (inForce !== undefined) {
      await this.held.replace(inForce);
      this.#seen = IN_FORCE;
      await this.#follow(false);
      return this.#pollFile();
    }
    await this.#read();
    if (!watch) return;
    if (this.damageLines.length > 0) {
      const text = (await readRegularFile(path)).toString();
      throw damagedFileError(
        path,
        text,
        this.#damaged.flatMap(({ mistakes }) => mistakes),
      );
    }
    this.#pollFile();
  }

  async identity(): Promise<RecordsIdentity> {
    const { path, watch } = this.#options;
    if (watch && this.#id === undefined) await this.queue.run(() => this.#ensureId());
    return { id: this.#id, place: path };
  }

  health(): ReturnType<KeyStore["health"]> {
    if (!this.#losses.health.ok) return this.#losses.health;
    if (this.#trouble !== undefined) return { ok: false, why: this.#trouble.why };
    const { length } = this.#damaged;
    if (length === 0) return { ok: true };
    return { ok: false, why: `${length} records in the keys file are damaged: the log names them` };
  }

  troubles(): RecordTroubles {
    const [damaged, unreadable] = [this.#damaged.length, this.#unreadable];
    return { ...this.#losses.troubles, damaged, unreadable };
  }

  refuseOverDamaged(after: Records): void {
    refuseOverDamaged(this.#known, after);
  }

  get #known(): Pick<ReadRecords, "damaged" | "records"> {
    return { damaged: this.#damaged, records: this.held.records };
  }

  protected reread(): Promise<void> {
    return this.#follow(true);
  }

  async close(): Promise<void> {
    this.stopPolling();
    await this.queue.idle();
    await this.#losses.close();
  }

  protected apply<T>(edit: RecordEdit<T>): Promise<T> {
    return this.#locked(async () => {
      await this.#read();
      const before = this.held.records;
      const { records, result } = edit(before);
      if (records !== before) await this.#write(records);
      return result;
    });
  }

  /**
   * Gives the records an id, so that a command can tell that it reads the same ones. If this user
   * cannot write to the folder, the records have no id.
   */
  async #ensureId(): Promise<void> {
    const nameIt = this.#locked(async () => {
      await this.#read();
      if (this.#id === undefined) await this.#write(this.held.records);
    });
    await nameIt.catch(() => undefined);
  }

  async #locked<T>(work: () => Promise<T>, mostMs = Number.POSITIVE_INFINITY): Promise<T> {
    const { path } = this.#options;
    const lockWaitMs = Math.min(mostMs, this.#options.lockWaitMs ?? LOCK_WAIT_MS);
    const lock = await takeLock(path, lockWaitMs);
    if (lock === undefined) {
      throw new Error(
        `Cannot change the keys in ${path}: another process has kept them locked for ${lockWaitMs} ms. Try again`,
      );
    }
    try {
      return await work();
    } finally {
      lock.release();
    }
  }

  /** Called with the lock held, on the newest records. */
  async #write(edited: Records): Promise<void> {
    const { path } = this.#options;
    const { records, changes, damaged } = await checkEdit(this.#known, edited, this.held);
    const id = this.#id ?? newRecordsId();
    const text = encodeKeyFile(records, damaged, id);
    await replaceFile(path, text).catch((cause: unknown) => {
      const why = `${fileErrorMessage(cause)}: nothing was changed`;
      throw new UnwrittenFileError(`Cannot write the keys file ${path}: ${why}`, { cause });
    });
    this.#id = id;
    this.#losses.written();
    // Damaged records have other places now, so the file is read again to find them.
    if (this.#damaged.length > 0) return this.#read();
    this.#seen = await identityOf(path);
    await this.held.replace(records, changes);
  }

  /** Takes over the file if it changed. Rejects, changing nothing, if the file cannot be used. */
  async #read(): Promise<void> {
    const { path, watch } = this.#options;
    const seen = await identityOf(path);
    if (seen === this.#seen) return;
    if (seen === this.#refused?.identity) throw this.#refused.error;
    if (seen === MISSING)
      throw new Error(`Cannot find the keys file ${path} any more: put it back`);
    const bytes = await readRegularFile(path).catch((cause: unknown) => {
      throw new Error(`Cannot read the keys file ${path}: ${fileErrorMessage(cause)}`, { cause });
    });
    let reading: Awaited<ReturnType<typeof decodeKeyFile>>;
    try {
      reading = await decodeKeyFile(path, bytes, { known: this.held.records, nowMs: Date.now() });
    } catch (error) {
      if (error instanceof DamagedFileError) this.#refused = { identity: seen, error };
      throw error;
    }
    const mistakes = reading.damaged.flatMap((each) => each.mistakes);
    this.damageLines =
      mistakes.length === 0
        ? []
        : damagedFileError(path, bytes.toString(), mistakes).message.split("\n");
    this.#damaged = reading.damaged;
    this.#id = reading.id;
    if (watch) await this.#losses.replace(this.held, reading, Date.now());
    else await this.held.replace(reading.records);
    this.#seen = seen;
    this.#refused = undefined;
  }

  /** Writes revocations and expiries that the file lacks; if it cannot, they wait for the next look. */
  async #writeEnds(): Promise<void> {
    if (!this.#losses.hasUnwritten || performance.now() < this.#writeEndsAtMs) return;
    const write = this.#locked(async () => {
      await this.#read();
      if (this.#losses.hasUnwritten) await this.#write(this.held.records);
    }, ENDS_WAIT_MS);
    await write.catch((cause: unknown) => {
      this.#writeEndsAtMs = performance.now() + ENDS_RETRY_MS;
      this.#losses.notWritten(cause);
    });
  }

  #pollFile(): void {
    this.poll(POLL_MS, () => this.queue.run(() => this.#follow(false)));
  }

  /**
   * Keeps the last good records whatever happens to the file. Logs one line when the trouble
   * changes. `strict`: rejects if the records cannot be read.
   */
  async #follow(strict: boolean): Promise<void> {
    const { path, report } = this.#options;
    const before = this.#trouble;
    const damageBefore = this.damageLines;
    try {
      await this.#read();
      await this.#writeEnds();
    } catch (cause) {
      const { message } = cause as Error;
      const isDamaged = cause instanceof DamagedFileError;
      this.#unreadable += 1;
      this.#trouble = {
        message,
        why: isDamaged ? "the keys file is damaged: the log says where" : message,
      };
      if (before?.message !== message) {
        const why = `${message}. The keys read before stay in use`;
        report("error", "keys_unreadable", { path, why });
      }
      if (strict) throw cause;
      return;
    }
    this.#trouble = undefined;
    if (before !== undefined) report("info", "keys_readable", { path });
    if (this.damageLines === damageBefore) return;
    if (this.damageLines.length > 0) {
      report("error", "keys_damaged", {
        path,
        why: `${this.damageLines.join("\n")}. The other records are in use`,
      });
    } else if (damageBefore.length > 0) {
      report("info", "keys_whole", { path });
    }
  }
}

/** The identity of the content of the file: its inode tells, because every change is a rename. */
async function identityOf(path: string): Promise<string> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [ino, size, mtimeNs, ctimeNs].join();
  } catch (cause) {
    if (errorCode(cause) === "ENOENT") return MISSING;
    throw new Error(`Cannot read the keys file ${path}: ${fileErrorMessage(cause)}`, { cause });
  }
}
