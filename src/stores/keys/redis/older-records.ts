import { inSlices } from "../../../base/event-loop.ts";
import { findById } from "../../../core/keys/record-index.ts";
import type { Records } from "../../../core/keys/records.ts";
import type { RecordChanges } from "../records/record-changes.ts";
import { accountDifferences, keyDifferences } from "../records/record-differences.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";
import { isEqual } from "./lost-write.ts";

/**
 * The names of the known records that are other in an older state, each with what `keys import`
 * would say that differs; a name of a key or its expiry has no such word. Undefined if no record is
 * other than it is known: then nothing but records that are gone was lost.
 */
export async function differencesFrom(
  known: Records,
  { keys, accounts }: RecordChanges,
  nowMs: number,
): Promise<readonly string[] | undefined> {
  const names: string[] = [];
  let differs = false;
  const note = (name: string, parts: readonly string[] | undefined) => {
    differs = true;
    if (parts !== undefined) names.push(parts.length > 0 ? `${name} (${parts.join(", ")})` : name);
  };
  await inSlices(accounts.made, (account) => {
    const was = findById(known.accounts, account.id);
    if (isEqual(was, account, encodeAccount)) return;
    note(account.id, was && accountDifferences(was, account, nowMs));
  });
  await inSlices(keys.made, (key) => {
    const was = findById(known.keys, key.id);
    if (!isEqual(was, key, encodeKey)) note(`key ${key.id}`, was && keyDifferences(was, key));
  });
  return differs ? names : undefined;
}
