import { setTimeout as pause } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { deniedReporter, tellingRefused } from "../../redis/denied-rights.ts";
import type { Link } from "../../redis/link.ts";
import { connectRedis, type RedisAddress } from "../../redis/single-link.ts";
import { StoreFailure } from "../../redis/store-failure.ts";
import { type DiskCopy, openDiskCopy } from "../file/disk-copy.ts";
import {
  type KeyStore,
  newRecordsId,
  type RecordEdit,
  type RecordsIdentity,
  type RecordTroubles,
} from "../key-store.ts";
import { CachedKeyStore } from "../records/cached-key-store.ts";
import { keepRevocations } from "../records/keep-revocations.ts";
import {
  checkedChanges,
  compareRecords,
  type RecordChanges,
  refuseOverDamaged,
} from "../records/record-changes.ts";
import { numberOfVersion, versionAfter } from "./change-log.ts";
import { type LostWrite, withLostWrite } from "./lost-write.ts";
import type { HashMark } from "./record-hash.ts";
import { LostRecordsError, RecordReports, wordsOf } from "./record-reports.ts";
import { createRedisRecords, type RedisRecords } from "./redis-records.ts";
import type { Snapshot } from "./snapshot.ts";

export type RedisKeyStoreOptions = {
  readonly address: RedisAddress;
  readonly prefix: string;
  /** The file that keeps the last copy of the records, for a start while Redis is unreachable. */
  readonly copyFile?: string | undefined;
  readonly report: Reporter;
  /**
   * Whether to follow the changes of others: a gateway does, a command that reads once need not.
   */
  readonly watch: boolean;
  /** For `rediss://`: additions to the authorities that Node trusts by default. */
  readonly tls?: ConnectionOptions;
  /** Unix milliseconds. */
  readonly now?: () => number;
  /** Instead of a connection of this store's own. */
  readonly connect?: () => Link;
};

/** How often the version is read, in case the message was missed. */
const POLL_MS = 900;
/** Maximum retries after losing a write race. The pause grows with each retry. */
const TRIES_MAX = 100;
const PAUSE_MAX_MS = 100;

/**
 * Keys and accounts in Redis, with a full copy here: a lookup costs no command. If Redis is
 * unreachable, a gateway (`watch`) starts from the copy on disk if there is one; a command rejects
 * instead. Rejects with DamagedFileError if the copy on disk cannot be read, and leaves it as it
 * is.
 */
export async function openRedisKeyStore(options: RedisKeyStoreOptions): Promise<KeyStore> {
  const { address, prefix, copyFile, report, watch, now = Date.now } = options;
  const copy = watch && copyFile !== undefined ? await openDiskCopy(copyFile, report) : undefined;
  const link = (options.connect ?? connectRedis)(options);
  const store = new RedisKeyStore(link, createRedisRecords(link, prefix, now), copy, options);
  try {
    await store.open(watch);
  } catch (cause) {
    await store.close();
    throw new Error(`Cannot read the keys in ${address.shown}: ${wordsOf(cause)}`, { cause });
  }
  return store;
}

