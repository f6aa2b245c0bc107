import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import type { KeyRecord } from "../../core/keys/key.ts";
import type { Report } from "../../telemetry/log.ts";
import type { Edit, KeyStore } from "../interface/key-store.ts";
import type { Link } from "../redis/link.ts";
import { translate } from "../redis/reply-errors.ts";
import { connectRedis, type RedisAddress } from "../redis/single-link.ts";
import { type KeysCopy, openKeysCopy } from "./disk-copy.ts";
import { RecordSet, refuseDuplicates } from "./record-set.ts";
import {
  applyNews,
  createRemoteKeys,
  DamagedRecordsError,
  type RemoteKeys,
  type Snapshot,
} from "./redis-records.ts";

export type KeysRedisOptions = {
  readonly address: RedisAddress;
  readonly prefix: string;
  /** The file of the last copy of the records, for a start while Redis is away. */
  readonly copyFile?: string | undefined;
  readonly report: Report;
  /** Follow the changes of others: a gateway does, a command that reads once need not. */
  readonly watch: boolean;
  /** For `rediss://`, beyond what Node trusts by itself. */
  readonly tls?: ConnectionOptions;
};

/** The version is read this often, for gateways that missed the message. */
const POLL_MS = 900;
/** Writers that come second begin anew, so often at most; the pause grows with each. */
const TRIES_MAX = 100;
const PAUSE_MAX_MS = 100;

/**
 * Keys in Redis, with a full copy here: a lookup costs no command. A gateway (`watch`) starts while
 * Redis is away, from the copy on disk if there is one; a command rejects instead. Rejects with
 * DamagedFileError when the copy on disk cannot be read, and leaves it as it is.
 */
export async function openKeysRedis(options: KeysRedisOptions): Promise<KeyStore> {
  const { address, prefix, copyFile, report, watch } = options;
  const copy = watch && copyFile !== undefined ? await openKeysCopy(copyFile, report) : undefined;
  const link = connectRedis(options);
  const store = new KeysRedis(link, createRemoteKeys(link, prefix), copy, report);
  try {
    await link.tried;
    if (watch) await store.follow();
    else await store.refresh();
  } catch (cause) {
    await store.close();
    throw new Error(`Cannot read the keys in ${address.shown}: ${wordsOf(cause)}`, { cause });
  }
  return store;
}

