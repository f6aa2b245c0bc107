import { isObject } from "../../base/is-object.ts";
import { cleanText } from "../../base/messages.ts";
import type { TextPosition } from "../../base/text-position.ts";
import { formatMistake } from "../../config/file/mistake.ts";
import { maskKeys } from "../../core/keys/key.ts";
import { findPosition, findSyntaxMistake, type JsonPath } from "./json-position.ts";

/** One mistake in a parsed file, by the path of the member. */
export type JsonMistake = { readonly path: JsonPath; readonly why: string };

/** The most mistakes of one file that are listed. With more, the file itself is the wrong one. */
export const MISTAKES_MAX = 20;

/**
 * A file whose content cannot have been written by Tollgate. The file is left as it was, because
 * its operators have to decide. The message has a line `FILE:LINE:COL: what` for each mistake.
 */
export class DamagedFileError extends Error {
  readonly file: string;

  constructor(file: string, mistakes: readonly (TextPosition & { readonly message: string })[]) {
    super(mistakes.map((mistake) => formatMistake({ file, ...mistake })).join("\n"));
    this.name = "DamagedFileError";
    this.file = file;
  }
}

/** The value of a JSON file. Throws DamagedFileError with the first place that is not JSON. */
export function parseFile(file: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const { line, column, why } = findSyntaxMistake(text) as TextPosition & { why: string };
    const message = `Cannot read this as JSON: ${why}. Repair it, or put a copy in its place`;
    throw new DamagedFileError(file, [{ line, column, message }]);
  }
}

/** The error to throw for mistakes, with their places in the text. */
export function damagedFileError(
  file: string,
  text: string,
  mistakes: readonly JsonMistake[],
): DamagedFileError {
  const told = mistakes.slice(0, MISTAKES_MAX).map(({ path, why }) => {
    const member = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`));
    const name = member.join("").replace(/^\./, "") || "the file";
    return { ...findPosition(text, path), message: cleanText(`Cannot use ${name}: ${why}`) };
  });
  return new DamagedFileError(file, told);
}

/** Reads members of a parsed file or notes a mistake, so that several are reported at once. */
export class JsonMemberReader {
  readonly mistakes: JsonMistake[] = [];

  /** Whether there are too many mistakes to list more, so that reading on is of no use. */
  get full(): boolean {
    return this.mistakes.length >= MISTAKES_MAX;
  }

  object(value: unknown, path: JsonPath): Record<string, unknown> {
    if (isObject(value)) return value;
    this.note(path, "it must be an object", value);
    return {};
  }

  list(value: unknown, path: JsonPath): readonly unknown[] {
    if (Array.isArray(value)) return value;
    this.note(path, "it must be a list", value);
    return [];
  }

  integer(value: unknown, path: JsonPath, least = 0, most = Number.MAX_SAFE_INTEGER): number {
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) {
      return value;
    }
    this.note(path, `it must be a whole number from ${least} to ${most}`, value);
    return least;
  }

  text(value: unknown, path: JsonPath, pattern: RegExp, wanted: string): string {
    if (typeof value === "string" && pattern.test(value)) return value;
    this.note(path, `it must be ${wanted}`, value);
    return "";
  }

  note(path: JsonPath, why: string, value: unknown, advice = ""): void {
    const found = maskKeys(JSON.stringify(value) ?? "nothing").slice(0, 60);
    this.mistakes.push({ path, why: `${why}: found ${found}${advice}` });
  }

  /** Notes a version that this gateway cannot read; `versions` names those that it reads. */
  noteVersion(path: JsonPath, versions: string, value: unknown): void {
    const advice =
      typeof value === "number" ? ". Run the version that wrote it, or a later one" : "";
    this.note(path, `this gateway reads ${versions}`, value, advice);
  }
}
