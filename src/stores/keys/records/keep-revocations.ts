import { setImmediate as breathe } from "node:timers/promises";
import { earliestEnd, type KeyRecord, type Records } from "../../../core/keys/records.ts";

/** Records compared before the event loop has its turn: a millisecond or two. */
const AT_ONCE = 2_000;

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
  let [changed, looked] = [0, 0];
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i] as KeyRecord;
    if (key === known.records.keys[i]) continue;
    if (++looked % AT_ONCE === 0) await breathe();
    const own = known.find(key.digest);
    if (own === undefined || own === key || own.id !== key.id) continue;
    // An expiry may be put off, a revocation never: in the order of changes the later one holds.
    if (!isOlder && (own.revokedMs === undefined || key.revokedMs !== undefined)) continue;
    const { expiresMs: _, ...endless } = own;
    const ended = earliestEnd(key, isOlder ? own : endless);
    if (ended === key) continue;
    keys[i] = ended;
    changed += 1;
  }
  return { keys, changed };
}
