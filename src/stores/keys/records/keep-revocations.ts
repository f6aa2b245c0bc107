import { differingIndexes, inSlices } from "../../../base/event-loop.ts";
import { earliestEnd, type KeyRecord, type Records } from "../../../core/keys/records.ts";

/** Keys with the ends that are known here, and how many of them had no end or a later one. */
export type RevocationMerge = { readonly keys: readonly KeyRecord[]; readonly changed: number };

type KnownRecords = {
  readonly records: Pick<Records, "keys">;
  /** By the digest. */
  find(digest: string): KeyRecord | undefined;
};

/**
 * A key that was revoked here stays revoked, even if the store has forgotten that (a failover, a
 * restored backup). `known` has the keys as they are known here. `isOlder`: the keys that were
 * found are older than the known ones. A key that is found as it is known costs next to nothing.
 */
export async function keepRevocations(
  found: readonly KeyRecord[],
  known: KnownRecords,
  isOlder: boolean,
): Promise<RevocationMerge> {
  const keys = [...found];
  let changed = 0;
  await inSlices((await differingIndexes(found, known.records.keys)) ?? [], (i) => {
    const key = found[i];
    if (key === undefined) return;
    const own = known.find(key.digest);
    if (own === undefined || own === key || own.id !== key.id) return;
    // An expiry may be put off, a revocation never. In the order of changes the later expiry holds.
    if (!isOlder && (own.revokedMs === undefined || key.revokedMs !== undefined)) return;
    const { expiresMs: _, ...endless } = own;
    const ended = earliestEnd(key, isOlder ? own : endless);
    if (ended === key) return;
    keys[i] = ended;
    changed += 1;
  });
  return { keys, changed };
}
