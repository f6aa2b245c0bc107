import { randomInt } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type { EditResult, KeyContext } from "../../core/keys/edit-rules.ts";
import type { Records } from "../../core/keys/records.ts";
import type { KeyStore } from "../keys/key-store.ts";

/** The means of making keys: the configuration's names, the system's randomness, and the clock. */
export function keyContextOf(
  { keyPrefix, environments, plans }: Pick<Config, "keyPrefix" | "environments" | "plans">,
  nowMs: number,
): KeyContext {
  return { keyPrefix, environments, plans, random: (max) => randomInt(max), nowMs };
}

/** Puts an edit of core/keys to the newest records; one that is refused leaves them as they are. */
export function applyKeyEdit<T>(
  keys: KeyStore,
  edit: (records: Records) => EditResult<T>,
): Promise<EditResult<T>> {
  return keys.change((records) => {
    const result = edit(records);
    return { records: result.ok ? result.records : records, result };
  });
}
