import { damagedFileError } from "../../files/damaged-file.ts";
import { exportLines } from "./export-records.ts";
import { decodeKeyFile } from "./file-format.ts";

/**
 * One parsed line: its place, for people, and its value. `isKept`: it is of a whole key file, whose
 * records were in force as they are.
 */
export type ImportLine = {
  readonly at: string;
  readonly value: unknown;
  readonly isKept?: boolean;
};

/** The start of a whole file of records. No line of an export starts like this. */
const KEY_FILE = /^\s*\{\s*"version"\s*:\s*\d+\s*,\s*(?:"id"\s*:\s*"[^"]*"\s*,\s*)?"keys"/;

/**
 * The lines to import: those of an export, or the records of a whole key file or of a copy of one.
 * The text may begin with a byte order mark, as files from Windows do.
 * Rejects with DamagedFileError if a key file or its copy is damaged.
 */
export async function readLines(
  file: string,
  marked: string,
  nowMs: number,
): Promise<readonly ImportLine[]> {
  const text = marked.replace(/^\uFEFF/, "");
  if (!KEY_FILE.test(text)) return linesOf(file, text);
  const { records, damaged: broken } = await decodeKeyFile(file, text, { nowMs });
  const mistakes = broken.flatMap((each) => each.mistakes);
  if (mistakes.length > 0) throw damagedFileError(file, text, mistakes);
  return [...exportLines(records)].map((line) => {
    return { at: file, value: parsed(line), isKept: true };
  });
}

/** Parses lines; `file` is the file that they came from. Empty lines are skipped. */
function linesOf(file: string, text: string): readonly ImportLine[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    return [{ at: `${file}:${index + 1}`, value: parsed(line) }];
  });
}

/** Undefined if the line is not JSON. A line may hold a key and is never repeated. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
