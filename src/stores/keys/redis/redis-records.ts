import { setTimeout as pause } from "node:timers/promises";
import type { Records } from "../../../core/keys/records.ts";
import type { Link, RedisArgument } from "../../redis/link.ts";
import { defineTaggedScript, runScript } from "../../redis/script.ts";
import { toStoreFailure, withTimeout } from "../../redis/store-failure.ts";
import type { RecordChanges } from "../records/record-changes.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";
import { appendChange, changedSince, lastVersion } from "./change-log.ts";
import {
  ACCOUNT_START,
  ALL_LATE_MS,
  CHANGES_FIELD,
  type HashMark,
  type ReadPace,
  RecordHash,
  VERSION_FIELD,
} from "./record-hash.ts";
import { applyPatch, countFields, readSnapshot, type Snapshot } from "./snapshot.ts";

/** After a lost connection, how often to ask whether the change had arrived. */
const RECONNECT_TRIES = 15;
const RECONNECT_PAUSE_MS = 200;
/** If more records than this changed, all records are read. */
const READ_SINGLY_MAX = 2_000;
/** The most times records are read again because another writer changed them in between. */
const TRIES_MAX = 5;
/**
 * Writes records if the version is still the one they were edited from; otherwise writes nothing.
 * ARGV: that version, the next one, the channel, the log of changes, the number of fields to
 * delete, those fields, then name and value of each field to write.
 */
const PUT = defineTaggedScript(`
local stored = redis.call('HGET', KEYS[1], '${VERSION_FIELD}') or ''
if stored ~= ARGV[1] then return 0 end
local gone = tonumber(ARGV[5])
for i = 6, 5 + gone do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = 6 + gone, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], '${VERSION_FIELD}', ARGV[2], '${CHANGES_FIELD}', ARGV[4])
redis.call('PUBLISH', ARGV[3], ARGV[2])
return 1`);

/** The id of the records. ARGV: one to set if there is none, or "" to set none. */
const ID = defineTaggedScript(`
local id = redis.call('HGET', KEYS[1], 'id')
if not id and ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], 'id', ARGV[1])
  id = ARGV[1]
end
return id`);

/** Records to be written as the version `to`, and the changes that lead to them. */
export type RecordsWrite = {
  readonly records: Records;
  readonly changes: RecordChanges;
  readonly to: string;
};

/**
 * The records in Redis: one hash, `<prefix>:{0}:keys`, of field -> JSON. The version and the last
 * changes are fields of it too, so that one command reads all of it and one script changes it. The
 * field of a key is its id; the field of an account is "@" and its id. All methods reject with
 * StoreFailure.
 */
export type RedisRecords = {
  readonly key: string;
  /** Each change is published here as its version only; each subscriber then reads the records. */
  readonly channel: string;
  /** The id of this set of records; sets `fresh` if there is none and one is given. */
  id(fresh?: string): Promise<string | undefined>;
  mark(): Promise<HashMark>;
  /** All records. A damaged record is replaced by the one in `known`. */
  all(known: Records, pace: ReadPace): Promise<Snapshot>;
  /** The successor of `before`, by the changed records alone; undefined if these are unknown. */
  since(before: Snapshot): Promise<Snapshot | undefined>;
  /**
   * Replaces `before` by `next`. "raced": another writer was first, and nothing was written.
   * "failed over": it was written to a master that another has replaced without it.
   */
  put(before: Snapshot, next: RecordsWrite): Promise<Snapshot | "raced" | "failed over">;
};

