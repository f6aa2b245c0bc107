import { type AddressMatcher, addressMatcher } from "../address.ts";
import type { KeyRecord } from "./records.ts";

/** Read once for each list: a record is replaced, never changed. */
const known = new WeakMap<readonly string[], AddressMatcher>();

/** Whether the key works at the client's address (docs/reference/keys.md#networks). */
export function isKeyAllowedFrom({ from }: Pick<KeyRecord, "from">, client: string): boolean {
  if (from.length === 0) return true;
  const networks = known.get(from) ?? addressMatcher(from);
  known.set(from, networks);
  return networks(client);
}
