import { readFile, stat } from "node:fs/promises";
import { setImmediate as breathe } from "node:timers/promises";
import type { KeyRecord } from "../../core/keys/key.ts";
import type { Report } from "../../telemetry/log.ts";
import { DamagedFileError, damaged, parseFile } from "../files/damaged.ts";
import { takeLock } from "../files/file-lock.ts";
import { fileTrouble, replaceFile } from "../files/replace-file.ts";
import type { Edit, KeyStore } from "../interface/key-store.ts";
import { RecordReader, recordText } from "./record-format.ts";
import { RecordSet, refuseDuplicates } from "./record-set.ts";

export type KeysFileOptions = {
  readonly path: string;
  readonly report: Report;
  /** Follow the changes of others: a gateway does, a command that reads once need not. */
  readonly watch: boolean;
  /** The time that a change waits for the change of another process to end. */
  readonly lockWaitMs?: number;
};

const VERSION = 1;
/** A change by another process is seen within this and the reading: a second, with room. */
const POLL_MS = 300;
const LOCK_WAIT_MS = 10_000;
/** Records read or written before the event loop has its turn: about two milliseconds. */
const AT_ONCE = 500;

/**
 * Keys in one JSON file, a record per line, digests only. A missing file has no keys and is made by
 * the first change. Rejects, leaving the file as it is, when it is damaged (DamagedFileError, with
 * every place) or cannot be read.
 */
export async function openKeysFile(options: KeysFileOptions): Promise<KeyStore> {
  const store = new KeysFile(options);
  await store.open();
  return store;
}

/** The identity of one content of the file: its inode, since every change is a rename. */
type Seen = { readonly identity: string; readonly exists: boolean };

class KeysFile implements KeyStore {
  readonly ready = true;
  readonly #set = new RecordSet();
  readonly #options: KeysFileOptions;
  #seen: Seen = { identity: "", exists: false };
  /** The content that was refused last: it is not read again until it changes. */
  #refused: { readonly identity: string; readonly error: DamagedFileError } | undefined;
  #trouble: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  /** Reading and changing take turns, so that an old reading never replaces a newer change. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: KeysFileOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    await this.#read();
    if (this.#options.watch) this.#next();
  }

  find(digest: string): KeyRecord | undefined {
    return this.#set.find(digest);
  }

  list(): readonly KeyRecord[] {
    return this.#set.records;
  }

  onChange(listener: () => void): void {
    this.#set.onChange(listener);
  }

  health(): { readonly ok: boolean; readonly why?: string } {
    return this.#trouble === undefined ? { ok: true } : { ok: false, why: this.#trouble };
  }

  change<T>(edit: Edit<T>): Promise<T> {
    return this.#inTurn(() => this.#change(edit));
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#turn;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
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
      refuseDuplicates(records);
      await replaceFile(path, keysText(records)).catch((cause: unknown) => {
        throw new Error(`Cannot write the keys file ${path}: ${fileTrouble(cause)}`, { cause });
      });
      this.#seen = await look(path);
      this.#set.replace(records);
      return result;
    } finally {
      lock.release();
    }
  }

  /** Takes over the file where it changed. Rejects, changing nothing, when that cannot be used. */
  async #read(): Promise<void> {
    const { path } = this.#options;
    const seen = await look(path);
    if (seen.identity === this.#seen.identity) return;
    if (seen.identity === this.#refused?.identity) throw this.#refused.error;
    if (!seen.exists) throw new Error(`Cannot find the keys file ${path} any more: put it back`);
    const text = await readFile(path, "utf8").catch((cause: unknown) => {
      throw new Error(`Cannot read the keys file ${path}: ${fileTrouble(cause)}`, { cause });
    });
    try {
      this.#set.replace(await readKeys(path, text));
    } catch (error) {
      if (error instanceof DamagedFileError) this.#refused = { identity: seen.identity, error };
      throw error;
    }
    this.#seen = seen;
    this.#refused = undefined;
  }

  #next(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#inTurn(() => this.#follow()).finally(() => this.#next());
    }, POLL_MS).unref();
  }

  /** Keeps the last good records whatever becomes of the file; one line for each change of that. */
  async #follow(): Promise<void> {
    const { path, report } = this.#options;
    const before = this.#trouble;
    try {
      await this.#read();
      this.#trouble = undefined;
      if (before !== undefined) report("info", "keys_readable", { path });
    } catch (cause) {
      this.#trouble = (cause as Error).message;
      if (this.#trouble === before) return;
      const why = `${this.#trouble}. The keys read before stay in use`;
      report("error", "keys_unreadable", { path, why });
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

/** The text of a file of keys, in pieces. */
export function* keysText(records: readonly KeyRecord[]): Generator<string> {
  yield `{"version":${VERSION},"keys":[\n`;
  for (let from = 0; from < records.length; from += AT_ONCE) {
    const piece = records.slice(from, from + AT_ONCE).map(recordText);
    yield piece.join(",\n") + (from + AT_ONCE < records.length ? ",\n" : "\n");
  }
  yield "]}\n";
}

/** The records of such a file. Rejects with DamagedFileError, naming the places. */
export async function readKeys(file: string, text: string): Promise<readonly KeyRecord[]> {
  const values = (await readByLine(text)) ?? wholeFile(file, text);
  const reader = new RecordReader();
  for (const [index, value] of values.entries()) {
    reader.add(value, ["keys", index]);
    if (index % AT_ONCE === AT_ONCE - 1) await breathe();
  }
  if (reader.mistakes.length > 0) throw damaged(file, text, reader.mistakes);
  return reader.records;
}

/** As keysText lays it out: 100,000 keys in pieces, without holding up requests for half a second. */
async function readByLine(text: string): Promise<unknown[] | undefined> {
  const lines = text.split("\n");
  if (lines.shift() !== `{"version":${VERSION},"keys":[`) return undefined;
  if (lines.pop() !== "" || lines.pop() !== "]}") return undefined;
  const values: unknown[] = [];
  try {
    for (const [index, line] of lines.entries()) {
      const isLast = index === lines.length - 1;
      if (line.endsWith(",") === isLast) return undefined;
      values.push(JSON.parse(isLast ? line : line.slice(0, -1)));
      if (index % AT_ONCE === AT_ONCE - 1) await breathe();
    }
  } catch {
    return undefined;
  }
  return values;
}

function wholeFile(file: string, text: string): readonly unknown[] {
  const reader = new RecordReader();
  const { version, keys, ...others } = reader.object(parseFile(file, text), []);
  if (reader.mistakes.length > 0) throw damaged(file, text, reader.mistakes);
  if (version !== VERSION) {
    reader.note(["version"], `this gateway reads version ${VERSION}`, version);
  }
  for (const name of Object.keys(others)) reader.note([name], "it is unknown", others[name]);
  const values = reader.list(keys, ["keys"]);
  if (reader.mistakes.length > 0) throw damaged(file, text, reader.mistakes);
  return values;
}
