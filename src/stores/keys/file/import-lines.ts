import { parseJson } from "../../../base/parse-json.ts";
import { decodeUtf8, NOT_UTF8 } from "../../../base/utf8.ts";
import { damagedFileError } from "../../files/damaged-file.ts";
import { findSyntaxMistake } from "../../files/json-position.ts";
import { exportLines } from "./export-records.ts";
import { decodeKeyFile } from "./file-format.ts";

/**
 * One parsed line: its place, for people, and its value, or the mistake for which it has none.
 * `isKept`: it is of a whole key file, whose records were in force as they are.
 */
export type ImportLine = {
  readonly at: string;
  readonly value: unknown;
  readonly mistake?: string | undefined;
  readonly isKept?: boolean;
};

/** The start of a list, as `keys export --json` prints one. */
const LIST = /^\s*\[/;

/** The start of a whole file of records. No line of an export starts like this. */
const KEY_FILE = /^\s*\{\s*"version"\s*:\s*\d+\s*,\s*(?:"id"\s*:\s*"[^"]*"\s*,\s*)?"keys"/;

/**
 * The lines to import: those of an export, the records of a list, or those of a whole key file or of
 * a copy of one.
 * The file may begin with a byte order mark, as files from Windows do.
 * Rejects with DamagedFileError if a key file or its copy is damaged.
 */
export async function readLines(
  file: string,
  bytes: Buffer,
  nowMs: number,
): Promise<readonly ImportLine[]> {
  const text = decodeUtf8(bytes);
  if (text === undefined) return linesOfOther(file, bytes);
  if (LIST.test(text)) return linesOfList(file, text);
  if (!KEY_FILE.test(text)) return linesOf(file, text.split("\n"));
  const { records, damaged: broken } = await decodeKeyFile(file, text, { nowMs });
  const mistakes = broken.flatMap((each) => each.mistakes);
  if (mistakes.length > 0) throw damagedFileError(file, text, mistakes);
  return [...exportLines(records)].map((line) => {
    return { at: file, value: parseJson(line), isKept: true };
  });
}

/** The records of a list as lines, each named by its place in the list. */
function linesOfList(file: string, text: string): readonly ImportLine[] {
  const values = parseJson(text);
  if (Array.isArray(values)) {
    return values.map((value, index) => ({ at: `${file}: record ${index + 1}`, value }));
  }
  const found = findSyntaxMistake(text);
  const at = `${file}:${found?.line}:${found?.column}`;
  return [{ at, value: undefined, mistake: `it is no JSON: ${found?.why}` }];
}

/** The lines of a file that is not UTF-8 as a whole. Of a key file or a list those alone that are not. */
function linesOfOther(file: string, bytes: Buffer): readonly ImportLine[] {
  // Each byte is a character here, and in UTF-8 a line feed is never part of another one.
  const text = bytes.toString("latin1");
  const lines = text.split("\n").map((line) => decodeUtf8(Buffer.from(line, "latin1")));
  const read = linesOf(file, lines);
  const isWhole = KEY_FILE.test(text) || LIST.test(text);
  return isWhole ? read.filter(({ mistake }) => mistake !== undefined) : read;
}

/**
 * Parses lines; `file` is the file that they came from. Empty lines are skipped. A line may hold a
 * key and is never repeated.
 */
function linesOf(file: string, lines: readonly (string | undefined)[]): readonly ImportLine[] {
  return lines.flatMap((line, index) => {
    const at = `${file}:${index + 1}`;
    if (line === undefined) return [{ at, value: undefined, mistake: NOT_UTF8 }];
    return line.trim() === "" ? [] : [{ at, value: parseJson(line) }];
  });
}
