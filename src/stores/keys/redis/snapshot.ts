import { inSlices } from "../../../base/event-loop.ts";
import { parseJson } from "../../../base/parse-json.ts";
import { maskKeys } from "../../../core/keys/key.ts";
import { FEW_RECORDS, findById, replaceById } from "../../../core/keys/record-index.ts";
import type { Records } from "../../../core/keys/records.ts";
import { type ReadRecords, RecordCollector } from "../records/record-collector.ts";
import { sortByAge } from "../records/sort-by-age.ts";
import type { ChangeLog } from "./change-log.ts";
import { ACCOUNT_START, CHANGES_FIELD, type HashFields, VERSION_FIELD } from "./record-hash.ts";

/** All records of one version; `version` is "" while Redis has none. */
export type Snapshot = ReadRecords & {
  readonly version: string;
  readonly changes: ChangeLog;
  /** The number of fields in the hash. A record deleted by hand changes no version. */
  readonly fields: number;
};

/** Reads all records. A damaged record is replaced by the one in `known`. */
export async function readSnapshot(
  found: HashFields,
  known: Records,
  nowMs: number,
): Promise<Snapshot> {
  const collector = new RecordCollector();
  await inSlices(found, ([field, text]) => {
    if (field !== VERSION_FIELD && field !== CHANGES_FIELD) collect(collector, field, text);
  });
  const reading = await collector.end(known, nowMs);
  const { keys, accounts } = reading.records;
  return {
    ...reading,
    records: { keys: await sortByAge(keys), accounts: await sortByAge(accounts) },
    version: found.get(VERSION_FIELD) ?? "",
    changes: found.get(CHANGES_FIELD) ?? "",
    fields: found.size,
  };
}

/** The number of fields: one for each record, readable or not, the version and the changes. */
export function countFields({ records, damaged }: ReadRecords): number {
  const unread = damaged.filter(({ kept }) => kept === undefined).length;
  return records.keys.length + records.accounts.length + unread + 2;
}

function collect(collector: RecordCollector, field: string, text: string): void {
  if (field.startsWith(ACCOUNT_START)) {
    collector.account(parsed(text), [maskKeys(field)], field.slice(ACCOUNT_START.length));
  } else collector.key(parsed(text), [maskKeys(field)], field);
}

/** The set with the changed records in it; undefined if all records have to be read to know. */
export async function applyPatch(
  { keys, accounts }: Records,
  found: readonly (readonly [field: string, text: string | null])[],
  nowMs: number,
): Promise<Records | undefined> {
  const collector = new RecordCollector((account) => findById(accounts, account) !== undefined);
  const gone = new Set<string>();
  await inSlices(found, ([field, text]) => {
    if (text === null) gone.add(field);
    else collect(collector, field, text);
  });
  // If an account is gone its keys must be gone too. Only reading all records shows that.
  if ([...gone].some((field) => field.startsWith(ACCOUNT_START))) return undefined;
  const reading = await collector.end({ keys: [], accounts: [] }, nowMs);
  if (reading.damaged.length > 0 || reading.needsUpgrade) return undefined;
  return {
    keys: await mergeById(keys, reading.records.keys, gone),
    accounts: await mergeById(accounts, reading.records.accounts, new Set()),
  };
}

/** The list with fresh records in their places, new ones at the end, and without the gone ones. */
export async function mergeById<T extends { readonly id: string }>(
  before: readonly T[],
  fresh: readonly T[],
  gone: ReadonlySet<string>,
): Promise<readonly T[]> {
  const news = fresh.filter(({ id }) => findById(before, id) === undefined);
  const instead = new Map<T | undefined, T>();
  for (const record of fresh) {
    const old = findById(before, record.id);
    if (old !== undefined) instead.set(old, record);
  }
  const away = new Set([...gone].map((id) => findById(before, id)));
  if (instead.size === 0 && away.size === 0)
    return news.length === 0 ? before : [...before, ...news];
  if (fresh.length <= FEW_RECORDS && gone.size === 0)
    return [...replaceById(before, fresh), ...news];
  const kept: T[] = [];
  await inSlices(before, (record) => {
    if (!away.has(record)) kept.push(instead.get(record) ?? record);
  });
  return [...kept, ...news];
}

function parsed(text: string): unknown {
  const value = parseJson(text);
  return value === undefined ? text : value;
}
