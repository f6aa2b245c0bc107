import { inSlices } from "../../../base/event-loop.ts";
import { earliestEnd, type KeyRecord, type Records } from "../../../core/keys/records.ts";

/** Keys with the ends that are known here, and how many of them had none, or a later one. */
export type RevocationMerge = { readonly keys: readonly KeyRecord[]; readonly changed: number };

type Known = {
  readonly records: Pick<Records, "keys">;
  /** By the digest. */
  find(digest: string): KeyRecord | undefined;
};

/**
 * Keys that were taken away here stay away, though the store has forgotten that (a failover, a backup
 * that was restored). `known` has the keys as they are known here; `isOlder`: what was found is older
 * than what is known. Keys that are found as they are known cost next to nothing.
 */
export async function keepRevocations(
  found: readonly KeyRecord[],
  known: Known,
  isOlder: boolean,
): Promise<RevocationMerge> {
  const keys = [...found];
  let changed = 0;
  await inSlices(found, (key, i) => {
    if (key === known.records.keys[i]) return;
    const own = known.find(key.digest);
    if (own === undefined || own === key || own.id !== key.id) return;
    // An expiry may be put off, a revocation never: in the order of changes the later one holds.
    if (!isOlder && (own.revokedMs === undefined || key.revokedMs !== undefined)) return;
    const { expiresMs: _, ...endless } = own;
    const ended = earliestEnd(key, isOlder ? own : endless);
    if (ended === key) return;
    keys[i] = ended;
    changed += 1;
  });
  return { keys, changed };
}
