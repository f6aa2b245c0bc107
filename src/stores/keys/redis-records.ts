import { setImmediate as breathe, setTimeout as pause } from "node:timers/promises";
import { maskKeys } from "../../core/keys/key.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import { orLate } from "../interface/store-failure.ts";
import { createSharedStore } from "../redis/decider.ts";
import type { Link } from "../redis/link.ts";
import { translate } from "../redis/reply-errors.ts";
import { script } from "../redis/script.ts";
import { type Changes, changedSince, lastVersion, withChange } from "./change-log.ts";
import { changedRecords } from "./changed-records.ts";
import { type Reading, RecordCollector } from "./reading.ts";
import { accountText, keyText } from "./record-format.ts";

/** Records read before the event loop has its turn. */
const AT_ONCE = 500;
const LATE_MS = 2_000;
/** The whole set may be tens of megabytes. */
const ALL_LATE_MS = 10_000;
/** After a cut connection, how long to go on asking whether the change had arrived. */
const RECONNECT_TRIES = 15;
const RECONNECT_PAUSE_MS = 200;
/** More changed records than this are read with all the others. */
const READ_SINGLY_MAX = 2_000;
/** No id looks like these: ID_PATTERN has no colon and no @. */
const VERSION_FIELD = ":version";
const CHANGES_FIELD = ":changes";
const ACCOUNT_START = "@";

/**
 * Writes records when the version is still the one they were edited from, or not at all. ARGV: that
 * version, the next one, the channel, the log of changes, how many fields go, those fields, then
 * name and value of each other.
 */
const PUT = script(`
local stored = redis.call('HGET', KEYS[1], '${VERSION_FIELD}') or ''
if stored ~= ARGV[1] then return 0 end
local gone = tonumber(ARGV[5])
for i = 6, 5 + gone do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = 6 + gone, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], '${VERSION_FIELD}', ARGV[2], '${CHANGES_FIELD}', ARGV[4])
redis.call('PUBLISH', ARGV[3], ARGV[2])
return 1`);

/** All records of one version; `version` is "" while Redis has none. */
export type Snapshot = Reading & {
  readonly version: string;
  readonly changes: Changes;
  /** How many fields the hash has: a record that somebody deletes by hand changes no version. */
  readonly fields: number;
};

/** Enough to see that something changed. */
export type Mark = Pick<Snapshot, "version" | "fields">;

/**
 * The records in Redis: one hash, `<prefix>:{0}:keys`, of field -> JSON, with the version and the
 * last changes among its fields, so that one command reads all of it and one script changes it. The
 * field of a key is its id, that of an account "@" and its id. All reject with StoreFailure.
 */
export type RemoteKeys = {
  readonly key: string;
  /** Each change is announced here, by its version alone: whoever hears it reads the records. */
  readonly channel: string;
  mark(): Promise<Mark>;
  /** In place of a damaged record stands what `known` has. */
  all(known: Records): Promise<Snapshot>;
  /** The successor of `before`, read by the changed records alone; undefined where that cannot be told. */
  since(before: Snapshot): Promise<Snapshot | undefined>;
  /** Makes `before` into `records`; undefined when someone else was first. */
  put(before: Snapshot, records: Records, to: string): Promise<Snapshot | undefined>;
};

export function createRemoteKeys(link: Link, prefix: string, now: () => number): RemoteKeys {
  const key = `${prefix}:{0}:keys`;
  const channel = `${prefix}:keys`;
  const shared = createSharedStore(link, prefix);
  const fields = async (names: readonly string[]) => {
    const reply = await orLate(link.send(key, "hmget", [key, ...names]), LATE_MS);
    return reply as (string | null)[];
  };

  async function version(): Promise<string> {
    return String((await orLate(link.send(key, "hget", [key, VERSION_FIELD]), LATE_MS)) ?? "");
  }

  async function versionSoon(): Promise<string> {
    for (let tried = 1; ; tried++) {
      try {
        return await version();
      } catch (error) {
        if (tried === RECONNECT_TRIES) throw error;
        await pause(RECONNECT_PAUSE_MS);
      }
    }
  }

  return {
    key,
    channel,
    mark: async () => {
      const length = orLate(link.send(key, "hlen", [key]), LATE_MS);
      const [found, fields] = await Promise.all([version(), length]);
      return { version: found, fields: Number(fields) };
    },
    all: async (known) => {
      // The client library makes an object of what Redis sends as a list.
      const reply = await orLate(link.send(key, "hgetall", [key]), ALL_LATE_MS);
      const found = Object.entries(reply as Record<string, string>);
      return readAll(found, known, now());
    },
    since: (before) => readSince(before, fields, now),
    put: async (before, records, to) => {
      const { fields: written, gone, changes } = writeOf(before, records, to);
      const args = [before.version, to, channel, changes, gone.length, ...gone, ...written];
      const next = { ...before, records, version: to, changes, older: false };
      const after = { ...next, fields: fieldsOf(next) };
      try {
        const done = await orLate(shared.run(PUT, key, args), ALL_LATE_MS);
        return done === 1 ? after : undefined;
      } catch (error) {
        // No answer: it may have been executed. The version says so, being ours alone.
        if (translate(error).executed === "no" || (await versionSoon()) !== to) throw error;
        return after;
      }
    },
  };
}

