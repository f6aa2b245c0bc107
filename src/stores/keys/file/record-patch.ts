import { inSlices } from "../../../base/event-loop.ts";
import { conflictRefusal, type EditResult, usageRefusal } from "../../../core/keys/edit-rules.ts";
import { findById } from "../../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";
import { RecordCollector } from "../records/record-collector.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";

/**
 * One changed record, for a change by a process that does not hold the records: its text before
 * (null for a new one) and its text after.
 */
export type RecordPatch = {
  readonly record: "account" | "key";
  readonly before: string | null;
  readonly after: string;
};

/** The changes that make `before` into `after`. No edit removes a record. */
export function diffRecords(before: Records, after: Records): readonly RecordPatch[] {
  return [
    ...changesOf("account", [before.accounts, after.accounts], encodeAccount),
    ...changesOf("key", [before.keys, after.keys], encodeKey),
  ];
}

function changesOf<T extends { readonly id: string }>(
  record: RecordPatch["record"],
  [before, after]: readonly [readonly T[], readonly T[]],
  encode: (one: T) => string,
): readonly RecordPatch[] {
  const old = new Map(before.map((one) => [one.id, one]));
  return after
    .filter((one) => old.get(one.id) !== one)
    .map((one) => {
      const earlier = old.get(one.id);
      const text = earlier === undefined ? null : encode(earlier);
      return { record, before: text, after: encode(one) };
    });
}

/**
 * Makes a change to the newest records. Refuses the whole change if one of the records differs from
 * its text before, if one of the texts is not a record, or if a revoked key would work again.
 */
export async function preparePatch(
  patches: readonly RecordPatch[],
  nowMs: number,
): Promise<(records: Records) => EditResult<unknown>> {
  const collector = new RecordCollector(() => true);
  for (const [index, { record, after }] of patches.entries()) {
    collector[record](parsed(after), ["changes", index]);
  }
  const { records: fresh, damaged } = await collector.end({ keys: [], accounts: [] }, nowMs);
  const mistakes = damaged.flatMap((one) => one.mistakes);
  if (mistakes.length > 0) {
    const lines = mistakes.map(({ path, why }) => `${path.join(".")}: ${why}`);
    return () => usageRefusal(lines.join("\n"));
  }
  const expected = new Map(patches.map(({ before, after }) => [after, before]));
  return (records) => {
    const accounts = merge(records.accounts, fresh.accounts, { encode: encodeAccount, expected });
    const keys = merge(records.keys, fresh.keys, { encode: encodeKey, expected });
    if (accounts === undefined || keys === undefined) {
      return conflictRefusal("Cannot change the records: others have changed them since");
    }
    const restored = fresh.keys.find((key) => isRestored(key, findById(records.keys, key.id)));
    if (restored !== undefined) {
      return usageRefusal(`Cannot change key ${restored.id} as it is revoked: it stays revoked`);
    }
    return { ok: true, records: { keys, accounts } };
  };
}

/** Whether a change takes a revocation away or puts it off. */
function isRestored(key: KeyRecord, was: KeyRecord | undefined): boolean {
  return was?.revokedMs !== undefined && !(Number(key.revokedMs) <= was.revokedMs);
}

type MergeOptions<T> = {
  readonly encode: (one: T) => string;
  /** The text that each record had before, by its text after. */
  readonly expected: ReadonlyMap<string, string | null>;
};

function merge<T extends AccountRecord | KeyRecord>(
  before: readonly T[],
  fresh: readonly T[],
  { encode, expected }: MergeOptions<T>,
): readonly T[] | undefined {
  if (fresh.length === 0) return before;
  const byId = new Map(fresh.map((one) => [one.id, one]));
  const present = new Map(before.flatMap((one) => (byId.has(one.id) ? [[one.id, one]] : [])));
  for (const one of fresh) {
    const old = present.get(one.id);
    const text = old === undefined ? null : encode(old);
    if (text !== expected.get(encode(one))) return undefined;
  }
  const replaced = before.map((one) => byId.get(one.id) ?? one);
  return [...replaced, ...fresh.filter(({ id }) => !present.has(id))];
}

/**
 * The records in the lines of an export. Rejects with an Error that names the first line that is
 * not a record.
 */
export async function decodeExport(text: string, nowMs: number): Promise<Records> {
  const collector = new RecordCollector();
  await inSlices(text.split("\n"), (line, index) => {
    if (line === "") return;
    const { record, ...value } = parsed(line) as { readonly record?: unknown };
    if (record === "account") collector.account(value, ["line", index + 1]);
    else collector.key(value, ["line", index + 1]);
  });
  const { records, damaged } = await collector.end({ keys: [], accounts: [] }, nowMs);
  const [mistake] = damaged.flatMap((one) => one.mistakes);
  if (mistake === undefined) return records;
  throw new Error(
    `Cannot read the records of the gateway: ${mistake.path.join(" ")}: ${mistake.why}`,
  );
}

function parsed(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}
