import { setImmediate as breathe, setTimeout as pause } from "node:timers/promises";
import type { KeyRecord } from "../../core/keys/key.ts";
import { MISTAKES_MAX } from "../files/damaged.ts";
import { orLate } from "../interface/store-failure.ts";
import { createSharedStore } from "../redis/decider.ts";
import type { Link } from "../redis/link.ts";
import { translate } from "../redis/reply-errors.ts";
import { script } from "../redis/script.ts";
import { RecordReader, recordText } from "./record-format.ts";

/** Records read before the event loop has its turn. */
const AT_ONCE = 500;
/** A longer message than this is left out: then everyone reads the whole set. */
const NEWS_LENGTH_MAX = 65_536;
const LATE_MS = 2_000;
/** The whole set may be tens of megabytes. */
const ALL_LATE_MS = 10_000;
/** After a cut connection, how long to go on asking whether the change had arrived. */
const RECONNECT_TRIES = 15;
const RECONNECT_PAUSE_MS = 200;
/** No id looks like this: ID_PATTERN has no colon. */
const VERSION_FIELD = ":version";

/**
 * Writes records when the version is still the one they were edited from, or not at all. ARGV: that
 * version, the next one, the channel, what to say there, how many ids go, those ids, then id and
 * record of each other.
 */
const PUT = script(`
local stored = redis.call('HGET', KEYS[1], '${VERSION_FIELD}') or ''
if stored ~= ARGV[1] then return 0 end
local gone = tonumber(ARGV[5])
for i = 6, 5 + gone do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = 6 + gone, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], '${VERSION_FIELD}', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1`);

/** Records that Redis holds and this gateway cannot read. The message names each. */
export class DamagedRecordsError extends Error {}

/** All records of one version; `version` is "" while Redis has none. */
export type Snapshot = { readonly version: string; readonly records: readonly KeyRecord[] };

/**
 * The records in Redis: one hash, `<prefix>:{0}:keys`, of id -> JSON, with the version among its
 * fields, so that one command reads both and one script changes both. All reject with StoreFailure.
 */
export type RemoteKeys = {
  readonly channel: string;
  version(): Promise<string>;
  /** Rejects with DamagedRecordsError when one cannot be read: half a set is no set. */
  all(): Promise<Snapshot>;
  /** Makes `before` into `after`; false when someone else was first. */
  put(before: Snapshot, after: Snapshot): Promise<boolean>;
};

export function createRemoteKeys(link: Link, prefix: string): RemoteKeys {
  const key = `${prefix}:{0}:keys`;
  const channel = `${prefix}:keys`;
  const shared = createSharedStore(link, prefix);

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
    channel,
    version,
    all: async () =>
      await readAll(await orLate(link.send(key, "hgetall", [key]), ALL_LATE_MS), key),
    put: async (before, after) => {
      const { gone, changed } = difference(before.records, after.records);
      const fields = changed.flatMap((record) => [record.id, recordText(record)]);
      const said = news(before.version, after.version, gone, changed);
      const args = [before.version, after.version, channel, said, gone.length, ...gone, ...fields];
      try {
        return (await orLate(shared.run(PUT, key, args), ALL_LATE_MS)) === 1;
      } catch (error) {
        // No answer: it may have been executed. The version says so, being ours alone.
        if (translate(error).executed === "no" || (await versionSoon()) !== after.version)
          throw error;
        return true;
      }
    },
  };
}

async function readAll(reply: unknown, key: string): Promise<Snapshot> {
  // The client library makes an object of what Redis sends as a list.
  const { [VERSION_FIELD]: version = "", ...fields } = reply as Record<string, string>;
  const reader = new RecordReader();
  for (const [index, [id, text]] of Object.entries(fields).entries()) {
    reader.add(parsed(text), [id]);
    if (index % AT_ONCE === AT_ONCE - 1) await breathe();
  }
  if (reader.mistakes.length > 0) {
    const told = reader.mistakes.slice(0, MISTAKES_MAX).map(({ path, why }) => {
      return `Cannot use ${path.join(".")} in the hash ${key}: ${why}`;
    });
    throw new DamagedRecordsError(told.join("\n"));
  }
  return { version, records: inOrder(reader.records) };
}

/** A hash has no order: oldest first, as they are in a file. */
function inOrder(records: KeyRecord[]): KeyRecord[] {
  return records.sort((a, b) => a.createdMs - b.createdMs || (a.id < b.id ? -1 : 1));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * The message of a writer to all gateways: one change of few records need not be read as 100,000.
 */
function news(from: string, to: string, gone: readonly string[], changed: readonly KeyRecord[]) {
  const text = JSON.stringify({ from, to, gone, changed: changed.map(recordText) });
  return text.length <= NEWS_LENGTH_MAX ? text : "{}";
}

/** The set after a message; undefined when the message does not follow from that set. */
export function applyNews(before: Snapshot, text: string): Snapshot | undefined {
  const said = parsed(text);
  if (typeof said !== "object" || said === null) return undefined;
  const { from, to, gone, changed } = said as Record<string, unknown>;
  if (from !== before.version || typeof to !== "string") return undefined;
  if (!Array.isArray(gone) || !Array.isArray(changed)) return undefined;
  const reader = new RecordReader();
  for (const record of changed) reader.add(parsed(String(record)), []);
  if (reader.mistakes.length > 0) return undefined;

  const news = new Map(reader.records.map((record) => [record.id, record]));
  const kept = before.records
    .filter(({ id }) => !gone.includes(id))
    .map((record) => news.get(record.id) ?? record);
  for (const { id } of before.records) news.delete(id);
  return { version: to, records: [...kept, ...news.values()] };
}

function difference(before: readonly KeyRecord[], after: readonly KeyRecord[]) {
  const old = new Map(before.map((record) => [record.id, record]));
  const changed = after.filter((record) => old.get(record.id) !== record);
  for (const { id } of after) old.delete(id);
  return { gone: [...old.keys()], changed };
}