/** The fields to write and delete, so that `before` becomes `records` as the version `to`. */
function writeOf(before: Snapshot, records: Records, to: string) {
  const { gone, changed } = difference(before, records);
  const names = [...gone, ...changed.map(([name]) => name)];
  const changes = withChange(before.changes, {
    from: before.version,
    to,
    names: before.older ? undefined : names,
  });
  return { gone, changes, fields: changed.flat() };
}

/** The records whose names the log of changes has, in place of those before. */
async function readSince(
  before: Snapshot,
  read: (names: readonly string[]) => Promise<readonly (string | null)[]>,
  now: () => number,
): Promise<Snapshot | undefined> {
  if (before.damaged.length > 0 || before.older) return undefined;
  const [current, changes] = await read([VERSION_FIELD, CHANGES_FIELD]);
  // A writer of an older version kept no log.
  if (lastVersion(changes ?? "") !== current) return undefined;
  const names = changedSince(before.version, changes ?? "");
  if (names === undefined || names.length > READ_SINGLY_MAX) return undefined;
  const [then, log, ...values] = await read([VERSION_FIELD, CHANGES_FIELD, ...names]);
  // Somebody was quicker: then these may be of a later version than their names.
  if (then !== current || log !== changes) return undefined;
  const found = names.map((name, i) => [name, values[i] ?? null] as const);
  const records = patched(before.records, found, now());
  if (records === undefined) return undefined;
  const after = { records, damaged: [], older: false, version: then ?? "", changes: log ?? "" };
  return { ...after, fields: fieldsOf(after) };
}

async function readAll(
  found: readonly (readonly [field: string, text: string])[],
  known: Records,
  nowMs: number,
): Promise<Snapshot> {
  const collector = new RecordCollector();
  const own = new Map<string, string>();
  for (const [index, [field, text]] of found.entries()) {
    if (field === VERSION_FIELD || field === CHANGES_FIELD) own.set(field, text);
    else collect(collector, field, text);
    if (index % AT_ONCE === AT_ONCE - 1) await breathe();
  }
  const reading = collector.end(known, nowMs);
  const { keys, accounts } = reading.records;
  return {
    ...reading,
    records: { keys: inOrder(keys), accounts: inOrder(accounts) },
    version: own.get(VERSION_FIELD) ?? "",
    changes: own.get(CHANGES_FIELD) ?? "",
    fields: found.length,
  };
}

/** One field for each record, the version and the changes, and those that cannot be read. */
function fieldsOf({ records, damaged }: Reading): number {
  const unread = damaged.filter(({ kept }) => kept === undefined).length;
  return records.keys.length + records.accounts.length + unread + 2;
}

function collect(collector: RecordCollector, field: string, text: string): void {
  if (field.startsWith(ACCOUNT_START)) {
    collector.account(parsed(text), [maskKeys(field)], field.slice(ACCOUNT_START.length));
  } else collector.key(parsed(text), [maskKeys(field)], field);
}

/** The set with the changed records in it; undefined where it takes all of them to tell. */
function patched(
  { keys, accounts }: Records,
  found: readonly (readonly [field: string, text: string | null])[],
  nowMs: number,
): Records | undefined {
  const collector = new RecordCollector((account) => accounts.some(({ id }) => id === account));
  for (const [field, text] of found) if (text !== null) collect(collector, field, text);
  const { records: fresh, damaged, older } = collector.end({ keys: [], accounts: [] }, nowMs);
  if (damaged.length > 0 || older) return undefined;
  const gone = new Set(found.filter(([, text]) => text === null).map(([field]) => field));
  const patchedAccounts = merged(
    accounts,
    fresh.accounts,
    ({ id }) => gone.size > 0 && gone.has(`@${id}`),
  );
  const patchedKeys = merged(keys, fresh.keys, ({ id }) => gone.has(id));
  // Where an account is gone its keys must be too: all records tell.
  const isWhole = ![...gone].some((field) => field.startsWith(ACCOUNT_START));
  return isWhole ? { keys: patchedKeys, accounts: patchedAccounts } : undefined;
}

function merged<T extends { readonly id: string }>(
  before: readonly T[],
  fresh: readonly T[],
  isGone: (record: T) => boolean,
): readonly T[] {
  const news = new Map(fresh.map((record) => [record.id, record]));
  const kept: T[] = [];
  for (const record of before) {
    if (isGone(record)) continue;
    kept.push(news.get(record.id) ?? record);
    news.delete(record.id);
  }
  return [...kept, ...news.values()];
}

/** A hash has no order: oldest first, as they are in a file. */
function inOrder<T extends KeyRecord | AccountRecord>(records: readonly T[]): readonly T[] {
  return records.toSorted((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Fields to delete, and name and value of those to write; what is damaged and untouched is neither. */
function difference({ records: before, older }: Snapshot, after: Records) {
  const keys = changedRecords(before.keys, after.keys);
  const accounts = changedRecords(before.accounts, after.accounts);
  const written = older ? after : { keys: keys.made, accounts: accounts.made };
  return {
    gone: [
      ...keys.gone.map(({ id }) => id),
      ...accounts.gone.map(({ id }) => `${ACCOUNT_START}${id}`),
    ],
    changed: [
      ...written.keys.map((key) => [key.id, keyText(key)] as const),
      ...written.accounts.map((one) => [`${ACCOUNT_START}${one.id}`, accountText(one)] as const),
    ],
  };
}
