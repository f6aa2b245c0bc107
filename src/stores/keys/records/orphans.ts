import { idsOf } from "../../../core/keys/record-index.ts";
import { earliestEnd, type KeyRecord, type Records } from "../../../core/keys/records.ts";
import type { ReadRecords } from "./record-collector.ts";

/**
 * The records of an edit, joined with the keys that were damaged for nothing but the lack of their
 * account, if the edit brings both the account and the key: they stay as they are, with the
 * earliest end. `damaged` is the rest. A key that is another one in the edit is not joined, and
 * neither is one with another number for its caps, which a further key may have been given.
 */
export function joinOrphans(
  damaged: ReadRecords["damaged"],
  { keys, accounts }: Records,
): { readonly records: Records; readonly damaged: ReadRecords["damaged"] } {
  const orphans = new Map(damaged.flatMap(({ orphan }) => (orphan ? [[orphan.id, orphan]] : [])));
  if (orphans.size === 0) return { records: { keys, accounts }, damaged };
  const names = idsOf(accounts);
  const joined = new Set<KeyRecord>();
  const all = keys.map((key) => {
    const orphan = orphans.get(key.id);
    if (orphan === undefined || !names.has(key.account) || !isSameKey(orphan, key)) return key;
    joined.add(orphan);
    const { importId } = key;
    return { ...earliestEnd(orphan, key), ...(importId === undefined ? {} : { importId }) };
  });
  const isLeft = ({ orphan }: ReadRecords["damaged"][number]) => !orphan || !joined.has(orphan);
  return { records: { keys: all, accounts }, damaged: damaged.filter(isLeft) };
}

function isSameKey(orphan: KeyRecord, key: KeyRecord): boolean {
  const isNumbered = orphan.caps === undefined || orphan.caps.number === key.caps?.number;
  return orphan.digest === key.digest && orphan.account === key.account && isNumbered;
}
