import {
  conflictRefusal,
  type EditResult,
  ownerError,
  usageRefusal,
} from "../../../core/keys/edit-rules.ts";
import { findById } from "../../../core/keys/record-index.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";
import { RecordCollector } from "../records/record-collector.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";
import { parseObject } from "./export-records.ts";

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
 * its text before, if one of the texts is not a record or would change what never changes, or if a
 * revoked key would work again.
 */
export async function preparePatch(
  patches: readonly RecordPatch[],
  nowMs: number,
): Promise<(records: Records) => EditResult<unknown>> {
  const collector = new RecordCollector(() => true);
  for (const [index, { record, after }] of patches.entries()) {
    collector[record](parseObject(after), ["changes", index]);
  }
  const { records: fresh, damaged } = await collector.end({ keys: [], accounts: [] }, nowMs);
  const mistakes = damaged.flatMap((one) => one.mistakes);
  if (mistakes.length > 0) {
    const lines = mistakes.map(({ path, why }) => `${path.join(".")}: ${why}`);
    return () => usageRefusal(lines.join("\n"));
  }
  const expected = new Map(patches.map(({ before, after }, index) => [after, { before, index }]));
  return (records) => {
    const accounts = merge(records.accounts, fresh.accounts, { encode: encodeAccount, expected });
    const keys = merge(records.keys, fresh.keys, { encode: encodeKey, expected });
    if (accounts === undefined || keys === undefined || hasDigestOf(records.keys, fresh.keys)) {
      return conflictRefusal("Cannot change the records: others have changed them since");
    }
    const misfit = findMisfit(records, fresh);
    if (misfit !== undefined) {
      return usageRefusal(`changes.${expected.get(misfit.after)?.index}: ${misfit.why}`);
    }
    const restored = fresh.keys.find((key) => isRestored(key, findById(records.keys, key.id)));
    if (restored !== undefined) {
      return usageRefusal(`Cannot change key ${restored.id} as it is revoked: it stays revoked`);
    }
    return { ok: true, records: { keys, accounts } };
  };
}

/** Whether another writer has added one of the new keys, under an id of its own. */
function hasDigestOf(before: readonly KeyRecord[], fresh: readonly KeyRecord[]): boolean {
  const added = fresh.filter(({ id }) => findById(before, id) === undefined);
  const digests = new Set(added.map(({ digest }) => digest));
  return digests.size > 0 && before.some(({ digest }) => digests.has(digest));
}

type Misfit = Pick<RecordPatch, "after"> & { readonly why: string };

/** The first record that would change what never changes, or not fit the account that it names. */
function findMisfit(before: Records, { keys, accounts }: Records): Misfit | undefined {
  for (const account of accounts) {
    const was = findById(before.accounts, account.id);
    if (was === undefined || was.environment === account.environment) continue;
    const why = `the environment of account ${account.id} never changes`;
    return { after: encodeAccount(account), why };
  }
  const made = new Map(accounts.map((account) => [account.id, account]));
  for (const key of keys) {
    const owner = made.get(key.account) ?? findById(before.accounts, key.account);
    const why = keyMisfit(key, findById(before.keys, key.id), owner);
    if (why !== undefined) return { after: encodeKey(key), why };
  }
  return undefined;
}

/**
 * A key stays in its account: the counts, bans and bills of what it used are there. One that was
 * outside its account's environment before can still be revoked.
 */
function keyMisfit(
  key: KeyRecord,
  was: KeyRecord | undefined,
  owner: AccountRecord | undefined,
): string | undefined {
  const changed = (["digest", "environment", "account"] as const).find(
    (part) => was && was[part] !== key[part],
  );
  if (changed !== undefined) return `the ${changed} of key ${key.id} never changes`;
  return was === undefined ? ownerError(key, owner) : undefined;
}

/** Whether a change takes a revocation away or puts it off. */
function isRestored(key: KeyRecord, was: KeyRecord | undefined): boolean {
  return was?.revokedMs !== undefined && !(Number(key.revokedMs) <= was.revokedMs);
}

type MergeOptions<T> = {
  readonly encode: (one: T) => string;
  /** The text that each record had before, by its text after. */
  readonly expected: ReadonlyMap<string, Pick<RecordPatch, "before">>;
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
    if (text !== expected.get(encode(one))?.before) return undefined;
  }
  const replaced = before.map((one) => byId.get(one.id) ?? one);
  return [...replaced, ...fresh.filter(({ id }) => !present.has(id))];
}
