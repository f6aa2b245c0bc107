import { type KeyRecord, soonestEnd } from "../../core/keys/records.ts";

/** Keys with the ends that are known here, and how many of them had none, or a later one. */
export type WithKnownEnds = { readonly keys: readonly KeyRecord[]; readonly changed: number };

/**
 * Keys that were taken away here stay away, though the store has forgotten that (a failover, a backup
 * that was restored). `knownOf` gives a key as it is known here by its digest; `isOlder`: what was
 * found is older than what is known.
 */
export function withKnownEnds(
  found: readonly KeyRecord[],
  knownOf: (digest: string) => KeyRecord | undefined,
  isOlder: boolean,
): WithKnownEnds {
  let changed = 0;
  const keys = found.map((key) => {
    const own = knownOf(key.digest);
    if (own === undefined || own === key || own.id !== key.id) return key;
    // An expiry may be put off, a revocation never: in the order of changes the later one holds.
    if (!isOlder && (own.revokedMs === undefined || key.revokedMs !== undefined)) return key;
    const { expiresMs: _, ...endless } = own;
    const ended = soonestEnd(key, isOlder ? own : endless);
    if (ended !== key) changed += 1;
    return ended;
  });
  return { keys, changed };
}
