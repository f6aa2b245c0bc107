import type { Records } from "../../../core/keys/records.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";

/**
 * Records as lines of JSON, accounts first: digests, never keys (docs/reference/keys.md#transfer).
 * The import that brought a record here is left out, because elsewhere it is another one.
 */
export function exportLines({ keys, accounts }: Records): Generator<string> {
  return recordLines({ keys: keys.map(withoutImport), accounts: accounts.map(withoutImport) });
}

/** The same with all that the records hold, for a command that changes them from elsewhere. */
export function* recordLines({ keys, accounts }: Records): Generator<string> {
  for (const account of accounts) yield marked("account", encodeAccount(account));
  for (const key of keys) yield marked("key", encodeKey(key));
}

function withoutImport<T extends { readonly importId?: string }>(record: T): T {
  return record.importId === undefined ? record : { ...record, importId: undefined };
}

function marked(record: "account" | "key", text: string): string {
  return `{"record":"${record}",${text.slice(1)}`;
}
