import { randomInt } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type { Edited, Keyring } from "../../core/keys/keyring-rules.ts";
import type { Records } from "../../core/keys/records.ts";
import type { KeyStore } from "./key-store.ts";

/** The means of making keys: the configuration's names, the system's randomness, and the clock. */
export function ringOf(
  { keyPrefix, environments, plans }: Pick<Config, "keyPrefix" | "environments" | "plans">,
  nowMs: number,
): Keyring {
  return { keyPrefix, environments, plans, random: (max) => randomInt(max), nowMs };
}

/** Puts an edit of core/keys to the newest records; one that is refused leaves them as they are. */
export function editKeys<T>(
  keys: KeyStore,
  edit: (records: Records) => Edited<T>,
): Promise<Edited<T>> {
  return keys.change((records) => {
    const result = edit(records);
    return { records: result.ok ? result.records : records, result };
  });
}
