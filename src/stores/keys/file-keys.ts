import { readFile, stat } from "node:fs/promises";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import type { Report } from "../../telemetry/log.ts";
import { DamagedFileError, damaged } from "../files/damaged.ts";
import { takeLock } from "../files/file-lock.ts";
import { fileTrouble, replaceFile } from "../files/replace-file.ts";
import type { Edit, KeyStore } from "../interface/key-store.ts";
import { refuseBroken } from "./changed-records.ts";
import { keysText, readKeys } from "./file-format.ts";
import { InTurn } from "./in-turn.ts";
import type { Reading } from "./reading.ts";
import { RecordSet } from "./record-set.ts";

export type KeysFileOptions = {
  readonly path: string;
  readonly report: Report;
  /** Follow the changes of others: a gateway does, a command that reads once need not. */
  readonly watch: boolean;
  /** How long a change waits for the one of another process to end. */
  readonly lockWaitMs?: number;
  /** Unix milliseconds. */
  readonly now?: () => number;
};

/** A change by another process is seen within this and the reading: a second, with room. */
const POLL_MS = 300;
const LOCK_WAIT_MS = 20_000;

/**
 * Keys and accounts in one JSON file, a record per line, digests only. A missing file has none and
 * is made by the first change. Rejects, leaving the file as it is, when it cannot be read, or with
 * DamagedFileError, which has every place; a command (`watch` false) reads the records that are
 * whole.
 */
export async function openKeysFile(options: KeysFileOptions): Promise<KeyStore> {
  const store = new KeysFile(options);
  await store.open();
  return store;
}

/** The identity of one content of the file: the inode, since every change is a rename. */
type Seen = { readonly identity: string; readonly exists: boolean };

class KeysFile implements KeyStore {
  readonly ready = true;
  readonly #set = new RecordSet();
  readonly #options: KeysFileOptions;
  readonly #turn = new InTurn();
  #seen: Seen = { identity: "", exists: false };
  #reading: Pick<Reading, "damaged" | "older"> = { damaged: [], older: false };
  /** A line for each mistake in a damaged record. */
  #damage: readonly string[] = [];
  /** The content that was refused last: it is not read again until it changes. */
  #refused: { readonly identity: string; readonly error: DamagedFileError } | undefined;
  #trouble: string | undefined;
  /** The trouble that the log has, in full. */
  #told: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: KeysFileOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    await this.#read();
    const { path, watch } = this.#options;
    if (!watch) return;
    if (this.#damage.length > 0) {
      const text = await readFile(path, "utf8");
      throw damaged(
        path,
        text,
        this.#reading.damaged.flatMap(({ mistakes }) => mistakes),
      );
    }
    this.#next();
  }

  find(digest: string): KeyRecord | undefined {
    return this.#set.find(digest);
  }

  account(id: string): AccountRecord | undefined {
    return this.#set.account(id);
  }

  records(): Records {
    return this.#set.records;
  }

  onChange(listener: () => void): void {
    this.#set.onChange(listener);
  }

  damage(): readonly string[] {
    return this.#damage;
  }

  health(): { readonly ok: boolean; readonly why?: string } {
    if (this.#trouble !== undefined) return { ok: false, why: this.#trouble };
    const { length } = this.#reading.damaged;
    if (length === 0) return { ok: true };
    return { ok: false, why: `${length} records in the keys file are damaged: the log names them` };
  }

  change<T>(edit: Edit<T>): Promise<T> {
    return this.#turn.run(() => this.#change(edit));
  }

  refresh(): Promise<void> {
    return this.#turn.run(() => this.#follow(true));
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#turn.idle();
  }

  async #change<T>(edit: Edit<T>): Promise<T> {
    const { path, lockWaitMs = LOCK_WAIT_MS } = this.#options;
    const lock = await takeLock(path, lockWaitMs);
    if (lock === undefined) {
      throw new Error(
        `Cannot change the keys in ${path}: another process has kept them locked for ${lockWaitMs} ms. Try again`,
      );
    }
    try {
      await this.#read();
      const before = this.#set.records;
      const { records, result } = edit(before);
      if (records === before) return result;
      refuseBroken(before, records, (digest) => this.#set.find(digest));
      const text = keysText(records, this.#reading.damaged);
      await replaceFile(path, text).catch((cause: unknown) => {
        throw new Error(`Cannot write the keys file ${path}: ${fileTrouble(cause)}`, { cause });
      });
      // Damaged records have other places now: reading the file tells them.
      if (this.#reading.damaged.length > 0) await this.#read();
      else {
        this.#seen = await look(path);
        await this.#set.replace(records);
      }
      return result;
    } finally {
      lock.release();
    }
  }

  /** Takes over the file where it changed. Rejects, changing nothing, when that cannot be used. */
  async #read(): Promise<void> {
    const { path, now = Date.now } = this.#options;
    const seen = await look(path);
    if (seen.identity === this.#seen.identity) return;
    if (seen.identity === this.#refused?.identity) throw this.#refused.error;
    if (!seen.exists) throw new Error(`Cannot find the keys file ${path} any more: put it back`);
    const bytes = await readFile(path).catch((cause: unknown) => {
      throw new Error(`Cannot read the keys file ${path}: ${fileTrouble(cause)}`, { cause });
    });
    let reading: Reading;
    try {
      reading = await readKeys(path, bytes, { known: this.#set.records, nowMs: now() });
    } catch (error) {
      if (error instanceof DamagedFileError) this.#refused = { identity: seen.identity, error };
      throw error;
    }
    const mistakes = reading.damaged.flatMap((each) => each.mistakes);
    const toldOf = () => damaged(path, bytes.toString(), mistakes).message.split("\n");
    this.#damage = mistakes.length === 0 ? [] : toldOf();
    this.#reading = reading;
    await this.#set.replace(reading.records);
    this.#seen = seen;
    this.#refused = undefined;
  }

  #next(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#turn.run(() => this.#follow(false)).finally(() => this.#next());
    }, POLL_MS).unref();
  }

  /**
   * Keeps the last good records whatever becomes of the file; one line for each change of that.
   * `strict`: rejects where they cannot be read.
   */
  async #follow(strict: boolean): Promise<void> {
    const { path, report } = this.#options;
    const before = this.#trouble;
    const damageBefore = this.#damage;
    try {
      await this.#read();
      this.#trouble = undefined;
      if (before !== undefined) report("info", "keys_readable", { path });
    } catch (cause) {
      const { message } = cause as Error;
      this.#trouble =
        cause instanceof DamagedFileError
          ? "the keys file is damaged: the log says where"
          : message;
      if (this.#told !== message) {
        report("error", "keys_unreadable", {
          path,
          why: `${message}. The keys read before stay in use`,
        });
      }
      this.#told = message;
      if (strict) throw cause;
      return;
    }
    this.#told = undefined;
    if (this.#damage === damageBefore) return;
    if (this.#damage.length > 0) {
      report("error", "keys_damaged", {
        path,
        why: `${this.#damage.join("\n")}. The other records are in use`,
      });
    } else if (damageBefore.length > 0) {
      report("info", "keys_whole", { path });
    }
  }
}

async function look(path: string): Promise<Seen> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return { identity: [ino, size, mtimeNs, ctimeNs].join(), exists: true };
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") {
      return { identity: "", exists: false };
    }
    throw new Error(`Cannot read the keys file ${path}: ${fileTrouble(cause)}`, { cause });
  }
}
