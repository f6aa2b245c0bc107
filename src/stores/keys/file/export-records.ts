import { inSlices } from "../../../base/event-loop.ts";
import { parseJson } from "../../../base/parse-json.ts";
import type { Records } from "../../../core/keys/records.ts";
import { RecordCollector } from "../records/record-collector.ts";
import { encodeAccount, encodeKey } from "../records/record-format.ts";
import { withUnixSeconds } from "./unix-instants.ts";

/**
 * Records as lines of JSON, accounts first: digests, never keys (docs/reference/keys.md#transfer).
 * The import that brought a record here is left out, because elsewhere it is another one.
 */
export function exportLines({ keys, accounts }: Records): Generator<string> {
  return recordLines({ keys: keys.map(withoutImport), accounts: accounts.map(withoutImport) });
}

/** The same records as JSON with their instants in Unix seconds, for `--json`. */
export function* exportObjects(records: Records): Generator<string> {
  for (const line of exportLines(records)) yield JSON.stringify(withUnixSeconds(parseObject(line)));
}

/** The lines with all that the records hold, for a command that changes them from elsewhere. */
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

/** The records in the lines of an export. Rejects with the first line that is not a record. */
export async function decodeExport(text: string, nowMs: number): Promise<Records> {
  const collector = new RecordCollector();
  await inSlices(text.split("\n"), (line, index) => {
    if (line === "") return;
    const { record, ...value } = parseObject(line) as { readonly record?: unknown };
    if (record === "account") collector.account(value, ["line", index + 1]);
    else collector.key(value, ["line", index + 1]);
  });
  const { records, damaged } = await collector.end({ keys: [], accounts: [] }, nowMs);
  const [mistake] = damaged.flatMap((one) => one.mistakes);
  if (mistake === undefined) return records;
  throw new Error(
    `Cannot read the records of the gateway: ${mistake.path.join(" ")}: ${mistake.why}`,
  );
}

/** The object that a text is as JSON; an empty one if it is none. */
export function parseObject(text: string): object {
  const value = parseJson(text);
  return typeof value === "object" && value !== null ? value : {};
}