class RedisKeyStore extends CachedKeyStore implements KeyStore {
  readonly #link: Link;
  readonly #redisRecords: RedisRecords;
  readonly #copy: DiskCopy | undefined;
  readonly #reports: RecordReports;
  readonly #options: Pick<RedisKeyStoreOptions, "address" | "prefix" | "report" | "watch">;
  /** The state of Redis when this process last read it; undefined before the first read. */
  #snapshot: Snapshot | undefined;
  #ready = false;
  #subscription: { restart(): void } | undefined;
  #missed = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    link: Link,
    redisRecords: RedisRecords,
    copy: DiskCopy | undefined,
    options: RedisKeyStoreOptions,
  ) {
    super();
    this.#options = options;
    this.#link = link;
    this.#redisRecords = redisRecords;
    this.#copy = copy;
    const { report, copyFile } = options;
    this.#reports = new RecordReports({ report, copy, copyFile, key: redisRecords.key });
  }

  async open(watch: boolean): Promise<void> {
    if (this.#copy?.found !== undefined) {
      await this.held.replace(this.#copy.found);
      this.#ready = true;
    }
    await this.#link.tried;
    if (watch) await this.#follow();
    else await this.refresh();
  }

  get ready(): boolean {
    return this.#ready;
  }

  health(): ReturnType<KeyStore["health"]> {
    return this.#reports.health(this.#ready);
  }

  troubles(): RecordTroubles {
    return this.#reports.troubles();
  }

  async identity(): Promise<RecordsIdentity> {
    const { address, prefix, watch } = this.#options;
    const id = await this.#redisRecords.id(watch ? newRecordsId() : undefined);
    return { id, place: `${address.shown}, prefix ${prefix}` };
  }

  /** Takes over the records in Redis. Rejects, changing nothing, if they cannot be read. */
  refresh(): Promise<void> {
    return this.queue.run(() => this.#refresh());
  }

  override change<T>(edit: RecordEdit<T>): Promise<T> {
    return super.change(edit).catch((error) => {
      if (!(error instanceof StoreFailure)) throw error;
      const { code, message, executed } = error;
      const place = this.#options.address.shown;
      throw new StoreFailure(code, `Cannot change the keys in ${place}: ${message}`, executed);
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#link.close();
    await this.queue.idle();
    await this.#copy?.close();
  }

  /** Refreshes until closed: at each message, and at intervals. Never rejects. */
  async #follow(): Promise<void> {
    const { report, address } = this.#options;
    const { channel } = this.#redisRecords;
    // Any client may publish there: a message is only a reason to read the records.
    const look = () => void this.#look(false);
    const heard = { message: look, up: look };
    const tell = deniedReporter(address.shown, report);
    this.#subscription = this.#link.subscribe(channel, tellingRefused(tell, channel, heard));
    await this.#look(false);
    this.#next();
  }

  protected async apply<T>(edit: RecordEdit<T>): Promise<T> {
    let lost: (LostWrite & { readonly result: T }) | undefined;
    for (let tried = 1; tried <= TRIES_MAX; tried++) {
      await this.#refresh();
      const before = this.#snapshot as Snapshot;
      const again = lost && (await withLostWrite(lost, before.records));
      const { records, result } =
        lost && again ? { records: again, result: lost.result } : edit(before.records);
      if (records === before.records) return result;
      const find = (digest: string) => this.held.find(digest);
      const changes = await checkedChanges(before.records, records, find);
      refuseOverDamaged(before, records);
      const to = versionAfter(before.version);
      const after = await this.#redisRecords.put(before, { records, changes, to });
      if (typeof after !== "string") {
        await this.#adopt(after, changes);
        return result;
      }
      if (after === "failed over") lost = { before: before.records, changes, result };
      await pause(Math.min(PAUSE_MAX_MS, 4 * tried) * Math.random());
    }
    throw new Error("Cannot change the keys: too many others are changing them. Try again");
  }

  async #refresh(): Promise<void> {
    for (let tried = 1; tried <= TRIES_MAX; tried++) {
      const before = this.#snapshot;
      const mark = await this.#redisRecords.mark();
      const isSame = mark.version === before?.version && mark.fields === before.fields;
      if (before !== undefined && isSame && before.damaged.length === 0) {
        return this.#reports.readable();
      }
      const { snapshot, isFollowed } = await this.#read(before, mark);
      const isOlder =
        before !== undefined && numberOfVersion(snapshot.version) < numberOfVersion(before.version);
      const whole = await this.#withEnds(snapshot, isOlder);
      if (whole === undefined) continue;
      // Commands write their changes into the log of changes, and this read followed that log.
      if (isFollowed || before === undefined) return this.#adopt(whole);
      const changes = await compareRecords(before.records, whole.records);
      await this.#adopt(whole, changes);
      const gone = { keys: changes.keys.gone, accounts: changes.accounts.gone };
      if (gone.keys.length + gone.accounts.length > 0) this.#reports.gone(before.records, gone);
      else if (isOlder) this.#reports.older(before.records, this.held.records.keys.length);
      return;
    }
    throw new Error("Cannot read the keys: too many others are changing them. Try again");
  }

  async #read(
    before: Snapshot | undefined,
    mark: HashMark,
  ): Promise<{ readonly snapshot: Snapshot; readonly isFollowed: boolean }> {
    const isNext = before !== undefined && before.version !== mark.version;
    const followed = isNext ? await this.#redisRecords.since(before) : undefined;
    const pieces = this.#ready ? "small" : "large";
    const snapshot = followed ?? (await this.#redisRecords.all(this.held.records, pieces));
    // Redis is empty and there is a copy here: Redis lost the records while no gateway ran.
    if (snapshot.version === "" && before === undefined && this.held.records.keys.length > 0) {
      throw new LostRecordsError(
        "Redis has no key records, the last copy on disk has some: the copy stays in use. Restore Redis, or remove the copy and restart",
      );
    }
    return { snapshot, isFollowed: followed !== undefined };
  }

  /**
   * Writes the revocations and expiries that are known here to records in Redis that have lost
   * them. Keys that Redis no longer has are not written. Undefined if another writer was quicker.
   */
  async #withEnds(snapshot: Snapshot, isOlder: boolean): Promise<Snapshot | undefined> {
    const { keys, changed } = await keepRevocations(snapshot.records.keys, this.held, isOlder);
    if (changed === 0) return snapshot;
    const records = { ...snapshot.records, keys };
    const to = versionAfter(snapshot.version);
    try {
      const changes = await compareRecords(snapshot.records, records);
      const after = await this.#redisRecords.put(snapshot, { records, changes, to });
      if (typeof after === "string") return undefined;
      this.#reports.ended(changed);
      return after;
    } catch (cause) {
      this.#reports.ended(changed, cause);
      return { ...snapshot, records };
    }
  }

  async #adopt(snapshot: Snapshot, changes?: RecordChanges): Promise<void> {
    const { records } = snapshot;
    this.#snapshot = snapshot;
    this.#ready = true;
    if (records !== this.held.records) {
      await this.held.replace(records, changes);
      this.#copy?.write(records);
    }
    this.damageLines = this.#reports.adopted(snapshot.damaged, this.held);
  }

  /** `byClock`: if it finds a change that no message announced, the subscription does not work. */
  async #look(byClock: boolean): Promise<void> {
    const before = this.#snapshot?.version;
    try {
      await this.refresh();
      if (byClock && before !== this.#snapshot?.version) {
        if (this.#missed) this.#subscription?.restart();
        this.#missed = true;
      } else if (!byClock) this.#missed = false;
    } catch (cause) {
      this.#reports.unreadable(cause, this.held.records);
    }
  }

  #next(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#look(true).finally(() => this.#next());
    }, POLL_MS).unref();
  }
}
