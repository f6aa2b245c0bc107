import type { Records } from "../../../core/keys/records.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";

/** Records as lines of JSON, accounts first: digests, never keys (docs/reference/keys.md#transfer). */
export function* exportLines({ keys, accounts }: Records): Generator<string> {
  for (const account of accounts) yield marked("account", encodeAccount(account));
  for (const key of keys) yield marked("key", encodeKey(key));
}

function marked(record: "account" | "key", text: string): string {
  return `{"record":"${record}",${text.slice(1)}`;
}