export function createRedisRecords(link: Link, prefix: string, now: () => number): RedisRecords {
  const key = `${prefix}:{0}:keys`;
  const hash = new RecordHash(link, key);
  const channel = `${prefix}:keys`;
  async function versionSoon(): Promise<string> {
    for (let tried = 1; ; tried++) {
      try {
        return await hash.version();
      } catch (error) {
        if (tried === RECONNECT_TRIES) throw error;
        await pause(RECONNECT_PAUSE_MS);
      }
    }
  }

  /** Returns false if another writer was first. */
  async function write(args: readonly RedisArgument[], to: string): Promise<boolean> {
    try {
      return (await withTimeout(runScript(link, PUT, key, [1, key, ...args]), ALL_LATE_MS)) === 1;
    } catch (error) {
      // No reply: the write may have been executed. The version shows that, because only this write
      // uses it.
      if (toStoreFailure(error).executed === "no" || (await versionSoon()) !== to) throw error;
      return true;
    }
  }

  return {
    key,
    channel,
    id: async (fresh = "") => {
      // In the hash slot of the records, with a name that no hash of an account can have.
      const named = `${prefix}:{0}:records`;
      const reply = await withTimeout(runScript(link, ID, named, [1, named, fresh]), ALL_LATE_MS);
      return typeof reply === "string" ? reply : undefined;
    },
    mark: () => hash.mark(),
    all: async (known, pieces) => readSnapshot(await hash.all(pieces), known, now()),
    since: (before) => readSince(before, hash, now),
    put: async (before, next) => {
      const { records, to } = next;
      const { fields: written, gone, log } = writeOf(before, next);
      const args = [before.version, to, channel, log, gone.length, ...gone, ...written];
      const made = { ...before, records, version: to, changes: log, needsUpgrade: false };
      const after = { ...made, fields: countFields(made) };
      const master = await link.master();
      const isWritten = await write(args, to);
      if (!isWritten) return "raced";
      // After a failover during the write, the new master may not have received it.
      const isKept = (await link.master()) === master || (await versionSoon()) === to;
      return isKept ? after : "failed over";
    },
  };
}

/**
 * The fields to delete, name and value of the fields to write, and the log of changes with them. A
 * damaged record that the edit did not touch is neither deleted nor written.
 */
function writeOf(before: Snapshot, { records, changes, to }: RecordsWrite) {
  const { keys, accounts } = changes;
  const gone = [
    ...keys.gone.map(({ id }) => id),
    ...accounts.gone.map(({ id }) => `${ACCOUNT_START}${id}`),
  ];
  const written = before.needsUpgrade ? records : { keys: keys.made, accounts: accounts.made };
  const changed = [
    ...written.keys.map((key) => [key.id, encodeKey(key)] as const),
    ...written.accounts.map((one) => [`${ACCOUNT_START}${one.id}`, encodeAccount(one)] as const),
  ];
  const names = before.needsUpgrade ? undefined : [...gone, ...changed.map(([name]) => name)];
  const log = appendChange(before.changes, { from: before.version, to, names });
  return { gone, log, fields: changed.flat() };
}

/** Reads the records that the log of changes names, and replaces those in `before`. */
async function readSince(
  before: Snapshot,
  hash: RecordHash,
  now: () => number,
): Promise<Snapshot | undefined> {
  if (before.damaged.length > 0 || before.needsUpgrade) return undefined;
  let names: readonly string[] = [];
  let seen: string | undefined;
  for (let tried = 0; tried <= TRIES_MAX; tried++) {
    const [version, log, ...values] = await hash.some([VERSION_FIELD, CHANGES_FIELD, ...names]);
    const [current, changes] = [version ?? "", log ?? ""];
    // A writer of an older version kept no log.
    if (lastVersion(changes) !== current) return undefined;
    // If another writer was quicker, these values may be of a later version than their names.
    if (seen === current) {
      const found = names.map((name, i) => [name, values[i] ?? null] as const);
      const records = await applyPatch(before.records, found, now());
      if (records === undefined) return undefined;
      const after = { records, damaged: [], needsUpgrade: false, version: current, changes };
      return { ...after, fields: countFields(after) };
    }
    const changed = changedSince(before.version, changes);
    if (changed === undefined || changed.length > READ_SINGLY_MAX) return undefined;
    names = changed;
    seen = current;
  }
  return undefined;
}
