import { setTimeout as pause } from "node:timers/promises";
import type { ConnectionOptions } from "node:tls";
import type { RedisAddress } from "../../../config/schema/addresses.ts";
import type { KeyRecord, Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { DamagedFileError } from "../../files/damaged-file.ts";
import { deniedReporter, tellingRefused } from "../../redis/denied-rights.ts";
import { connectRedis } from "../../redis/engines/single-link.ts";
import type { Link } from "../../redis/link.ts";
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
import { checkEdit, refuseOverDamaged } from "../records/check-edit.ts";
import { differencesFrom } from "../records/older-records.ts";
import { compareRecords, type RecordChanges } from "../records/record-changes.ts";
import { isFromVersion, isOlder, versionAfter } from "./change-log.ts";
import { idOfCopy, versionOfCopy } from "./copy-id.ts";
import { type LostWrite, withLostWrite } from "./lost-write.ts";
import { MissingEnds, type WholeRecords } from "./missing-ends.ts";
import type { HashMark } from "./record-hash.ts";
import { LostRecordsError, RecordReports, wordsOf } from "./record-reports.ts";
import { createRedisRecords, type RedisRecords } from "./redis-records.ts";
import type { Snapshot } from "./snapshot.ts";

export type RedisKeyStoreOptions = {
  readonly address: RedisAddress;
  readonly prefix: string;
  /** The file that keeps the last copy of the records, for a start while Redis is unreachable. */
  readonly copyFile?: string | undefined;
  /** Whether to write the copy too: one process of a gateway does, so that none waits for another. */
  readonly writesCopy?: boolean;
  readonly report: Reporter;
  /** Whether to follow the changes of others: a gateway does, a command need not. */
  readonly watch: boolean;
  /** Records to use until Redis can be read, newer than the copy on disk. */
  readonly inForce?: Records | undefined;
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
 * instead. A damaged copy is reported, and not used. Without records in Redis either, rejects with
 * its DamagedFileError and leaves it as it is. A copy of another store is not used.
 */
export async function openRedisKeyStore(options: RedisKeyStoreOptions): Promise<KeyStore> {
  const { address, prefix, copyFile, report, watch, now = Date.now } = options;
  const isOther = (id: string | undefined) => versionOfCopy(id, placeOf(options)).isElsewhere;
  const copy =
    watch && copyFile !== undefined ? await openDiskCopy(copyFile, report, { isOther }) : undefined;
  const link = (options.connect ?? connectRedis)(options);
  const store = new RedisKeyStore(link, createRedisRecords(link, prefix, now), copy, options);
  try {
    await store.open();
  } catch (cause) {
    await store.close();
    if (cause instanceof DamagedFileError) throw cause;
    throw new Error(`Cannot read the keys in ${address.shown}: ${wordsOf(cause)}`, { cause });
  }
  return store;
}

/** Names the records for people. The copy on disk names them by it too. */
function placeOf({ address, prefix }: Pick<RedisKeyStoreOptions, "address" | "prefix">): string {
  return `${address.shown}, prefix ${prefix}`;
}

class RedisKeyStore extends CachedKeyStore implements KeyStore {
  readonly #link: Link;
  readonly #redisRecords: RedisRecords;
  readonly #copy: DiskCopy | undefined;
  readonly #reports: RecordReports;
  readonly #options: RedisKeyStoreOptions;
  /** The version of the records in the copy on disk at the start; "" if that is unknown. */
  #copied: string;
  /** The state of Redis when this process last read it; undefined before the first read. */
  #snapshot: Snapshot | undefined;
  /** Keys that were known here and are still in Redis, but cannot be used: their account is gone. */
  #orphaned: readonly KeyRecord[] = [];
  readonly #missingEnds: MissingEnds;
  readonly #now: () => number;
  #ready = false;
  #subscription: { restart(): void } | undefined;
  #missed = false;

  constructor(
    link: Link,
    redisRecords: RedisRecords,
    copy: DiskCopy | undefined,
    options: RedisKeyStoreOptions,
  ) {
    super();
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#link = link;
    this.#redisRecords = redisRecords;
    this.#copy = copy;
    const { report, copyFile } = options;
    this.#copied = versionOfCopy(copy?.found?.id, this.#place).version;
    this.#reports = new RecordReports({ report, copy, copyFile, key: redisRecords.key });
    this.#missingEnds = new MissingEnds(redisRecords, this.#reports);
  }

  async open(): Promise<void> {
    const { inForce, watch, report } = this.#options;
    const found = inForce ?? this.#copy?.found?.records;
    if (found !== undefined) {
      await this.held.replace(found);
      this.#ready = true;
    }
    await this.#link.tried;
    if (watch) await this.#follow();
    else await this.refresh();
    if (this.#copy?.other !== undefined && !this.#ready) this.#tellUnused();
    const damaged = this.#copy?.damaged;
    if (damaged === undefined) return;
    if (!this.#ready) throw damaged;
    const why = `${damaged.message}. The gateway goes on without this copy`;
    report("error", "keys_copy_damaged", { file: damaged.file, why });
  }

  get ready(): boolean {
    return this.#ready;
  }

  health(): ReturnType<KeyStore["health"]> {
    return this.#reports.health(this.#ready, this.#missingEnds.cause);
  }

  troubles(): RecordTroubles {
    return this.#reports.troubles();
  }

  async identity(): Promise<RecordsIdentity> {
    const fresh = this.#options.watch ? newRecordsId() : undefined;
    return { id: await this.#redisRecords.id(fresh), place: this.#place };
  }

  get #place(): string {
    return placeOf(this.#options);
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
    this.stopPolling();
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
    this.poll(POLL_MS, () => this.#look(true));
  }

  refuseOverDamaged(after: Records): void {
    if (this.#snapshot !== undefined) refuseOverDamaged(this.#snapshot, after);
  }

  protected async apply<T>(edit: RecordEdit<T>): Promise<T> {
    let lost: (LostWrite & { readonly result: T }) | undefined;
    for (let tried = 1; tried <= TRIES_MAX; tried++) {
      await this.reread();
      // An edit of the records in Redis would not know the ends that they lack.
      const { cause } = this.#missingEnds;
      if (cause !== undefined) throw cause;
      const before = this.#snapshot as Snapshot;
      const again = lost && (await withLostWrite(lost, before.records));
      const { records: edited, result } =
        lost && again ? { records: again, result: lost.result } : edit(before.records);
      if (edited === before.records) return result;
      const { records, changes, damaged } = await checkEdit(before, edited, this.held);
      const to = versionAfter(before.version);
      const after = await this.#redisRecords.put({ ...before, damaged }, { records, changes, to });
      if (typeof after !== "string") {
        await this.#adopt(after, records, changes);
        return result;
      }
      if (after === "failed over") lost = { before: before.records, changes, result };
      await pause(Math.min(PAUSE_MAX_MS, 4 * tried) * Math.random());
    }
    throw new Error("Cannot change the keys: too many others are changing them. Try again");
  }

  /** Takes over the records in Redis. Rejects, changing nothing, if they cannot be read. */
  protected async reread(): Promise<void> {
    for (let tried = 1; tried <= TRIES_MAX; tried++) {
      const before = this.#snapshot;
      const mark = await this.#redisRecords.mark();
      const isSame = mark.version === before?.version && mark.fields === before.fields;
      if (before !== undefined && isSame && before.damaged.length === 0) {
        const after = await this.#missingEnds.write(before);
        if (after === "raced") continue;
        this.#snapshot = after;
        return this.#reports.readable();
      }
      const { snapshot, isFollowed } = await this.#read(before, mark);
      if (before === undefined && (await this.#takeMoved(snapshot))) continue;
      // At the first read, the copy on disk has what was in Redis before.
      const isBehind = isOlder(snapshot, before?.version ?? this.#copied);
      const whole = await this.#missingEnds.keep(snapshot, this.held, isBehind);
      if (whole === "raced") continue;
      // Commands write their changes into the log of changes, and this read followed that log.
      if (isFollowed || !this.#ready) return this.#adopt(whole.snapshot, whole.records);
      return this.#adoptOther(whole, isBehind);
    }
    throw new Error("Cannot read the keys: too many others are changing them. Try again");
  }

  /**
   * Puts the copy of another address in force if the records in Redis came from those in it: it is
   * the same store under a new address. Returns whether it did.
   */
  async #takeMoved(snapshot: Snapshot): Promise<boolean> {
    const { other } = this.#copy ?? {};
    if (other === undefined || this.#ready) return false;
    const { version } = versionOfCopy(other.id, this.#place);
    if (!isFromVersion(snapshot, version)) return false;
    await this.held.replace(other.records);
    this.#copied = version;
    this.#ready = true;
    this.#copy?.takeOther();
    return true;
  }

  #tellUnused(): void {
    const { address, copyFile, report } = this.#options;
    const why = `The copy of the key records is of another store, and is not used: until the records in ${address.shown} can be read, no key is accepted`;
    report("warn", "keys_copy_elsewhere", { file: copyFile, why });
  }

  /** Adopts records that may lack some that were known here, and reports those. */
  async #adoptOther({ snapshot, records, ended }: WholeRecords, isBehind: boolean): Promise<void> {
    const known = this.held.records;
    const changes = await compareRecords(known, records);
    // A write that a failover lost, and that was made again as it was, changes nothing.
    const made = { keys: changes.keys.made, accounts: changes.accounts.made };
    const differing = isBehind ? await differencesFrom(known, made, this.#now()) : undefined;
    const before = { ...known, keys: [...known.keys, ...this.#orphaned] };
    await this.#adopt(snapshot, records, changes);
    // A key whose account is gone is gone only once it is not there itself.
    const present = new Set(snapshot.damaged.map(({ kind, id }) => kind === "key" && id));
    const left = [...changes.keys.gone, ...this.#orphaned];
    this.#orphaned = left.filter(({ id }) => present.has(id));
    const keys = left.filter(({ id }) => !present.has(id));
    const gone = { keys, accounts: changes.accounts.gone };
    const isGone = gone.keys.length + gone.accounts.length > 0;
    const isOlder = differing !== undefined || (isBehind && ended > 0);
    if (isGone || isOlder) await this.#reports.setAside(before);
    if (isGone) await this.#reports.gone(gone);
    if (isOlder) this.#reports.older(records.keys.length, differing);
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
    const isEmpty = snapshot.version === "" && before === undefined;
    if (isEmpty && !this.#ready && this.#copy?.damaged !== undefined) throw this.#copy.damaged;
    if (isEmpty && this.held.records.keys.length > 0) {
      throw new LostRecordsError(
        "Redis has no key records, the last copy on disk has some: the copy stays in use. Restore Redis, or remove the copy and restart",
      );
    }
    return { snapshot, isFollowed: followed !== undefined };
  }

  async #adopt(snapshot: Snapshot, records: Records, changes?: RecordChanges): Promise<void> {
    this.#snapshot = snapshot;
    this.#ready = true;
    if (records !== this.held.records) {
      await this.held.replace(records, changes);
      this.#orphaned = this.#orphaned.filter(({ digest }) => this.find(digest) === undefined);
      const { writesCopy = true } = this.#options;
      if (writesCopy) this.#copy?.write(records, idOfCopy(snapshot.version, this.#place));
    }
    this.damageLines = await this.#reports.adopted(snapshot.damaged, this.held);
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
      await this.#reports.unreadable(cause, this.held.records);
    }
  }
}
