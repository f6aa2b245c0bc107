import { cleanText, quoteValue } from "../../base/messages.ts";
import type { TextPosition } from "../../base/text-position.ts";

/** A map of a file, as plain values. */
export type YamlMap = Readonly<Record<string, unknown>>;

/** The path to a value in a file: keys of maps and positions in lists. */
export type ConfigPath = readonly (string | number)[];

/** The path as people write it: environments.production.upstreams[0]. The root is "the file". */
export function formatPath(path: ConfigPath): string {
  let text = "";
  for (const part of path) {
    if (typeof part === "number") text += `[${part}]`;
    else if (!/^[A-Za-z0-9_$-]+$/.test(part)) text += `[${quoteValue(part)}]`;
    else text += text === "" ? part : `.${part}`;
  }
  return text === "" ? "the file" : text;
}

/** One string for each path, for maps and sets. */
export function pathKey(path: ConfigPath): string {
  return JSON.stringify(path);
}

/** Whether `path` is `start` or inside it; both as `pathKey` makes them. */
export function isWithin(path: string, start: string): boolean {
  return path === start || start === "[]" || path.startsWith(`${start.slice(0, -1)},`);
}

/** One mistake, with its place. It is printed as `FILE:LINE:COL: message`. */
export type Mistake = TextPosition & { readonly file: string; readonly message: string };

/** Makes a mistake from words about a file, so that nothing in it can look like output of Tollgate. */
export function makeMistake(
  file: string,
  { line, column }: TextPosition,
  message: string,
): Mistake {
  return { file, line, column, message: cleanText(message) };
}

/**
 * One line for a mistake, in the format of compilers, so that editors can jump to it
 * (docs/reference/commands.md#mistakes).
 */
export function formatMistake({ message, ...place }: Mistake): string {
  return `${formatPlace(place)}: ${message}`;
}

/** The place alone. */
export function formatPlace({ file, line, column }: Omit<Mistake, "message">): string {
  return `${file}:${line}:${column}`;
}
