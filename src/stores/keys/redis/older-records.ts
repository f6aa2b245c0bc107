import { inSlices } from "../../../base/event-loop.ts";
import { findById } from "../../../core/keys/record-index.ts";
import type { Records } from "../../../core/keys/records.ts";
import { accountDifferences, keyDifferences } from "../file/record-differences.ts";
import type { RecordChanges } from "../records/record-changes.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";
import { isEqual } from "./lost-write.ts";

/**
 * The records of an older state that differ from those known here, and in what, as `keys import`
 * names them. Undefined if each of them is as it is known: then nothing but records that are gone
 * was lost.
 */
export async function differencesFrom(
  known: Records,
  { keys, accounts }: RecordChanges,
  nowMs: number,
): Promise<readonly string[] | undefined> {
  const names: string[] = [];
  let differs = false;
  const note = (name: string, parts: readonly string[]) => {
    differs = true;
    if (parts.length > 0) names.push(`${name} (${parts.join(", ")})`);
  };
  await inSlices(accounts.made, (account) => {
    const was = findById(known.accounts, account.id);
    if (isEqual(was, account, encodeAccount)) return;
    note(account.id, was ? accountDifferences(was, account, nowMs) : []);
  });
  await inSlices(keys.made, (key) => {
    const was = findById(known.keys, key.id);
    if (!isEqual(was, key, encodeKey)) note(`key ${key.id}`, was ? keyDifferences(was, key) : []);
  });
  return differs ? names : undefined;
}
