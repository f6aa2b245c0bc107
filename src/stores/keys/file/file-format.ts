import { inSlices } from "../../../base/event-loop.ts";
import { NO_RECORDS, type Records } from "../../../core/keys/records.ts";
import { damagedFileError, JsonMemberReader, parseFile } from "../../files/damaged-file.ts";
import {
  type DamagedRecord,
  type ReadRecords,
  RecordCollector,
} from "../records/record-collector.ts";
import { encodeAccount, encodeKey, RECORD_VERSION } from "../records/record-format.ts";

/** Records written together: their text stays among the garbage that is cheap to collect. */
const WRITTEN_AT_ONCE = 200;
const HEAD = new RegExp(
  `^\\{"version":${RECORD_VERSION},(?:"id":"([A-Za-z0-9]{1,64})",)?"keys":\\[$`,
);
const MIDDLE = `],"accounts":[`;
const TAIL = "]}";
/** Version 1 had only keys, each with the terms of its account. */
const OLD_HEAD = `{"version":1,"keys":[`;

/**
 * The text of a file of records, in pieces, one record per line. A damaged record is written as it
 * was found, unless the edit has put another in its place. `id` names this set of records.
 */
export function* encodeKeyFile(
  records: Records,
  setAside: readonly DamagedRecord[] = [],
  id?: string,
): Generator<string> {
  const present = new Set<unknown>(
    setAside.length === 0 ? [] : [...records.keys, ...records.accounts],
  );
  const kept = new Set<unknown>(setAside.map((each) => each.kept));
  const raw = (kind: DamagedRecord["kind"]) =>
    setAside
      .filter((each) => each.kind === kind && (each.kept === undefined || present.has(each.kept)))
      .map(({ value }) => JSON.stringify(value));
  const named = id === undefined ? "" : `"id":${JSON.stringify(id)},`;
  yield `{"version":${RECORD_VERSION},${named}"keys":[\n`;
  yield* listText(records.keys, (key) => (kept.has(key) ? undefined : encodeKey(key)), raw("key"));
  yield `${MIDDLE}\n`;
  const accountOf = (account: Records["accounts"][number]) =>
    kept.has(account) ? undefined : encodeAccount(account);
  yield* listText(records.accounts, accountOf, raw("account"));
  yield `${TAIL}\n`;
}

function* listText<T>(
  list: readonly T[],
  textOf: (record: T) => string | undefined,
  raw: readonly string[],
): Generator<string> {
  let first = true;
  for (let from = 0; from < list.length; from += WRITTEN_AT_ONCE) {
    const piece = list.slice(from, from + WRITTEN_AT_ONCE).map(textOf);
    const lines = piece.filter((line) => line !== undefined);
    if (lines.length === 0) continue;
    yield (first ? "" : ",\n") + lines.join(",\n");
    first = false;
  }
  if (raw.length > 0) yield (first ? "" : ",\n") + raw.join(",\n");
  if (!first || raw.length > 0) yield "\n";
}

export type ReadOptions = {
  /** Records that were known before. They stand in for damaged ones. */
  readonly known?: Records;
  /** Unix milliseconds. Decides which key of an older file its account has the terms of. */
  readonly nowMs: number;
};

/**
 * The records of a file, and those among them that are damaged. Rejects with DamagedFileError,
 * naming the places, if the file as a whole was not written by Tollgate.
 */
export async function decodeKeyFile(
  file: string,
  content: Buffer | string,
  { known = NO_RECORDS, nowMs }: ReadOptions,
): Promise<ReadRecords & { readonly id: string | undefined }> {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  const { id, keys, accounts } = (await readByLine(bytes)) ?? wholeFile(file, bytes.toString());
  const collector = new RecordCollector();
  await inSlices(accounts, (value, index) => collector.account(value, ["accounts", index]));
  await inSlices(keys, (value, index) => collector.key(value, ["keys", index]));
  return { ...(await collector.end(known, nowMs)), id };
}

type Values = {
  readonly id: string | undefined;
  readonly keys: readonly unknown[];
  readonly accounts: readonly unknown[];
};

/**
 * Reads the layout that encodeKeyFile writes: 100,000 keys in pieces, line by line from the bytes,
 * because decoding and splitting all of them at once would hold up requests.
 */
async function readByLine(bytes: Buffer): Promise<Values | undefined> {
  const lines = new Lines(bytes);
  const head = lines.next();
  const named = HEAD.exec(head ?? "");
  if (named === null && head !== OLD_HEAD) return undefined;
  const keys = await parseUntil(lines, named === null ? TAIL : MIDDLE);
  if (keys === undefined) return undefined;
  const accounts = named === null ? [] : await parseUntil(lines, TAIL);
  if (accounts === undefined || !lines.isAtEnd) return undefined;
  return { id: named?.[1], keys, accounts };
}

/** The lines of a text in which a line feed ends each line. */
class Lines {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** The lines ahead of `end`. The last is undefined if the text has no line `end`. */
  *until(end: string): Generator<string | undefined> {
    for (let line = this.next(); line !== end; line = this.next()) {
      yield line;
      if (line === undefined) return;
    }
  }

  /** The next line; undefined if no further line ends. */
  next(): string | undefined {
    const end = this.#bytes.indexOf(0x0a, this.#at);
    if (end === -1) return undefined;
    const line = this.#bytes.toString("utf8", this.#at, end);
    this.#at = end + 1;
    return line;
  }
}

/** The values of the lines ahead of `end`. All lines but the last of them have a comma. */
async function parseUntil(lines: Lines, end: string): Promise<unknown[] | undefined> {
  const values: unknown[] = [];
  let isLast = false;
  const isWhole = await inSlices(lines.until(end), (line) => {
    if (line === undefined || isLast) return false;
    isLast = !line.endsWith(",");
    try {
      values.push(JSON.parse(isLast ? line : line.slice(0, -1)));
      return true;
    } catch {
      return false;
    }
  });
  return isWhole && (values.length === 0 || isLast) ? values : undefined;
}

function wholeFile(file: string, text: string): Values {
  const reader = new JsonMemberReader();
  const { version, id, keys, accounts, ...others } = reader.object(parseFile(file, text), []);
  if (reader.mistakes.length > 0) throw damagedFileError(file, text, reader.mistakes);
  if (version !== 1 && version !== RECORD_VERSION) {
    reader.noteVersion(["version"], `versions 1 and ${RECORD_VERSION}`, version);
  }
  if (id !== undefined && (typeof id !== "string" || !/^[A-Za-z0-9]{1,64}$/.test(id))) {
    reader.note(["id"], "it is no id of 1 to 64 letters and digits", id);
  }
  for (const name of Object.keys(others)) reader.note([name], "it is unknown", others[name]);
  const values = {
    id: typeof id === "string" ? id : undefined,
    keys: reader.list(keys, ["keys"]),
    accounts: version === 1 && accounts === undefined ? [] : reader.list(accounts, ["accounts"]),
  };
  if (reader.mistakes.length > 0) throw damagedFileError(file, text, reader.mistakes);
  return values;
}