class KeysRedis implements KeyStore {
  readonly #set = new RecordSet();
  readonly #link: Link;
  readonly #remote: RemoteKeys;
  readonly #copy: KeysCopy | undefined;
  readonly #report: Report;
  /**
   * The records as they were last read from Redis in this process's life; undefined before that.
   */
  #seen: Snapshot | undefined;
  #ready = false;
  #trouble: string | undefined;
  #told: string | undefined;
  #subscription: { restart(): void } | undefined;
  #missed = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  /** Reading and changing take turns, so that an old reading never replaces a newer change. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(link: Link, remote: RemoteKeys, copy: KeysCopy | undefined, report: Report) {
    this.#link = link;
    this.#remote = remote;
    this.#copy = copy;
    this.#report = report;
    if (copy?.found === undefined) return;
    this.#set.replace(copy.found);
    this.#ready = true;
  }

  get ready(): boolean {
    return this.#ready;
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
    if (this.#told !== undefined) return { ok: false, why: this.#told };
    const why = this.#trouble;
    return why === undefined ? { ok: this.#ready } : { ok: this.#ready, why };
  }

  change<T>(edit: Edit<T>): Promise<T> {
    return this.#inTurn(() => this.#change(edit));
  }

  /** Takes over what Redis has. Rejects, changing nothing, when that cannot be had or used. */
  refresh(): Promise<void> {
    return this.#inTurn(() => this.#refresh());
  }

  /** Goes on refreshing until closed: at each message, and by the clock. Never rejects. */
  async follow(): Promise<void> {
    this.#subscription = this.#link.subscribe(this.#remote.channel, {
      message: (text) => void this.#hear(text),
      up: () => void this.#look(false),
      down: () => undefined,
    });
    await this.#look(false);
    this.#next();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#link.close();
    await this.#turn;
    await this.#copy?.close();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #change<T>(edit: Edit<T>): Promise<T> {
    for (let tried = 1; tried <= TRIES_MAX; tried++) {
      await this.#refresh();
      const before = this.#seen as Snapshot;
      const { records, result } = edit(before.records);
      if (records === before.records) return result;
      refuseDuplicates(records);
      const after = { version: versionAfter(before.version), records };
      if (await this.#remote.put(before, after)) {
        this.#adopt(after);
        return result;
      }
      await pause(Math.min(PAUSE_MAX_MS, 4 * tried) * Math.random());
    }
    throw new Error("Cannot change the keys: too many others are changing them. Try again");
  }

  async #refresh(): Promise<void> {
    const version = await this.#remote.version();
    if (this.#seen !== undefined && version === this.#seen.version) return this.#settle();
    if (this.#seen !== undefined && numberOf(version) < numberOf(this.#seen.version)) {
      await this.#restore(version, this.#seen);
    }
    const found = await this.#remote.all();
    // Nothing in Redis but a copy here: it lost them while no gateway ran. Or nobody made any yet.
    if (found.version === "" && this.#seen === undefined && this.#set.records.length > 0) {
      throw new DamagedRecordsError(
        "Redis has no key records, the last copy on disk has some: the copy stays in use. Restore Redis, or remove the copy and restart",
      );
    }
    this.#adopt(found);
  }

  /**
   * Redis lost what it had acknowledged (emptied, restarted without its data, failed over): writes
   * all that was last seen there over what it has now. Records made since then stay, so that of
   * several gateways that do this the one that knew most has the last word.
   */
  async #restore(version: string, { version: lost, records }: Snapshot): Promise<void> {
    const after = { version: versionAfter(lost), records };
    const restored = await this.#remote.put({ version, records: [] }, after);
    if (!restored) return;
    const why = "Redis lost key records: they were written back from the copy here";
    this.#report("error", "keys_restored", { keys: records.length, why });
  }

  #adopt(found: Snapshot): void {
    this.#seen = found;
    this.#ready = true;
    this.#set.replace(found.records);
    this.#copy?.write(found.records);
    this.#settle();
  }

  #settle(): void {
    this.#trouble = undefined;
    if (this.#told !== undefined) this.#report("info", "keys_readable");
    this.#told = undefined;
  }

  async #hear(text: string): Promise<void> {
    await this.#inTurn(async () => {
      const next = this.#seen && applyNews(this.#seen, text);
      if (next !== undefined) this.#adopt(next);
    });
    await this.#look(false);
  }

  /** `byClock`: a change that no message announced means that the subscription is deaf. */
  async #look(byClock: boolean): Promise<void> {
    const before = this.#seen?.version;
    try {
      await this.refresh();
      if (byClock && before !== this.#seen?.version) {
        if (this.#missed) this.#subscription?.restart();
        this.#missed = true;
      } else if (!byClock) this.#missed = false;
    } catch (cause) {
      this.#trouble = wordsOf(cause);
      if (!(cause instanceof DamagedRecordsError) || this.#told === cause.message) return;
      this.#told = cause.message;
      const why = `${cause.message}. The keys read before stay in use`;
      this.#report("error", "keys_unreadable", { why });
    }
  }

  #next(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#look(true).finally(() => this.#next());
    }, POLL_MS).unref();
  }
}

/** `<number>.<random>`: the number grows with each change, and no two changes have one version. */
function versionAfter(version: string): string {
  return `${numberOf(version) + 1}.${randomBytes(6).toString("hex")}`;
}

function numberOf(version: string): number {
  const number = Number.parseInt(version, 10);
  return Number.isSafeInteger(number) ? number : 0;
}

function wordsOf(cause: unknown): string {
  return cause instanceof DamagedRecordsError ? cause.message : translate(cause).message;
}
